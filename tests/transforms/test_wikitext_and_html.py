"""Markup to text: wikitext by its help pages, HTML by what a reader sees."""

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.transforms.html_text import HtmlText
from dataplane.transforms.wikitext import WikiText, plain_text


@pytest.mark.parametrize(
    ("wiki", "text"),
    [
        ("'''Bold''' and ''italic''", "Bold and italic"),
        ("[[Page]], [[Page|label]], [[:Category:X]]", "Page, label, Category:X"),
        ("[[File:a.png|thumb|A [[nested]] caption]]after", "after"),
        ("[[分类:历史]]正文", "正文"),
        ("{{Infobox|a={{nested|b}}|c=d}}Text", "Text"),
        ("a{{unclosed", "a{{unclosed"),
        ("a<ref>note</ref>b<ref name=x />c", "abc"),
        ("<!-- hidden -->shown", "shown"),
        ("{| class=x\n|-\n| cell\n|}\nafter", "cell\n\nafter"),
        ("== Heading ==\ntext", "## Heading\ntext"),
        ("* one\n** two\n# three", "- one\n- two\n- three"),
        ("[http://h.test the label] [http://h.test]", "the label"),
        ("a &amp; b&nbsp;c", "a & b c"),
        ("<b>x</b><br/>y __NOTOC__", "x\ny"),
        ("北京是[[中华人民共和国]]的[[首都]]。", "北京是中华人民共和国的首都。"),
    ],
)
def test_wikitext_becomes_what_a_reader_sees(wiki: str, text: str) -> None:
    assert plain_text(wiki) == text


@given(st.text(st.sampled_from(list("[]{}|<>='-#*& a中\n!/")), max_size=200))
def test_no_wikitext_breaks_the_scan(wiki: str) -> None:
    plain_text(wiki)


@pytest.mark.parametrize("unit", ["{{", "[[", "{|", "<ref>", "<!--", "[[a|", "'''", "=", "{{a}}", "<ref name=", "[http://"])
def test_hostile_wikitext_takes_bounded_time(unit: str) -> None:
    started = time.process_time()
    plain_text(unit * 20_000)
    assert time.process_time() - started < 30


def test_documents_of_other_types_pass_untouched() -> None:
    batch = pa.record_batch({"text": pa.array(["<p>x</p> [[a]]"], pa.large_string()), "mime": pa.array(["text/plain"])})
    for operator in (WikiText(), HtmlText()):
        rewrite = operator.transform(batch)
        assert rewrite.text.to_pylist() == ["<p>x</p> [[a]]"]
        assert [counts.to_pylist() for counts in rewrite.edits.values()] == [[0]]


def page(body: str) -> str:
    navigation = "<nav><ul>" + "".join(f"<li><a href='/{i}'>Menu item {i}</a></li>" for i in range(12)) + "</ul></nav>"
    head = "<head><title> A  title </title></head>"
    return f"<html>{head}<body>{navigation}<article>{body}</article><footer>Copyright 2024</footer></body></html>"


def extract(html: str, **params: object) -> tuple[str, str | None]:
    batch = pa.record_batch({"text": pa.array([html], pa.large_string()), "mime": pa.array(["text/html"])})
    rewrite = HtmlText(params).transform(batch)
    return rewrite.text[0].as_py(), rewrite.signals["title"][0].as_py()


ENGLISH = "".join(
    f"<p>Paragraph {i} tells about the river and the mill, and about the people who lived there for many years.</p>" for i in range(6)
)
CHINESE = "".join(f"<p>第{i}段讲述这条河流和磨坊的故事，也讲述在那里生活了许多年的人们，他们每天清晨就开始劳作。</p>" for i in range(6))


@pytest.mark.parametrize("extractor", ["trafilatura", "resiliparse"])
@pytest.mark.parametrize(("body", "sample"), [(ENGLISH, "Paragraph 3 tells about the river"), (CHINESE, "第3段讲述这条河流和磨坊的故事")])
def test_the_article_stays_and_navigation_goes(body: str, sample: str, extractor: str) -> None:
    text, title = extract(page(body), extractor=extractor)
    assert sample in text
    assert "Menu item" not in text
    assert title == "A title"


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<html>",
        "no markup at all",
        "<" * 10_000,
        "<div>" * 50_000,
        "<span>" * 5_000 + "x" + "</span>" * 5_000,
        "\0<p>x</p>",
        "<p>" + "x" * 1_000_000,
    ],
)
def test_broken_pages_give_some_text_in_bounded_time(html: str) -> None:
    started = time.process_time()
    text, _ = extract(html)
    assert isinstance(text, str)
    assert time.process_time() - started < 60
