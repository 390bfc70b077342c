"""`dataplane train-lm`'s trainer: equal to KenLM's lmplz and to Kneser-Ney by definition, whatever the batches, threads and memory.

The files under golden/ were written by lmplz (KenLM 0.3.0 of PyPI's source distribution, built with its CMake files) from the lines of
TOY: `lmplz -o 3 --discount_fallback`, and the same with `--prune 0 0 1`.
"""

import math
import random
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.corpus.kneser_ney import FALLBACK_DISCOUNTS
from dataplane.corpus.token_lm import TokenLmParams, train
from dataplane.errors import DataError, EnvironmentFault, ParamsError
from dataplane.kernels.arpa import read_arpa

GOLDEN = Path(__file__).parent / "golden"
TOY = [
    "the cat sat on the mat", "the dog sat on the log", "a cat and a dog sat on the mat",
    "the cat saw the dog and the dog saw the cat", "on the mat the cat sat", "the dog ran and the cat ran",
    "the dog saw a log on the mat", "今天 天气 很 好", "今天 的 天气 很 不 好", "the mat",
]  # fmt: skip

Table = dict[str, tuple[float, float]]


def asked(**values: object) -> TokenLmParams:
    return TokenLmParams.parse({"order": 3, **values}, where="test")


def entries(path: Path) -> Table:
    """N-gram -> log10 probability and back-off weight, as the file has them."""
    rows = [line.rstrip("\n").split("\t") for line in path.read_text(encoding="utf-8").split("\n") if "\t" in line]
    return {row[1]: (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def trained(path: Path, lines: list[str], size: int = 4, **values: object) -> Table:
    batches = [pa.array(["\n".join(lines[i : i + size])], pa.string()) for i in range(0, len(lines), size)]
    train(lambda: batches, asked(**values), path)
    return entries(path)


def differences(ours: Table, theirs: Table, tolerance: float = 1e-6) -> list[str]:
    return sorted(ours.keys() ^ theirs.keys()) + [
        f"{gram}: {ours[gram]}, {theirs[gram]}"
        for gram in ours.keys() & theirs.keys()
        if max(map(apart, ours[gram], theirs[gram])) > tolerance
    ]


def apart(a: float, b: float) -> float:
    return abs(a - b)


class Textbook:
    """Interpolated modified Kneser-Ney over dictionaries, by the formulas of Chen and Goodman; nothing is fast."""

    def __init__(self, lines: list[str], order: int, prune: tuple[int, ...] = ()) -> None:
        self.order = order
        self.limit = {n: prune[min(n, len(prune)) - 1] if prune else 0 for n in range(1, order + 1)}
        sentences = [("<s>", *line.split(), "</s>") for line in lines if line.split()]
        self.words = {word for sentence in sentences for word in sentence} - {"<s>"} | {"<unk>"}
        self.counts = {n: Counter(s[i : i + n] for s in sentences for i in range(len(s) - n + 1)) for n in range(1, order + 1)}
        self.discounts = {n: self.discount(n) for n in self.counts}

    @lru_cache  # noqa: B019  # a few small models live as long as the test
    def adjusted(self, gram: tuple[str, ...]) -> int:
        if gram == ("<s>",):
            return 0
        if len(gram) == self.order or gram[0] == "<s>":
            return self.counts[len(gram)][gram]
        return sum(1 for longer in self.counts[len(gram) + 1] if longer[1:] == gram)

    def discount(self, n: int) -> tuple[float, ...]:
        t = Counter(self.adjusted(gram) for gram in self.counts[n])
        if t[1] and t[2] and t[3]:
            y = t[1] / (t[1] + 2 * t[2])
            found = tuple(k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3))
            if all(0 <= d <= k for k, d in zip((1, 2, 3), found, strict=True)):
                return (0.0, *found)
        return (0.0, *FALLBACK_DISCOUNTS)

    @lru_cache  # noqa: B019
    def p(self, word: str, context: tuple[str, ...]) -> float:
        n = len(context) + 1
        lower = self.p(word, context[1:]) if context else 1 / len(self.words)
        behind = {gram: self.adjusted(gram) for gram in self.counts[n] if gram[:-1] == context}
        total = sum(behind.values())
        if not total:
            return lower
        kept = {gram for gram in behind if n == 1 or self.counts[n][gram] > self.limit[n]}
        taken = {gram: self.discounts[n][min(a, 3)] if gram in kept else a for gram, a in behind.items()}
        gram = (*context, word)
        return (behind[gram] - taken[gram] if gram in behind else 0) / total + sum(taken.values()) / total * lower

    def log10(self, line: str) -> float:
        words = ["<s>", *(word if word in self.words else "<unk>" for word in line.split()), "</s>"]
        return sum(math.log10(self.p(words[i], tuple(words[max(0, i - self.order + 1) : i]))) for i in range(1, len(words)))


@pytest.mark.parametrize(("name", "prune"), [("lmplz", ()), ("lmplz_pruned", (0, 0, 1))])
def test_the_file_is_that_of_lmplz(tmp_path: Path, name: str, prune: tuple[int, ...]) -> None:
    assert differences(trained(tmp_path / "toy.arpa", TOY, prune=prune), entries(GOLDEN / f"{name}.arpa")) == []


@cache
def many_lines() -> list[str]:
    draw = random.Random(0)
    return [" ".join(f"w{int(draw.paretovariate(0.7))}" for _ in range(draw.randint(1, 12))) for _ in range(60)]


@pytest.mark.parametrize(("order", "prune"), [(1, ()), (2, ()), (4, ()), (3, (0, 1, 1)), (4, (0, 0, 1, 2))])
def test_scores_are_those_of_kneser_ney_by_definition(tmp_path: Path, order: int, prune: tuple[int, ...]) -> None:
    lines = many_lines()
    trained(tmp_path / "m.arpa", lines, order=order, prune=prune)
    texts = [*lines[:20], "w1 new w2", "new", "w1 w1 w1 w1 w1", "w3 w2 w1 w2"]
    textbook = Textbook(lines, order, prune)
    ours, counts = read_arpa(tmp_path / "m.arpa").score(pa.array(texts))
    assert ours.tolist() == pytest.approx([textbook.log10(text) for text in texts], abs=1e-4)
    assert counts.tolist() == [len(text.split()) + 1 for text in texts]


def test_the_probabilities_that_it_is_held_against_sum_to_one() -> None:
    textbook = Textbook(TOY, 3, (0, 0, 1))
    contexts = [(), ("the",), ("the", "cat"), ("<s>",), ("<s>", "the"), ("never", "seen")]
    assert [sum(textbook.p(word, context) for word in textbook.words) for context in contexts] == pytest.approx([1.0] * len(contexts))


def test_batches_order_threads_and_memory_do_not_change_the_file(tmp_path: Path) -> None:
    lines = many_lines() * 3
    trained(tmp_path / "a.arpa", lines, size=1000)
    trained(tmp_path / "b.arpa", random.Random(1).sample(lines, len(lines)), size=7, threads=2, memory="200MB")
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arpa", "b.arpa"]


def test_rare_words_are_unknown_and_the_most_frequent_are_kept(tmp_path: Path) -> None:
    assert sorted(trained(tmp_path / "m.arpa", TOY, order=1, min_count=4)) == [
        "</s>",
        "<s>",
        "<unk>",
        "cat",
        "dog",
        "mat",
        "on",
        "sat",
        "the",
    ]
    assert sorted(trained(tmp_path / "m.arpa", TOY, order=1, vocabulary=2)) == ["</s>", "<s>", "<unk>", "cat", "the"]


def test_marks_written_in_a_text_are_unknown_words(tmp_path: Path) -> None:
    found = trained(tmp_path / "m.arpa", ["a <s> b </s> <unk>", "a b"], order=2)
    assert sorted(gram for gram in found if " " not in gram) == ["</s>", "<s>", "<unk>", "a", "b"]
    assert "a <s>" not in found
    assert "a <unk>" in found


def test_a_whole_text_may_be_a_sentence(tmp_path: Path) -> None:
    told = train(lambda: [pa.array(["a b\nc", None, " "])], asked(order=2), tmp_path / "m.arpa", by_line=False)
    assert (told.tokens, told.sentences) == (3, 1)
    assert "b c" in entries(tmp_path / "m.arpa")


def test_no_text_and_a_falling_prune_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no token"):
        train(lambda: [pa.array(["", " \n"])], asked(), tmp_path / "m.arpa")
    for prune in ([1], [0, 2, 1], [0, -1]):
        with pytest.raises(ParamsError, match="shorter ones"):
            asked(prune=prune)


def test_too_little_memory_is_an_error_that_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="1MB of memory are too little") as caught:
        trained(tmp_path / "m.arpa", many_lines() * 20, memory="1MB")
    assert caught.value.fix == "give it more: --set memory=4GB"
    assert list(tmp_path.iterdir()) == []


def test_kenlm_loads_the_file_and_gives_equal_scores(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    trained(tmp_path / "m.arpa", TOY, order=4)
    config = kenlm.Config()
    config.show_progress = False
    theirs = kenlm.Model(str(tmp_path / "m.arpa"), config)
    texts = [*TOY, "the zebra sat", "很 好 今天", "\u00a0 x", "mat the\tthe\x0bthe"]
    ours = read_arpa(tmp_path / "m.arpa").score(pa.array(texts))[0]
    assert ours.tolist() == pytest.approx([theirs.score(text) for text in texts], abs=1e-4)


@given(st.lists(st.text(st.sampled_from("ab \n\t\u3000\x0b"), max_size=20), min_size=1, max_size=5))
@settings(max_examples=15)
def test_any_text_trains_or_is_empty(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("lm") / "m.arpa"
    lines = [line.strip(" \t\x0b") for text in texts for line in text.split("\n")]
    if not any(lines):
        with pytest.raises(DataError):
            train(lambda: [pa.array(texts)], asked(), path)
        return
    told = train(lambda: [pa.array(texts)], asked(), path)
    assert told.sentences == sum(bool(line) for line in lines)
    assert read_arpa(path).score(pa.array(texts))[1].sum() == told.tokens + told.sentences
