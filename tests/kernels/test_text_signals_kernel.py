"""The kernel against a slow reference written from the published definitions, on arbitrary Unicode."""

import itertools
import json
import math
import re
import unicodedata
from collections import Counter
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
import spacy
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from dataplane.annotators.word_marks import marks, spacy_words
from dataplane.kernels import text_signals
from dataplane.kernels.text_signals import SIGNALS, measure
from dataplane.kernels.words import EXACT, PAPER, REFERENCE

STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}
STOP_CHARACTERS = [{"的"}, {"是"}, {"不"}, {"了"}, {"在"}, {"有"}, {"和"}, {"这", "這"}]
TERMINAL = set(".?!。！？；…」』｡．؟۔।॥։።‼⁇⁈⁉‽")
FACTS = json.loads(files("dataplane.kernels").joinpath("data/words_en.json").read_text(encoding="utf-8"))
LINE_END, SYMBOLS = ({chr(code) for first, last in FACTS[name] for code in range(first, last + 1)} for name in ("line_end", "symbol"))
ENGLISH, SENTENCIZER = spacy.blank("en"), Sentencizer()
MARKER = spacy_words("en")


def is_cjk(char: str) -> bool:
    code = ord(char)
    ranges = [
        (0x3005, 0x3007), (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF),
        (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9D), (0x1B000, 0x1B16F), (0x20000, 0x3FFFD),
    ]  # fmt: skip
    return any(first <= code <= last for first, last in ranges)


def is_letter(char: str) -> bool:
    return 0x20000 <= ord(char) <= 0x3FFFD or char.isalpha()


def runs_of(text: str, rule: int) -> list[str]:
    """What stands between white space; in all rules but EXACT a CJK character stands alone."""
    alone = "" if rule == EXACT else "".join(char for char in set(text) if is_cjk(char))
    return [part for run in text.split() for part in (re.split(f"([{re.escape(alone)}])", run) if alone else [run]) if part]


def split(text: str, rule: int) -> list[str]:
    """Words; those of the reference rule by spaCy itself."""
    if rule == PAPER:
        return runs_of(text, rule)
    return [token.text for run in runs_of(text, rule) for token in ENGLISH.tokenizer(run)]


def joined_length(words: list[str], rule: int) -> int:
    gaps = sum(rule == EXACT or not (is_cjk(a[0]) or is_cjk(b[0])) for a, b in itertools.pairwise(words))
    return sum(map(len, words)) + gaps


def top_gram(words: list[str], n: int, rule: int) -> int:
    grams = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    if not grams:
        return 0
    gram, count = grams.most_common(1)[0]
    return joined_length(list(gram), rule) * count


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


def is_short(line: str, rule: int) -> bool:
    return sum(3.5 if rule != EXACT and is_cjk(char) else 1 for char in line) <= 30


def sentences(line: str, rule: int) -> int:
    """Sentences of spaCy's sentencizer, of words cut by `split`; white space that is not one blank is a word to it."""
    words: list[str] = []
    for part in re.findall(r"\s+|\S+", line):
        words += split(part, REFERENCE if rule == PAPER else rule) if part.strip() else [part] * (part != " ")
    doc = SENTENCIZER(Doc(ENGLISH.vocab, words, [False] * len(words)))
    return sum(bool(sentence.text.strip()) for sentence in doc.sents)


def is_terminal(line: str, rule: int) -> bool:
    if line.endswith("..."):
        return False
    more = set() if rule == EXACT else (TERMINAL | LINE_END | set("”’")) - {"…"}
    return line[-1:] in set(".?!\"'") | more and line != ""


