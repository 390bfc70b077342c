"""The reference words against the tokenizer that they emulate."""

import json
from importlib.resources import files

import pyarrow as pa
import pytest
import spacy
from cut_words import cut_words
from hypothesis import example, given, settings
from hypothesis import strategies as st
from make_word_tables import spacy_tables

from dataplane.kernels.text_signals import SIGNALS, measure
from dataplane.kernels.tokens import MAX_RUN_CHARS
from dataplane.kernels.words import REFERENCE

TOKENIZER = spacy.blank("en").tokenizer
PARTS = st.sampled_from([
    *"aZ5é你.,;:!?'\"-–—_/\\()[]{}<>@#$%^&*+=|~`…°§¢™😀’‘”“«·。、µ²", "..", "...", "--", "---", "'s", "n't", "'ll", "U.S.", "e.g.",
    "a.m", "Mr.",
    "don", "I'm", "km", "GB", "US$", "http://", "www.", ".com", "x.org", ":80", "?q=", "user@", "10", "°C.", ":)", ";-)", "(:", "</3",
    "o'clock",
    "w/o", "and/or", "C++", "9am", "can", "not", "gonna", "Ph.D.", "ſ", "Ǆ", "\u200b", "\ufeff", "人", "ก",
])  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=9).map("".join).filter(bool))
@example("(a.m.:)")
@example("https://user:pass@example.com:8080/a-b?c=d")
@example("......e.g....")
@example("don't've:-))")
def test_words_are_those_of_the_tokenizer(run: str) -> None:
    assert cut_words(run) == [token.text for token in TOKENIZER(run)]


@settings(max_examples=300, deadline=None)
@given(st.text(min_size=1, max_size=12).filter(lambda text: not any(map(str.isspace, text))))
def test_words_of_arbitrary_characters_are_those_of_the_tokenizer(run: str) -> None:
    assert cut_words(run) == [token.text for token in TOKENIZER(run)]


def test_a_run_that_is_too_long_is_cut_and_no_character_is_lost() -> None:
    n = 2 * MAX_RUN_CHARS + 5
    row = dict(zip(SIGNALS, measure(pa.array(["a" * n]), rule=REFERENCE)[0].tolist(), strict=True))
    assert (row["n_chars"], row["n_tokens"], row["mean_word_length"]) == (n, 3, n / 3)


@pytest.mark.parametrize("name", ["alpha", "lower", "upper", "quote", "icon", "prefix", "suffix", "before_stop", "sentence_end"])
def test_the_stored_facts_are_those_of_the_installed_tokenizer(name: str, facts: dict[str, object], fresh: dict[str, object]) -> None:
    assert facts[name] == fresh[name]


@pytest.mark.parametrize("name", ["currencies", "units", "exceptions"])
def test_the_stored_lists_are_those_of_the_installed_tokenizer(name: str, facts: dict[str, object], fresh: dict[str, object]) -> None:
    assert facts[name] == fresh[name]


@pytest.fixture(scope="module")
def facts() -> dict[str, object]:
    found: dict[str, object] = json.loads(files("dataplane.kernels").joinpath("data/words_en.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def fresh() -> dict[str, object]:
    return spacy_tables()
