"""The fast way of html_text: content stays in its form, frame parts go, and the page's word about itself is kept."""

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.transforms.html_metadata import metadata
from dataplane.transforms.html_page import Page
from dataplane.transforms.html_text import HtmlText
from dataplane.transforms.main_content import content
from dataplane.transforms.markdown import markdown

PROSE = "This paragraph says at some length what the page is about, so that it is found. " * 3
LINKS = "<ul>" + "".join(f"<li><a href=/{i}>Another page {i}</a></li>" for i in range(12)) + "</ul>"


def parsed(html: str) -> Page:
    page = Page.parse(html)
    assert page is not None
    return page


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>A</h1><p>b <b>c</b>\n d</p><h3>E</h3>f", "# A\n\nb c d\n\n### E\n\nf"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul><ol><li>d<li>e</ol>", "- a\n- b\n  - c\n\n1. d\n2. e"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
        ("x<pre>if a:\n    b\n\n\n\tc</pre>y", "x\n\n```\nif a:\n    b\n\n\n\tc\n```\n\ny"),
        ("a<pre></pre><ul><li></li><li><br>b</ul><h2></h2>c", "a\n\n- b\n\nc"),
        ("<pre><pre></pre></pre>a", "a"),
        ("一<br>二<div>三</div>四", "一\n二\n\n三\n\n四"),
    ],
)
def test_markup_becomes_markdown(html: str, text: str) -> None:
    page = parsed(f"<body>{html}</body>")
    assert markdown(page.data, page.rows) == text


@pytest.mark.parametrize(
    "frame",
    [
        f"<nav>{LINKS}</nav>", f"<div class='site-sidebar'>{LINKS} words</div>", f"<div>{LINKS}</div>", "<footer>Copyright</footer>",
        "<div role=navigation>x y</div>", "<div style='display: none'>x y</div>", "<p hidden>x</p>", "<script>x()</script>",
        "<div id='cookie-banner'>We use cookies.</div>", "<button>Press</button>",
    ],
)  # fmt: skip
def test_frame_parts_go_and_the_text_behind_them_stays(frame: str) -> None:
    page = parsed(f"<html><body>{frame}<article><p>{PROSE}</p>{frame}tail<p>{PROSE}</p></article>{frame}</body></html>")
    assert content(page)[0] == f"{PROSE.strip()}\n\ntail\n\n{PROSE.strip()}"


def test_a_page_of_links_keeps_them_and_one_made_by_scripts_gives_what_noscript_holds() -> None:
    assert content(parsed(f"<body><main>{LINKS}</main></body>"))[0].count("Another page") == 12
    assert content(parsed(f"<body><noscript><p>{PROSE}</p></noscript><div id=app></div></body>"))[0] == PROSE.strip()


def test_an_element_without_its_end_takes_nothing_with_it() -> None:
    assert PROSE.strip() in content(parsed(f"<body><button>menu<div><p>{PROSE}</p></div></body>"))[0]


def test_a_page_says_what_it_is() -> None:
    page = """<html lang=en><head><title>Site - T</title><meta property="og:title" content="T"><meta name=author content="Ann Ex">
    <meta property="article:published_time" content="2024-3-05T01:02:03Z"><link rel="license" href="https://l.test/by"></head></html>"""
    assert metadata(parsed(page)) == {
        "title": "T", "author": "Ann Ex", "date": "2024-03-05", "license": "https://l.test/by", "spdx": None, "lang": "en",
    }  # fmt: skip


def test_linked_data_fills_what_metas_leave_out() -> None:
    page = """<html><head><script type="application/ld+json">{"@graph": [{"headline": "题", "author": [{"name": "王"}],
    "datePublished": "2023-11-30", "inLanguage": "zh"}]}</script><script type="application/ld+json">{broken</script></head></html>"""
    assert metadata(parsed(page)) == {"title": "题", "author": "王", "date": "2023-11-30", "license": None, "spdx": None, "lang": "zh"}


CC = "https://creativecommons.org/licenses/"


@pytest.mark.parametrize(
    ("markup", "spdx"),
    [
        ('<a rel="license" href="//creativecommons.org/licenses/by-sa/4.0/deed.en">x</a>', "CC-BY-SA-4.0"),
        ('<meta name="dcterms.license" content="https://creativecommons.org/publicdomain/zero/1.0/">', "CC0-1.0"),
        ('<meta name="dc.rights" content="Attribution, CC BY-NC 3.0">', "CC-BY-NC-3.0"),
        ('<meta name="copyright" content="© 2020 Ann Ex">', None),
        ('<footer><a href="https://www.gnu.org/licenses/fdl-1.3.html">GFDL</a></footer>', "GFDL-1.3-only"),
        (f'<a href="{CC}by/4.0/">a</a><a href="{CC}by/4.0/deed.fr">b</a>', "CC-BY-4.0"),
        (f'<a href="{CC}by/4.0/">a</a><a href="{CC}by-nd/4.0/">b</a>', None),
        ('<script type="application/ld+json">{"license": "https://opensource.org/licenses/MIT"}</script>', "MIT"),
    ],
)  # fmt: skip
def test_the_licence_of_a_page_has_its_identifier(markup: str, spdx: str | None) -> None:
    assert metadata(parsed(f"<html><head><title>T</title></head><body><p>{PROSE}</p>{markup}</body></html>"))["spdx"] == spdx


def test_what_the_page_says_becomes_signals() -> None:
    page = f"<html lang=de><title>T</title><body><main><p>{PROSE * 2}</p></main></body></html>"
    batch = pa.record_batch({"text": pa.array([page, "plain"], pa.large_string()), "mime": pa.array(["text/html", None])})
    result = HtmlText({"extractor": "cascade"}).transform(batch)
    assert result.text.to_pylist() == [(PROSE * 2).strip(), "plain"]
    assert {name: column.to_pylist() for name, column in result.signals.items()} == {
        "title": ["T", None], "author": [None, None], "date": [None, None], "license": [None, None],
        "spdx": [None, None], "lang": ["de", None], "extractor": ["density", None],
    }  # fmt: skip


@given(st.text(st.sampled_from("<>/pre\n divtablnvultr\"='中&;"), max_size=80))
def test_anything_is_read(markup: str) -> None:
    assert isinstance(content(parsed(markup))[0], str)


@pytest.mark.parametrize("piece", ["<div><nav>a</nav>", "<ul><li>a", "<table><tr><td>", "<span class='ad'>a", "<a href=x>y"])
def test_time_is_linear(piece: str) -> None:
    html = piece * 100_000
    start = time.perf_counter()
    content(parsed(html))
    assert time.perf_counter() - start < 5