def judged_as_c4(lines: list[str], rule: int) -> dict[str, float]:
    """The rules of C4 by line, without the one on terminal punctuation and with it."""
    found = dict.fromkeys(("javascript_lines", "policy_lines", "n_sentences", "lorem_ipsum_lines", "curly_bracket_lines"), 0)
    found |= dict.fromkeys(("n_terminal_sentences", "lorem_ipsum_terminal_lines", "curly_bracket_terminal_lines"), 0)
    policy = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
    for whole in map(str.strip, lines):
        if len(runs_of(whole, rule)) < 3 or max(len(run) for run in whole.split()) > 1000:
            continue
        line = re.sub(r"\[[0-9]*\]|\[edit\]|\[citation needed\]", "", whole)
        script, minds = "javascript" in line.lower(), any(phrase in line.lower() for phrase in policy)
        judged = ("lorem ipsum" in line.lower(), "{" in line and not script, 0 if script or minds else sentences(line, rule))
        found["javascript_lines"] += script
        found["policy_lines"] += minds
        for kept, names in ((True, ("lorem_ipsum_lines", "curly_bracket_lines", "n_sentences")), (
            is_terminal(line, rule), ("lorem_ipsum_terminal_lines", "curly_bracket_terminal_lines", "n_terminal_sentences"),
        )):  # fmt: skip
            for name, value in zip(names, judged, strict=True):
                found[name] += value if kept else 0
    return dict(found)


def is_ended(line: str, rule: int) -> bool:
    return line[-1] in LINE_END if rule == EXACT else line.strip()[-1] in TERMINAL | LINE_END


def is_solid(word: str) -> bool:
    return any(char not in SYMBOLS for char in word)


def is_capital(char: str) -> bool:
    return not char.islower() and (char.isupper() or char.istitle())


def judged_as_refinedweb(lines: list[str], rule: int) -> list[tuple[bool, bool, bool]]:
    """Whether each line is in capitals, of numbers alone, and of one word."""
    return [
        (
            2 * sum(map(is_capital, line)) > sum(map(is_letter, line)),
            not any(map(is_letter, line)) and any(unicodedata.category(c) == "Nd" for c in line),
            sum(map(is_solid, split(line, rule))) == 1,
        )
        for line in lines
    ]


