"""Code inside pages stays as it was written, whatever extractor reads it, and real pages give their main text."""

import gzip
import html
import json
import re
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.registry import operator_class
from dataplane.testing import Example, conformance
from dataplane.transforms.html_text import HtmlText

PROSE = "<p>" + "This paragraph talks about the program below, and says at some length what it is for. " * 3 + "</p>"
PROSE_ZH = "<p>" + "这一段讨论下面的程序，并比较详细地说明它的用途、写法和注意事项，供读者参考。" * 4 + "</p>"
CODE = "def f(a):\n    if a < 1:\n\treturn   {1: 2}\n\n\n    return None  # 中文 注释"
EXTRACTORS = ["trafilatura", "resiliparse"]


def extract(page: str, extractor: str) -> str:
    batch = pa.record_batch({"text": pa.array([page], pa.large_string()), "mime": pa.array(["text/html"])})
    text: str = HtmlText({"extractor": extractor}).transform(batch).text[0].as_py()
    return text


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("html_text") is HtmlText
    page = Example(f"<title>T</title>{PROSE}<pre>{html.escape(CODE)}</pre>", columns={"mime": "text/html"})
    conformance(HtmlText, examples=[page, Example("<p>no page</p>", columns={"mime": "text/plain"})])


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize("prose", [PROSE, PROSE_ZH])
@pytest.mark.parametrize(
    "markup",
    ["<pre>{}</pre>", "<PRE class='x'><code>{}\n</code></PRE>", "<pre>\n{}</pre>", "<div class=hl><pre><span>{}</span></pre></div>"],
)
def test_code_blocks_stay_as_they_were_written(extractor: str, prose: str, markup: str) -> None:
    text = extract(f"<html><body><article>{prose}{markup.format(html.escape(CODE))}{prose}</article></body></html>", extractor)
    assert CODE in text
    assert re.search(r"[␊␠␉]", text) is None


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_a_page_that_shows_the_signs_keeps_them(extractor: str) -> None:
    text = extract(
        f"<html><body><article>{PROSE}<p>The sign ␠ stands for a space, and ␊ for a line feed.</p>{PROSE}</article></body></html>",
        extractor,
    )
    assert "The sign ␠ stands for a space, and ␊ for a line feed." in text


@given(st.text(st.sampled_from("<>/pre \n\tab中&;"), max_size=60))
def test_any_markup_gives_text_without_signs(markup: str) -> None:
    for extractor in EXTRACTORS:
        assert re.search(r"[␊␠␉]", extract(f"<html><body>{PROSE}{markup}{PROSE}", extractor)) is None


@pytest.mark.slow
def test_articles_are_found_as_well_as_published(shared_data: Path) -> None:
    """Word F1 on the first 40 pages of the Zyte article benchmark; trafilatura's published 4-gram F1 is .958."""
    with tarfile.open(shared_data / "html/zyte/aeb.tar.xz") as archive:
        gold = json.load(archive.extractfile("ground-truth.json"))  # type: ignore[arg-type]
        scores = []
        for key in sorted(gold)[:40]:
            stream = archive.extractfile(f"html/{key}.html.gz")
            page = gzip.decompress(stream.read() if stream else b"").decode("utf-8", "replace")
            scores.append(word_f1(extract(page, "trafilatura"), gold[key]["articleBody"]))
    assert sum(scores) / len(scores) > 0.93


def word_f1(got: str, want: str) -> float:
    words, gold = (Counter(re.findall(r"\w+", text.lower())) for text in (got, want))
    return 2 * sum((words & gold).values()) / max(1, sum(words.values()) + sum(gold.values()))
