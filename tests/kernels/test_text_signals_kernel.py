"""The kernel against a slow reference written from the published definitions, on arbitrary Unicode."""

import itertools
import re
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dataplane.kernels import text_signals
from dataplane.kernels.text_signals import SIGNALS, measure

STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}
STOP_CHARACTERS = [{"的"}, {"是"}, {"不"}, {"了"}, {"在"}, {"有"}, {"和"}, {"这", "這"}]
TERMINAL = set(".?!。！？；…」』｡．؟۔।॥։።‼⁇⁈⁉‽")


def is_cjk(char: str) -> bool:
    code = ord(char)
    ranges = [
        (0x3005, 0x3007), (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF),
        (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9D), (0x1B000, 0x1B16F), (0x20000, 0x3FFFD),
    ]  # fmt: skip
    return any(first <= code <= last for first, last in ranges)


def is_word_char(char: str) -> bool:
    if 0x20000 <= ord(char) <= 0x3FFFD:
        return True
    category = unicodedata.category(char)
    return category[0] in "LMN" or category == "Pc" or char in "\u200c\u200d\u00ad"


def is_letter(char: str) -> bool:
    return 0x20000 <= ord(char) <= 0x3FFFD or char.isalpha()


def split(text: str, *, paper: bool) -> list[str]:
    words: list[str] = []
    before = " "
    for char in text:
        if not char.isspace():
            joins = not before.isspace() and not is_cjk(before) and not is_cjk(char)
            if joins and (paper or is_word_char(before) == is_word_char(char)):
                words[-1] += char
            else:
                words.append(char)
        before = char
    return words


def joined_length(words: list[str]) -> int:
    gaps = sum(not (is_cjk(a[0]) or is_cjk(b[0])) for a, b in itertools.pairwise(words))
    return sum(map(len, words)) + gaps


def top_gram(words: list[str], n: int) -> int:
    grams = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    if not grams or max(grams.values()) < 2:  # what comes once is no repetition
        return 0
    gram, count = grams.most_common(1)[0]
    return joined_length(list(gram)) * count


def duplicate_grams(words: list[str], n: int) -> int:
    seen, chars, at = set(), 0, 0
    while at + n <= len(words):
        gram = tuple(words[at : at + n])
        if gram in seen:
            chars += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1
    return chars


def repeats(pieces: list[str]) -> tuple[float, int]:
    again = [piece for i, piece in enumerate(pieces) if piece in pieces[:i]]
    return len(again) / len(pieces), sum(map(len, again))


def is_short(line: str) -> bool:
    return sum(3.5 if is_cjk(char) else 1 for char in line) <= 30


def sentences_as_c4(line: str) -> int:
    """Stops count where white space, the end, or nothing but a wide stop before it follows."""
    stops, closing = "".join(sorted(TERMINAL & set(".!?。！？；…」』｡．"))), ".!?\"')]”’」』。！？）"
    count, begun, at = 0, 0, 0
    while at < len(line):
        if line[at] in stops and line[at] not in "…":
            after = at + 1
            while after < len(line) and line[after] in closing:
                after += 1
            if after == len(line) or ord(line[at]) > 255 or line[after].isspace():
                count, begun, at = count + 1, after, after
                continue
        at += 1
    return count + (begun < len(line))


def judged_as_c4(lines: list[str]) -> dict[str, float]:
    """The rules of C4 by line, without the one on terminal punctuation."""
    found = {"n_sentences": 0, "lorem_ipsum_lines": 0, "curly_bracket_lines": 0}
    policy = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
    for line in map(str.strip, lines):
        words = split(line, paper=True)
        if len(words) < 3 or max(len(run) for run in line.split()) > 1000:
            continue
        found["lorem_ipsum_lines"] += "lorem ipsum" in line.lower()
        if "javascript" in line.lower():
            continue
        found["curly_bracket_lines"] += "{" in line
        if not any(phrase in line.lower() for phrase in policy):
            found["n_sentences"] += sentences_as_c4(line)
    return dict(found)


