"""The n-gram model: equal to Kneser-Ney by definition, sums to one, one file for one corpus, survives anything."""

import math
import unicodedata
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.corpus.kneser_ney import FALLBACK_DISCOUNTS, discounts
from dataplane.corpus.ngram_lm import TrainLmParams, train
from dataplane.errors import DataError, ModelMissing
from dataplane.kernels.ngram_lm import BOS, FIRST_CHARACTER, SPACE, UNKNOWN, Model

ENGLISH = ["In the beginning God created the heaven and the earth.", "And the earth was without form, and void;"] * 2
CHINESE = ["我们要坚持改革开放，发展经济。", "改革开放以来，我们的经济发展很快。"]
TEXTS = [*ENGLISH, *CHINESE, "the three trees, the other thing", "改革的经济"]


def params(**values: object) -> TrainLmParams:
    return TrainLmParams.parse({"min_count": 1, "prune_below": 1, **values}, where="train_lm")


def batch(texts: list[str | None], source: str = "trusted") -> pa.RecordBatch:
    return pa.record_batch({"source": [source] * len(texts), "text": pa.array(texts, pa.large_string())})


def folded(text: str) -> list[str]:
    """The characters that the model reads: lower case, half width, "0" for digits, runs of white space as one."""
    chars = []
    for char in " ".join(text.split()):
        wide = unicodedata.normalize("NFKC", char)
        lower = (wide if len(wide) == 1 else char).lower()
        chars.append("0" if char.isdecimal() else (lower if len(lower) == 1 else char))
    return chars


