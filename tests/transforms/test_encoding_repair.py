"""Encoding repair is ftfy's mojibake repair and Unicode's own definitions, found by a cheap look over whole batches."""

import functools
import json
import re
import tarfile
import time
import unicodedata
from itertools import product
from pathlib import Path

import ftfy
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from ftfy.badness import BADNESS_RE
from hypothesis import given
from hypothesis import strategies as st

from dataplane.registry import operator_class
from dataplane.testing import conformance
from dataplane.transforms.encoding import EncodingRepair, verbose_to_re2

# Every character that ftfy's heuristic speaks of, and some it does not.
TELLING = sorted({c for c in BADNESS_RE.pattern if not c.isascii()} | {chr(code) for code in range(0x80, 0x180)})
SOURCES = [
    "naïve café",
    "“quoted” — dash…",
    "Größe über Straße",
    "Привет, мир",
    "中文，标点。",
    "日本語のテキスト",
    "Ελληνικά",
    "שלום עולם",
    "🙂👍🏽",
    "№ 5 ½",
]
CHARSETS = [
    "latin-1",
    "windows-1252",
    "windows-1251",
    "windows-1250",
    "windows-1253",
    "windows-1254",
    "windows-1257",
    "mac_roman",
    "cp437",
    "iso-8859-2",
]


def repair(*texts: str, **params: bool) -> tuple[list[str], list[dict[str, int]]]:
    rewrite = opened(**params).transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    counts = [{kind: n[i].as_py() for kind, n in rewrite.edits.items() if n[i].as_py()} for i in range(len(texts))]
    return rewrite.text.to_pylist(), counts


@functools.lru_cache
def opened(**params: bool) -> EncodingRepair:
    operator = EncodingRepair(params)
    operator.open()
    return operator


def by_ftfy(text: str) -> str:
    """ftfy.fix_text with every repair but that of mojibake switched off."""
    others = "unescape_html remove_terminal_escapes fix_latin_ligatures fix_character_width uncurl_quotes fix_line_breaks fix_surrogates"
    return str(ftfy.fix_text(text, remove_control_chars=False, normalization=None, **dict.fromkeys(others.split(), False)))


ONLY_MOJIBAKE = dict.fromkeys(("newline", "control", "zero_width", "bidi", "private_use", "nfc"), False)


def broken(text: str, charset: str) -> str:
    return text.encode().decode(charset, errors="replace")


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("encoding_repair") is EncodingRepair
    conformance(EncodingRepair, examples=["plain", "schÃ¶n", "a\r\nb\x00", "e\u0301", "中\u200b文", ""])


@pytest.mark.parametrize("charset", CHARSETS)
def test_mojibake_of_every_charset_is_repaired_as_ftfy_does(charset: str) -> None:
    texts = [broken(text, charset) for text in SOURCES] + [broken(broken(text, charset), charset) for text in SOURCES]
    assert repair(*texts, **ONLY_MOJIBAKE)[0] == [by_ftfy(text) for text in texts]


def test_some_of_that_mojibake_comes_back_whole() -> None:
    got, counts = repair(*(broken(text, "latin-1") for text in SOURCES[:4]))
    assert got == SOURCES[:4]
    assert counts == [{"mojibake": 1}] * 4


@given(
    st.lists(
        st.text(st.one_of(st.sampled_from(TELLING), st.sampled_from("aZ 0.,-\n'\u4e2d"), st.characters(exclude_categories=["Cs"]))),
        max_size=5,
    )
)
def test_any_text_is_repaired_as_ftfy_does(texts: list[str]) -> None:
    assert repair(*texts, **ONLY_MOJIBAKE)[0] == [by_ftfy(text) for text in texts]


@given(st.text(st.sampled_from(TELLING + list("aZ \n.-?,")), max_size=8))
def test_the_first_look_misses_nothing_that_ftfy_finds_bad(text: str) -> None:
    if any(BADNESS_RE.search(line) for line in text.split("\n")):
        assert re_found([text]) == [True]


def test_the_first_look_misses_no_bad_pair_of_characters() -> None:
    pairs = ["".join(pair) for pair in product(TELLING, [*TELLING, " ", "a", "Z", "(", "1"])]
    bad = [pair for pair in pairs if BADNESS_RE.search(pair)]
    assert len(bad) > 10_000
    assert re_found(bad) == [True] * len(bad)


def re_found(texts: list[str]) -> list[bool]:
    found: list[bool] = pc.match_substring_regex(pa.array(texts, pa.large_string()), verbose_to_re2(BADNESS_RE.pattern)).to_pylist()
    return found


def test_a_verbose_pattern_loses_comments_and_space_but_not_what_classes_hold() -> None:
    assert verbose_to_re2("a [# b] # comment [x]\n | \\# \\w") == "(?m)a[# b]|\\#[\\w\\x{80}-\\x{10ffff}]"


def test_one_broken_line_among_good_ones_is_repaired_alone() -> None:
    text = "中文的一行\nschÃ¶n\nплохо"
    assert repair(text) == (["中文的一行\nschön\nплохо"], [{"mojibake": 1}])