def reference(text: str, rule: int) -> dict[str, float]:
    words, lines, exact = split(text, rule), text.splitlines(), rule == EXACT
    filled = [line.strip() for line in lines if line.strip()]
    between = [line if exact else line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    solid = [w for w in words if is_solid(w)]
    letters = [c for c in text if is_letter(c)]
    marks = text.count("…") if exact else sum(-(-len(run) // 2) for run in re.findall("…+", text))
    met = [w if rule != PAPER else "".join(c.lower() if c.isascii() else c for c in w) for w in words]
    repeated_filled = repeats([piece for piece in text.split("\n") if piece.strip()] or [""])[1]
    bullet = re.compile(r"[•-]" if exact else r"[•·-]|[一二三四五六七八九十]{1,3}、")
    line_share, line_chars = repeats(re.split(r"\n+", text))
    paragraph_share, paragraph_chars = repeats(re.split(r"\n{2,}", text.strip()))
    often = Counter(words)
    refined = judged_as_refinedweb(lines, rule)

    def share(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    found = {
        "n_chars": len(text),
        "n_words": len(solid),
        "n_tokens": len(words),
        "n_lines": len(lines),
        "n_newlines": text.count("\n"),
        "mean_word_length": share(sum(map(len, solid)), len(solid)),
        "hash_ratio": share(text.count("#"), len(words)),
        "ellipsis_ratio": share(text.count("...") + marks, len(words)),
        "alphabetic_word_share": share(sum(any(map(is_letter, w)) for w in words), len(words)),
        "capital_word_share": share(sum(any(map(is_capital, w)) and not any(map(str.islower, w)) for w in words), len(words)),
        "stop_words": len(STOP_WORDS & set(met)),
        "stop_word_share": share(sum(w in STOP_WORDS for w in met), len(words)),
        "stop_characters": sum(any(c in text for c in variants) for variants in STOP_CHARACTERS),
        "cjk_share": share(sum(map(is_cjk, letters)), len(letters)),
        "digit_share": share(sum(unicodedata.category(c) == "Nd" for c in text), len(text)),
        "capital_share": share(sum(map(is_capital, letters)), len(letters)),
        "curly_bracket_share": share(text.count("{") + text.count("}"), len(text)),
        "bullet_line_share": share(sum(bullet.match(line) is not None for line in filled), len(lines)),
        "ellipsis_line_share": share(sum(line.endswith(("...", "…")) for line in filled), len(lines)),
        "terminal_line_share": share(sum(is_ended(line, rule) for line in between), len(between)),
        "short_line_share": share(sum(is_short(line, rule) for line in between), len(between)),
        "capital_line_share": share(sum(line[0] for line in refined), len(lines)),
        "numeric_line_share": share(sum(line[1] for line in refined), len(lines)),
        "one_word_line_share": share(sum(line[2] for line in refined), len(lines)),
        "long_lines": sum(len(line) >= 200 for line in between),
        **judged_as_c4(lines, rule),
        "duplicate_line_share": line_share,
        "duplicate_line_char_share": share(line_chars, len(text)),
        "duplicate_paragraph_share": paragraph_share,
        "duplicate_paragraph_char_share": share(paragraph_chars, len(text)),
        "duplicate_filled_line_char_share": share(repeated_filled, len(text) - text.count("\n")),
        "distinct_word_share": share(len(often), len(words)),
        "word_entropy": -sum(n / len(words) * math.log(n / len(words)) for n in often.values()),
    }
    again = [n for n in range(1, 11) if max(Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)).values(), default=0) > 1]
    found["longest_repeated_gram"] = max(again, default=0)
    found |= {f"top_{n}_gram_share": min(share(top_gram(words, n, rule), len(text)), 1.0) for n in (2, 3, 4)}
    return found | {f"duplicate_{n}_gram_share": share(duplicate_grams(words, n), len(text)) for n in range(5, 11)}


def measured(text: str, rule: int = REFERENCE) -> dict[str, float]:
    column = pa.array([text], pa.large_string())
    known = marks(column, MARKER) if rule == EXACT else None
    return dict(zip(SIGNALS, measure(column, rule=rule, marks=known)[0].tolist(), strict=True))


PIECES = st.sampled_from([
    "the", "Be", "to ", " of", "和", "这", "這", "是的", "...", "……", "…", "\n", "\n\n", "\r\n", "\x85", "\u2028", "#", "-", "•", "·", "。",
    "十二、", "一、", "!?", "a", " a", " a b", "x_y", "3.14", "e\u0301", "𠀀", "ｶﾅ", "\u3000", "\x00", "\x1c", "\u200d", "한국어", "🙂",
    "'s", "{", "[1]", "[edit] ", "5km", "don't", "(e.g.", "a.m.",
    ":)", "http://a-b.com/c-d", "U.S.", "--", "x:y", "GRAND ", "9 ", "Lorem ipsum ", "JavaScript",
    "use cookies", " privacy policy ", ". ", ".) ", "! ", "three short words ", "w" * 1001,
])  # fmt: skip
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=60).map("".join))


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from([PAPER, REFERENCE]))
@example("a b a b a b a b", REFERENCE)
@example("a a a a a a a a a a a a a a a a a a a a a a a", REFERENCE)
@example("one two three four five six\n" * 7, REFERENCE)
@example("天地玄黄宇宙洪荒" * 9, REFERENCE)
@example("\n\n\n", REFERENCE)
@example("\n" * 8, REFERENCE)
@example("\x00THE", PAPER)
@example("A\ufada\u3007", PAPER)  # no letters, though their blocks are CJK
@example("  \n \n\n x \n", PAPER)
def test_kernel_equals_the_reference_on_arbitrary_text(text: str, rule: int) -> None:
    got, want = measured(text, rule), reference(text, rule)
    assert set(got) == set(want)
    assert got == pytest.approx(want, rel=1e-12, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
@example("one two")
def test_marked_words_and_literal_definitions_equal_the_reference(text: str) -> None:
    whole = [token.text for token in ENGLISH.tokenizer(text) if not token.is_space]
    assume(whole == split(text, EXACT))  # exceptions that overlap over white space are cut in another way
    assert measured(text, EXACT) == pytest.approx(reference(text, EXACT), rel=1e-12, abs=1e-9)


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
@given(st.binary(max_size=200), st.sampled_from([PAPER, REFERENCE]))
def test_bytes_that_are_no_utf8_are_measured_without_harm(octets: bytes, rule: int) -> None:
    offsets = pa.py_buffer(np.array([0, len(octets)], np.int64).tobytes())
    broken = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(octets)])
    row = dict(zip(SIGNALS, measure(broken, rule=rule)[0].tolist(), strict=True))
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
