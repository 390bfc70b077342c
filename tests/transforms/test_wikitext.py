"""Wikitext becomes what a reader of the page reads, in linear time."""

import bz2
import html
import re
import tarfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.registry import operator_class
from dataplane.testing import Example, conformance
from dataplane.transforms.wikitext import WikiText, plain_text

WIKI = {"mime": "text/x-wiki"}


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("wikitext") is WikiText
    conformance(WikiText, examples=[Example("'''A''' [[b|c]] {{d}}", columns=WIKI), Example("plain", columns={"mime": None})])


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("'''Bold''' and ''italic''", "Bold and italic"),
        ("[[Page]]s and [[Page|words]]", "Pages and words"),
        ("[[:Category:Birds]]", "Category:Birds"),
        ("a [[File:X.png|thumb|a [[cat]] here]] b", "a  b"),
        ("文 [[文件:甲.png|缩略图|说明]]字[[分类:鸟]]", "文 字"),
        ("text [[Category:Birds]][[de:Vogel]]", "text"),
        ("a {{cite|{{date|2020}}|x={{{1|}}} }} b", "a  b"),
        ("a\n{| class=x\n! h\n|-\n| [[c]] {{t}}\n|}\nb", "a\n\nh\nc\n\nb"),
        ('{|\n|+ T\n! a !! style=x | b\n|-\n| colspan="2" | [[c|d]] || e\nmore\n|-\n|}', "T\na | b\nd | e more"),
        ("{{lang|fr|mot}} {{nowrap|5 km}} {{convert|3|mi|km}}{{snd}}{{Infobox|a=b}}{{lang|zh|[[字|词]]}}", "mot 5 km 3 mi – 词"),
        ("a<ref>see {{x}}</ref> b<ref name=y/> c", "a b c"),
        ("a<!-- [[hidden]] --> b", "a b"),
        ("[https://example.org label here] and [//example.org]", "label here and"),
        ("== Head ==\n=== Sub ===\nx", "## Head\n### Sub\nx"),
        ("* a\n** b\n# c\n: d\n;e", "- a\n- b\n- c\nd\ne"),
        ("a &amp; b&nbsp;c<br/>d", "a & b c\nd"),
        ("<nowiki>'''not bold''' [[x]]</nowiki>", "'''not bold''' [[x]]"),
        ("<syntaxhighlight lang=c>\n  if (a)\n\tb[[1]] = {{0}};\n</syntaxhighlight>", "  if (a)\n\tb[[1]] = {{0}};"),
        ("sum <math>\\sum_{{i}} x</math> end", "sum \\sum_{{i}} x end"),
        ("{{box|<pre>gone</pre>}}stays", "stays"),
        ("-{zh-hans:计算机;zh-hant:電腦}-很快", "计算机很快"),
        ("-{H|zh-cn:甲;zh-tw:乙}-文-{丙}-", "文丙"),
        ("__NOTOC__\ntext\n----\nmore", "text\n\nmore"),
        ("#REDIRECT [[Other]]", ""),
        ("#重定向 [[别的]]", ""),
        ("left {{open and [[open", "left {{open and [[open"),
        ("closed }} twice ]] here", "closed }} twice ]] here"),
        ("<ref>never closed\n\nrest", "never closed\n\nrest"),
        ("", ""),
    ],
)
def test_markup_goes_and_words_stay(wikitext: str, text: str) -> None:
    assert plain_text(wikitext).strip("\n") == text


def test_documents_of_other_types_are_left_alone() -> None:
    texts = ["[[a]] {{b}}", "[[a]] {{b}}", "[[a]] {{b}}"]
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string()), "mime": pa.array(["text/plain", None, "text/x-wiki"])})
    rewrite = WikiText({}).transform(batch)
    assert rewrite.text.to_pylist() == ["[[a]] {{b}}", "[[a]] {{b}}", "a"]
    assert rewrite.edits["wikitext"].to_pylist() == [0, 0, 1]


HOSTILE = [
    "{{" * 300_000, "[[" * 300_000, "{{a}}" * 200_000, "[[a|" * 200_000 + "]]" * 200_000, "<!--" * 250_000, "<ref>" * 200_000,
    "<ref " * 200_000, "=" * 1_000_000, "= " * 500_000, "=" + " " * 1_000_000 + "x", " " * 1_000_000 + "x", "[//a" * 250_000,
    "[//a " + " " * 1_000_000, "[//a b" * 200_000, "'" * 1_000_000, "-{" * 500_000, "-{;" * 300_000, "_" * 1_000_000, "&" * 1_000_000,
    "<a " * 300_000, "<nowiki>" * 100_000, "<math>x</math>" * 70_000, "*" * 1_000_000, ("# " * 300_000), "-{zh-cn:" + "a;" * 500_000 + "}-",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:9])
def test_hostile_markup_takes_linear_time(text: str) -> None:
    started = time.process_time()
    plain_text(text)
    assert time.process_time() - started < 5


@given(st.text(st.sampled_from("{}[]|<>!-='*#:;ab \n/ref\x00中"), max_size=60))
def test_any_markup_gives_text_and_loses_no_word_behind_it(text: str) -> None:
    got = plain_text(f"{text}\n</ref></nowiki></pre></math></code>-->\nlast words")
    assert got.endswith("last words")
    assert "\x00" not in got


def test_a_real_dump_is_left_without_markup(shared_data: Path) -> None:
    with tarfile.open(shared_data / "corpus.tar.xz") as archive:
        name = next(name for name in archive.getnames() if name.endswith(".xml.bz2"))
        stream = archive.extractfile(name)
        xml = bz2.decompress(stream.read() if stream else b"").decode()
    pages = [html.unescape(page) for page in re.findall(r"<text [^>]*>([^<]{3000,})</text>", xml)][:100]
    assert len(pages) > 20
    texts = [plain_text(page) for page in pages]
    left = [len(re.findall(r"\[\[|\]\]|\{\{|\}\}|'''|<ref", text)) for text in texts]
    # Authors forget to close a brace now and then; nothing else is left.
    assert sum(left) / sum(len(text) for text in texts) < 1e-3
    assert sum(len(text) for text in texts) > 0.3 * sum(len(page) for page in pages)