@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\r\n\x00\u200b\u0301e\x85\u2028\ufeff"))))
def test_what_comes_out_is_clean_and_counted(text: str) -> None:
    (got,), (counts,) = repair(text, mojibake=False)
    ends = re.findall("\r\n|[\r\x85\u2028\u2029]", text)
    unified = re.sub("\r\n|[\r\x85\u2028\u2029]", "\n", text)
    controls = [c for c in unified if (unicodedata.category(c) == "Cc" and c not in "\n\t") or c in NONCHARACTERS]
    zero_width = [c for c in unified if c in ZERO_WIDTH]
    bidi = [c for c in unified if c in BIDI]
    private = [c for c in unified if unicodedata.category(c) == "Co"]
    kept = "".join(c for c in unified if c not in {*controls, *zero_width, *bidi, *private})
    composed = unicodedata.normalize("NFC", kept)
    assert got == composed
    expected = {"newline": len(ends), "control": len(controls), "zero_width": len(zero_width), "bidi": len(bidi)}
    expected |= {"private_use": len(private), "nfc": int(kept != composed)}
    assert counts == {kind: n for kind, n in expected.items() if n}


NONCHARACTERS = {chr(code) for code in range(0xFDD0, 0xFDF0)} | {"\ufffe", "\uffff"}
ZERO_WIDTH = set("\u00ad\u200b\u2060\u2061\u2062\u2063\u2064\ufeff")
BIDI = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e") | {chr(code) for code in range(0x2066, 0x2070)}


def test_joiners_that_scripts_and_emoji_need_stay() -> None:
    texts = ["👨\u200d👩\u200d👧", "می\u200cخواهم", "क\u094d\u200dष"]
    assert repair(*texts) == (texts, [{}, {}, {}])


@pytest.mark.parametrize("kind", ["mojibake", "newline", "control", "zero_width", "bidi", "private_use", "nfc"])
def test_each_repair_can_be_switched_off(kind: str) -> None:
    text = {
        "mojibake": "schÃ¶n", "newline": "a\r\nb", "control": "a\x01b", "zero_width": "a\u200bb", "bidi": "a\u202eb",
        "private_use": "a\ue000b", "nfc": "e\u0301",
    }[kind]  # fmt: skip
    assert repair(text)[1] == [{kind: 1}]
    assert repair(text, **{kind: False}) == ([text], [{}])


@pytest.mark.parametrize(
    ("text", "folded", "count"),
    [
        ("ＡＢＣ１２３です", "ABC123です", 6),
        ("ｶﾞｷﾞﾊﾟﾝ", "ガギパン", 7),
        ("你好，世界！（ｘ）", "你好，世界！（x）", 1),
        ("全角", "全角", 0),
    ],
)
def test_width_is_folded_where_it_is_asked_for_and_chinese_punctuation_stays(text: str, folded: str, count: int) -> None:
    assert repair(text, width=True) == ([folded], [{"width": count} if count else {}])
    assert repair(text) == ([text], [{}])


def test_repairing_twice_changes_nothing_more() -> None:
    once, _ = repair(*(broken(text, charset) for text in SOURCES for charset in CHARSETS))
    assert repair(*once) == (once, [{}] * len(once))


def test_a_slice_of_a_batch_is_repaired_as_the_batch_is() -> None:
    batch = pa.record_batch({"text": pa.array(["schÃ¶n", "a\rb", "fine", "e\u0301", "x\x00"], pa.large_string())})
    whole = opened().transform(batch)
    part = opened().transform(batch.slice(1, 3))
    assert part.text.to_pylist() == whole.text.to_pylist()[1:4]
    assert {kind: n.to_pylist() for kind, n in part.edits.items()} == {kind: n.to_pylist()[1:4] for kind, n in whole.edits.items()}


@pytest.mark.parametrize(
    "text", ["Ã" * 1_000_000, "Ã\u0083" * 300_000, "â€" * 300_000, "\x00" * 1_000_000, "e\u0301" * 300_000], ids=lambda text: text[:2]
)
def test_a_long_hostile_line_takes_bounded_time(text: str) -> None:
    started = time.process_time()
    repair(text)
    assert time.process_time() - started < 20


def test_ftfys_own_cases_come_out_as_from_ftfy(shared_data: Path) -> None:
    cases = [case for path in sorted((shared_data / "encoding/ftfy_cases").glob("*.json")) for case in json.loads(path.read_text())]
    texts = [case["original"] for case in cases]
    assert len(texts) > 50
    assert repair(*texts, **ONLY_MOJIBAKE)[0] == [by_ftfy(text) for text in texts]


def test_naughty_strings_come_out_as_from_ftfy(shared_data: Path) -> None:
    lines: list[str] = []
    with tarfile.open(shared_data / "encoding/naughty_strings.tar.xz") as archive:
        for member in archive:
            stream = archive.extractfile(member)
            lines += (stream.read() if stream else b"").decode("utf-8", "replace").split("\n")
    assert len(lines) > 500
    assert repair(*lines, **ONLY_MOJIBAKE)[0] == [by_ftfy(line) for line in lines]


def test_runs_of_marks_are_composed_as_unicode_says_and_in_no_square_of_their_length() -> None:
    run = "\u0323\u0301\u0344\u0f73\u05b0"
    for text in (f"e{run * 250}a\u0301", f"{'x' * 700}e{run * 150}{'y' * 700}\u0301", "a\u0301" * 1000, "\u0301" * 999 + "\u0323"):
        assert repair(text)[0] == [unicodedata.normalize("NFC", text)]
    started = time.process_time()
    (marked,), _ = repair("e" + "\u0301\u0323" * 100_000)
    assert (marked[:2], len(marked), time.process_time() - started < 10) == ("\u1eb9\u0323", 200_000, True)