class Reference:
    """Modified Kneser-Ney over dictionaries, by the formulas of Chen and Goodman; nothing is fast."""

    def __init__(self, texts: list[str], order: int, min_count: int = 1, prune_below: int = 1) -> None:
        seen = Counter(char for text in texts for char in text_chars(text))
        self.vocabulary = {char for char, n in seen.items() if n >= min_count} | {" "}
        self.order, self.prune_below = order, prune_below
        self.size = len(self.vocabulary) + 1  # with the unknown character
        self.counts: dict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for text in texts:
            chars = ["<s>", *(self.known(char) for char in folded(text))]
            for n in range(1, order + 1):
                self.counts[n].update(tuple(chars[i : i + n]) for i in range(len(chars) - n + 1))
        self.adjusted = {n: {gram: self.adjust(gram) for gram in self.counts[n] if gram != ("<s>",)} for n in self.counts}
        self.discount = {n: self.discounts_of(n) for n in self.counts}

    def known(self, char: str) -> str:
        return char if char in self.vocabulary else "<unk>"

    def adjust(self, gram: tuple[str, ...]) -> int:
        if len(gram) == self.order or gram[0] == "<s>":
            return self.counts[len(gram)][gram]
        return sum(1 for longer in self.counts[len(gram) + 1] if longer[1:] == gram)

    def discounts_of(self, n: int) -> tuple[float, ...]:
        t = Counter(self.adjusted[n].values())
        if all(t[k] for k in (1, 2, 3)):
            y = t[1] / (t[1] + 2 * t[2])
            d = [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
            if all(0 <= x <= k for k, x in zip((1, 2, 3), d, strict=True)):
                return (0.0, *d)
        return (0.0, *FALLBACK_DISCOUNTS)

    def p(self, char: str, context: tuple[str, ...]) -> float:
        n = len(context) + 1
        lower = self.p(char, context[1:]) if context else 1 / self.size
        following = {gram: a for gram, a in self.adjusted[n].items() if gram[:-1] == context}
        total = sum(following.values())
        if not total:
            return lower
        taken = {gram: self.taken(gram, a) for gram, a in following.items()}
        gram = (*context, char)
        share = (following[gram] - taken[gram]) / total if gram in following else 0.0
        return share + sum(taken.values()) / total * lower

    def taken(self, gram: tuple[str, ...], adjusted: int) -> float:
        if len(gram) >= 3 and self.counts[len(gram)][gram] < self.prune_below:
            return adjusted
        return self.discount[len(gram)][min(adjusted, 3)]

    def log10(self, text: str) -> tuple[float, int]:
        chars = ["<s>", *(self.known(char) for char in folded(text))]
        logs = [math.log10(self.p(chars[i], tuple(chars[max(0, i - self.order + 1) : i]))) for i in range(1, len(chars))]
        return sum(logs), len(logs)


def text_chars(text: str) -> list[str]:
    """What counts as an occurrence for the vocabulary: every character of the text, white space too."""
    return folded("x" + text + "x")[1:-1] if not text.strip() else folded(text)


@cache
def pair(order: int, min_count: int, prune_below: int) -> tuple[Model, Reference]:
    asked = params(order=order, min_count=min_count, prune_below=prune_below)
    return train([batch(list(TEXTS))], asked), Reference(TEXTS, order, min_count, prune_below)


@pytest.mark.parametrize(
    ("order", "min_count", "prune_below"), [(1, 1, 1), (2, 1, 1), (3, 1, 1), (5, 1, 1), (4, 2, 1), (5, 1, 2), (5, 2, 3)]
)
def test_scores_are_those_of_kneser_ney_by_definition(order: int, min_count: int, prune_below: int) -> None:
    model, reference = pair(order, min_count, prune_below)
    texts = [*TEXTS, "In the end the earth", "经济改革，ＡＢＣ 改革", "zzz ξ 123", "a", "  the \n\n  form\t"]
    totals, counts = model.score(pa.array(texts))
    expected = [reference.log10(text) for text in texts]
    assert counts.tolist() == [n for _, n in expected]
    assert totals.tolist() == pytest.approx([total for total, _ in expected], rel=1e-5)


@pytest.mark.parametrize("prune_below", [1, 2])
@pytest.mark.parametrize("context", ["", "t", "th", "the ", "改革", "革开放以", "zξ", "xq the"])
def test_probabilities_sum_to_one_over_the_vocabulary(context: str, prune_below: int) -> None:
    model, reference = pair(5, 1, prune_below)
    ends = [*(char for char in reference.vocabulary if char != " "), "\ue000"]  # a private character is unknown
    before = model.score(pa.array([context.rstrip()]))[0][0] if context.strip() else 0.0
    totals = model.score(pa.array([context + char for char in ends]))[0] - before
    if context.endswith(" "):  # the space is scored with what follows it
        space = model.score(pa.array([context + "e"]))[0][0] - before - math.log10(reference.p("e", tuple(context[-4:])))
        totals = totals - space
    mass_of_space = reference.p(" ", ("<s>",) if not context else tuple(["<s>", *context][-4:]))
    assert (10.0**totals).sum() + mass_of_space == pytest.approx(1, abs=2e-5)


def test_discounts_are_those_of_the_formula() -> None:
    adjusted = np.repeat([1, 2, 3, 4, 9], [100, 40, 20, 10, 5])
    y = 100 / (100 + 80)
    assert discounts(adjusted).tolist() == [0.0, 1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 10 / 20]
    assert discounts(np.array([1, 1, 2])).tolist() == [0.0, *FALLBACK_DISCOUNTS]


def test_good_text_is_less_surprising_than_shuffled_text_in_both_languages() -> None:
    model = train([batch(TEXTS * 3)], params())
    totals, counts = model.score(pa.array(["the beginning of the earth", "ehtgn ie fbn tonihe atrghe", "我们的改革开放", "革的放我改们开"]))
    surprise = (-totals / counts).tolist()
    assert surprise[0] < surprise[1]
    assert surprise[2] < surprise[3]


@given(st.lists(st.text(max_size=40), max_size=6), st.integers(1, 6))
@settings(deadline=None)
def test_any_text_has_a_finite_score_that_does_not_depend_on_its_neighbours(texts: list[str], order: int) -> None:
    model, _ = pair(order, 1, 1)
    totals, counts = model.score(pa.array(texts, pa.string()))
    alone = [model.score(pa.array([text])) for text in texts]
    assert totals.tolist() == [float(t[0]) for t, _ in alone]
    assert counts.tolist() == [int(n[0]) for _, n in alone]
    assert np.isfinite(totals).all()
    assert (totals <= 0).all()


@given(st.permutations(TEXTS), st.integers(1, len(TEXTS) - 1))
@settings(deadline=None, max_examples=10)
def test_order_and_batches_of_the_texts_do_not_change_the_model(texts: list[str], cut: int) -> None:
    model = train([batch(texts[:cut]), batch(texts[cut:])], params())
    other = train([batch(list(TEXTS))], params())
    for name in ("codes", "ids", "starts", "tokens", "log_probs", "log_backoffs"):
        assert getattr(model, name).tolist() == getattr(other, name).tolist()


def test_a_saved_model_scores_the_same_and_saves_to_the_same_bytes(tmp_path: Path) -> None:
    model = train([batch(list(TEXTS))], params())
    for name in ("a", "b"):
        model.save(tmp_path / name / "model.npz")
    assert (tmp_path / "a" / "model.npz").read_bytes() == (tmp_path / "b" / "model.npz").read_bytes()
    loaded = Model.load(tmp_path / "a" / "model.npz")
    text = pa.array([*TEXTS, "new text 新"])
    assert [part.tolist() for part in loaded.score(text)] == [part.tolist() for part in model.score(text)]


def test_a_missing_cut_or_tampered_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with pytest.raises(ModelMissing, match="dvc repro train_lm"):
        Model.load(path)
    train([batch(list(TEXTS))], params()).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelMissing, match="dvc repro --force train_lm"):
        Model.load(path)
    path.write_bytes(whole)
    with np.load(path) as arrays:
        found = dict(arrays)
    for name, bad in (
        ("tokens", found["tokens"] + 10_000),
        ("starts", found["starts"][::-1]),
        ("ids", found["ids"] * 0),
        ("header", found["header"] + 1),
    ):
        np.savez(path, **{**found, name: bad})
        with pytest.raises(ModelMissing):
            Model.load(path)
    path.write_bytes(b"")
    with pytest.raises(ModelMissing):
        Model.load(path)


def test_only_trusted_sources_are_learned_each_up_to_its_part() -> None:
    batches = [batch(["aaaa", "bbbb", "cccc"], "one"), batch(["dddd", "eeee"], "two"), batch(["ffff"], "other")]
    model = train(batches, params(sources=["one", "two"], max_bytes=16))
    assert [chr(code) for code in model.codes if chr(code) in "abcdef"] == ["a", "b", "d", "e"]
    assert model.size == FIRST_CHARACTER + 4


def test_no_trusted_text_is_an_error_that_names_the_sources() -> None:
    with pytest.raises(DataError, match="no text of bible"):
        train([batch(["text"], "web"), batch(["", None], "bible")], params(sources=["bible"]))


def test_case_width_and_digits_are_folded() -> None:
    model = train([batch(["abc 123"])], params())
    table = dict(zip(map(chr, model.codes), model.ids.tolist(), strict=True))
    assert table["a"] == table["A"] == table["ａ"]
    assert table["0"] == table["1"] == table["９"] == table["٣"]
    assert table["\n"] == table["\u3000"] == table[" "] == SPACE
    assert BOS not in table.values()
    assert UNKNOWN not in table.values()