def reference(text: str, *, paper: bool) -> dict[str, float]:
    words, lines = split(text, paper=paper), text.splitlines()
    filled = [line.strip() for line in lines if line.strip()]
    solid = [w for w in words if any(is_letter(c) or unicodedata.category(c)[0] == "N" for c in w)]
    letters = [c for c in text if is_letter(c)]
    ellipses = sum(len(run) // 3 for run in re.findall(r"\.+", text)) + sum(-(-len(run) // 2) for run in re.findall("…+", text))
    seen = [piece for piece in text.split("\n") if piece.strip()]
    repeated_filled = repeats(seen)[1] if seen else 0
    bullet = re.compile(r"[•·-]|[一二三四五六七八九十]{1,3}、")
    line_share, line_chars = repeats(re.split(r"\n+", text))
    paragraph_share, paragraph_chars = repeats(re.split(r"\n{2,}", text.strip()))

    def share(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    found = {
        "n_chars": len(text),
        "n_words": len(solid),
        "n_lines": len(lines),
        "mean_word_length": share(sum(map(len, solid)), len(solid)),
        "hash_ratio": share(text.count("#"), len(words)),
        "ellipsis_ratio": share(ellipses, len(words)),
        "alphabetic_word_share": share(sum(any(map(is_letter, w)) for w in words), len(words)),
        "stop_words": len(STOP_WORDS & {w.lower() for w in words if w.isascii()}),
        "stop_characters": sum(any(c in text for c in variants) for variants in STOP_CHARACTERS),
        "cjk_share": share(sum(map(is_cjk, text)), len(letters)),
        "digit_share": share(sum(unicodedata.category(c) == "Nd" for c in text), len(text)),
        "n_tokens": len(words),
        "n_newlines": text.count("\n"),
        "bullet_line_share": share(sum(bullet.match(line) is not None for line in filled), len(lines)),
        "ellipsis_line_share": share(sum(line.endswith(("...", "…")) for line in filled), len(lines)),
        "terminal_line_share": share(sum(line[-1] in TERMINAL for line in filled), len(filled)),
        "short_line_share": share(sum(is_short(line) for line in lines if line.strip()), len(filled)),
        **judged_as_c4(lines),
        "duplicate_line_share": line_share,
        "duplicate_line_char_share": share(line_chars, len(text)),
        "duplicate_paragraph_share": paragraph_share,
        "duplicate_paragraph_char_share": share(paragraph_chars, len(text)),
        "duplicate_filled_line_char_share": share(repeated_filled, len(text) - text.count("\n")),
    }
    found |= {f"top_{n}_gram_share": min(share(top_gram(words, n), len(text)), 1.0) for n in (2, 3, 4)}
    return found | {f"duplicate_{n}_gram_share": share(duplicate_grams(words, n), len(text)) for n in range(5, 11)}


def measured(text: str, *, paper: bool = False) -> dict[str, float]:
    return dict(zip(SIGNALS, measure(pa.array([text], pa.large_string()), paper=paper)[0].tolist(), strict=True))


PIECES = st.sampled_from([
    "the", "Be", "to ", " of", "和", "这", "這", "是的", "...", "……", "…", "\n", "\n\n", "\r\n", "\x85", "\u2028", "#", "-", "•", "·", "。",
    "十二、", "一、", "!?", "a", " a", " a b", "x_y", "3.14", "e\u0301", "𠀀", "ｶﾅ", "\u3000", "\x00", "\x1c", "\u200d", "한국어", "🙂",
    "'s", "{", "Lorem ipsum ", "JavaScript", "use cookies", " privacy policy ", ". ", ".) ", "! ", "three short words ", "w" * 1001,
])  # fmt: skip
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=60).map("".join))


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.booleans())
@example("a b a b a b a b", False)
@example("a a a a a a a a a a a a a a a a a a a a a a a", False)
@example("one two three four five six\n" * 7, False)
@example("天地玄黄宇宙洪荒" * 9, False)
@example("\n\n\n", False)
@example("\x00THE", True)
@example("  \n \n\n x \n", True)
def test_kernel_equals_the_reference_on_arbitrary_text(text: str, paper: bool) -> None:
    got, want = measured(text, paper=paper), reference(text, paper=paper)
    assert list(got) == list(SIGNALS)
    assert got == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_a_document_measures_the_same_in_any_company() -> None:
    texts = ["the cat " * 40, "", "你好。\n" * 9, "a\n\nb\n\na", "x"]
    together = measure(pa.array(texts, pa.large_string()))
    alone = [measure(pa.array([text], pa.string()))[0] for text in texts]
    sliced = measure(pa.array(["other", *texts], pa.large_string())[1:])
    np.testing.assert_array_equal(together, np.array(alone))
    np.testing.assert_array_equal(together, sliced)


def test_null_reads_as_empty_and_no_rows_give_no_rows() -> None:
    np.testing.assert_array_equal(measure(pa.array([None, ""], pa.large_string())), np.zeros((2, len(SIGNALS))))
    assert measure(pa.array([], pa.large_string())).shape == (0, len(SIGNALS))


def test_published_example_values() -> None:
    """Counted by hand."""
    got = measured("The cat sat. The cat sat.\n- one\n- two...\n")
    assert got["n_chars"] == 41
    assert got["n_words"] == 8
    assert got["n_lines"] == 3
    assert got["mean_word_length"] == 3.0
    assert got["ellipsis_ratio"] == 1 / 13  # The cat sat . The cat sat . - one - two ...
    assert got["bullet_line_share"] == 2 / 3
    assert got["ellipsis_line_share"] == 1 / 3
    assert got["top_2_gram_share"] == 14 / 41
    assert got["top_3_gram_share"] == 22 / 41


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_bytes_that_are_no_utf8_are_measured_without_harm(octets: bytes, paper: bool) -> None:
    offsets = pa.py_buffer(np.array([0, len(octets)], np.int64).tobytes())
    broken = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(octets)])
    row = dict(zip(SIGNALS, measure(broken, paper=paper)[0].tolist(), strict=True))
    assert row["n_chars"] <= len(octets)
    assert all(0 <= value <= 1 for name, value in row.items() if name.endswith("_share"))


def test_ngrams_of_an_endless_document_are_those_of_its_first_words(monkeypatch: pytest.MonkeyPatch) -> None:
    head = " ".join(f"w{i}" for i in range(90)) + " w1 w2 w3 w4 w5 w6 "
    want = measured(head)
    monkeypatch.setattr(text_signals, "MAX_NGRAM_WORDS", 96)
    got = measured(head + "tail " * 1000)
    grams = [name for name in SIGNALS if name.endswith("gram_share")]
    assert want["duplicate_5_gram_share"] > 0
    assert {name: got[name] for name in grams} == {name: want[name] for name in grams}
    assert got["n_words"] == 1096


def test_chinese_full_stops_and_numbered_lines_are_seen() -> None:
    got = measured("一、天下大势，分久必合。\n二、合久必分……\n· 完")
    assert got["terminal_line_share"] == 2 / 3
    assert got["bullet_line_share"] == 1.0
    assert got["ellipsis_line_share"] == 1 / 3
    assert got["cjk_share"] == 1.0
