"""Pages of several kinds, made by hand: the content of each is found whole, in its form, and nothing else."""

import time

import pyarrow as pa
import pytest

from dataplane.transforms.html_text import HtmlText

EN = "The river has risen by two metres since Monday, and the bridge at the mill will stay closed until the water falls. "
ZH = "周一以来河水上涨了两米，磨坊旁的桥梁在水位回落之前将继续关闭，请过往车辆绕行。"
NAV = "<nav><ul>" + "".join(f"<li><a href=/{i}>Section {i}</a></li>" for i in range(20)) + "</ul></nav>"
RELATED = "<div class=related-posts><h3>Read next</h3>" + "".join(f"<p><a href=/r{i}>{EN}</a></p>" for i in range(5)) + "</div>"
FOOTER = f"<footer><p>Copyright 2024. {EN}</p><p><a href=/imprint>Imprint</a></p></footer>"
COOKIES = f"<div id=cookie-consent><p>We use cookies. {EN * 2}</p><button>Accept</button></div>"


def frame(content: str, lang: str = "en") -> str:
    head = f"<!doctype html><html lang={lang}><head><title>T</title></head>"
    return f"{head}<body>{COOKIES}<header>{NAV}</header>{content}{FOOTER}</body></html>"


def extract(html: str) -> tuple[str, str]:
    batch = pa.record_batch({"text": pa.array([html], pa.large_string()), "mime": pa.array(["text/html"])})
    result = HtmlText({"extractor": "cascade"}).transform(batch)
    return result.text[0].as_py(), result.signals["extractor"][0].as_py()


def paragraphs(text: str, n: int) -> tuple[str, str]:
    """Paragraphs as HTML and as Markdown."""
    lines = [f"{i} {text.strip()}" for i in range(n)]
    return "".join(f"<p>{line}</p>" for line in lines), "\n\n".join(lines)


@pytest.mark.parametrize("text", [EN, ZH])
def test_an_article_is_its_body_without_its_title_comments_and_what_to_read_next(text: str) -> None:
    html, wanted = paragraphs(text * 2, 4)
    comments = "<section id=comments><h3>Comments</h3>" + f"<p>{text * 3}</p>" * 6 + "</section>"
    page = f"<main><article><h1>The title</h1><p class=byline>By A. N. Other</p>{html}{RELATED}</article>{comments}</main>"
    assert extract(frame(page)) == (wanted, "density")


def test_chinese_news_without_any_telling_element_is_found() -> None:
    html, wanted = paragraphs(ZH * 2, 5)
    links = "<div class=list>" + "".join(f"<a href=/{i}>{ZH[:20]}</a>" for i in range(30)) + "</div>"
    html = f"<div class=w1000><div class=left><div class=box>{html}</div></div><div class=right>{links}</div></div>"
    assert extract(frame(html, "zh")) == (wanted, "density")


@pytest.mark.parametrize("text", [EN, ZH])
@pytest.mark.parametrize(
    "post", ["<div class=post><div class=post-content>{}</div></div>", "<div class=comment><div class=md>{}</div></div>"]
)
def test_all_posts_of_a_thread_are_content(text: str, post: str) -> None:
    posts = [f"{i} {text * 2}".strip() for i in range(6)]
    html = "<div class=thread>" + "".join(post.format(f"<p>{line}</p>") for line in posts) + "</div>"
    page = frame(html).replace("<body>", "<body class=forum>")
    assert extract(page) == ("\n\n".join(posts), "density")


def test_documentation_keeps_headings_lists_tables_and_code() -> None:
    html = f"""<div class=docs-sidebar>{NAV}</div><main><h2>Install</h2><p>{EN * 3}</p><pre>pip install x\n  --upgrade</pre><h3>Options</h3>
    <ul><li>one<li>two</ul><table><tr><th>name<th>default<tr><td>a<td>1</table><p>{EN * 2}</p></main>"""
    assert extract(frame(html)) == (
        f"## Install\n\n{(EN * 3).strip()}\n\n```\npip install x\n  --upgrade\n```\n\n### Options\n\n- one\n- two\n\n"
        f"name | default\na | 1\n\n{(EN * 2).strip()}",
        "density",
    )


def test_a_list_of_teasers_is_content_though_it_is_linked() -> None:
    teasers = [f"{i} {EN.strip()}" for i in range(8)]
    html = "<main>" + "".join(f"<div class=card><h3><a href=/{i}>Card {i}</a></h3><p>{line}</p></div>" for i, line in enumerate(teasers))
    wanted = "\n\n".join(f"### Card {i}\n\n{line}" for i, line in enumerate(teasers))
    assert extract(frame(html + "</main>")) == (wanted, "density")


def test_words_of_frame_parts_around_all_of_the_content_are_not_believed() -> None:
    html, wanted = paragraphs(EN * 2, 5)
    assert extract(frame(f"<div class='page-with-sidebar share'><div id=modal-root><div>{html}</div></div></div>")) == (wanted, "density")


@pytest.mark.parametrize(
    "piece",
    ["<div>", "<b><i>", "</div></b>", "<svg><path>", "<a href='", "<!--", "<script>", "<td><div>", "&lt;<p>x", "<ul><li>x", "\ufffd\0"],
)
def test_hostile_pages_end_in_bounded_time(piece: str) -> None:
    html, _ = paragraphs(EN, 3)
    start = time.perf_counter()
    text, _ = extract(html + piece * 100_000)
    assert time.perf_counter() - start < 10
    assert len(text) <= 20 * len(html + piece * 100_000)
