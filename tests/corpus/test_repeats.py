"""Repeated passages: found as brute force and a sort of suffixes find them, each with where it stood before, and none by a hash alone."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.corpus import repeats
from dataplane.corpus.repeats import Collection, Repeats, RepeatsParams, find_repeats
from dataplane.kernels.repeats import window_hashes

I64 = npt.NDArray[np.int64]
HAN = "一二三四五六七八九十"


def tokens(text: str) -> list[str]:
    return re.findall(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", text)


def search(texts: list[str], folder: Path, rank: list[int] | None = None, groups: list[int] | None = None, **params: Any) -> Repeats:
    column = pa.array(texts, pa.large_string())
    half = len(texts) // 2

    def batches() -> Iterator[tuple[I64, pa.Array]]:
        yield np.arange(half), column[:half]
        yield np.arange(half, len(texts)), column[half:]

    collection = Collection(
        batches,
        lambda places: column.take(pa.array(places)),
        np.array(rank if rank is not None else range(len(texts)), np.int64),
        np.array(groups or [], np.uint64),
    )
    return find_repeats(collection, RepeatsParams.model_validate({"min_left": 0, **params}), folder / "spill")


def marked(texts: list[str], found: Repeats) -> list[set[int]]:
    """Code points, white space left out, that lie in runs of each text."""
    out: list[set[int]] = [set() for _ in texts]
    for doc, start, stop, *_ in found.runs.tolist():
        out[doc] |= {i for i in range(start, stop) if not texts[doc][i].isspace()}
    return out


def units(text: str, way: str, n: int) -> list[tuple[int, int, tuple[str, ...]]]:
    """First token, token after the last, and tokens of each passage."""
    if way == "substring":
        own = tokens(text)
        return [(i, i + n, tuple(own[i : i + n])) for i in range(len(own) - n + 1)]
    lines = text.splitlines() if way == "line" else re.split(r"\n(?:[^\S\n]*\n)+", text)
    out, at = [], 0
    for line in lines:
        own = tokens(line)
        out.append((at, at + len(own), tuple(own)))
        at += len(own)
    return [unit for unit in out if unit[2]]


def by_hand(texts: list[str], rank: list[int], way: str, n: int, gone: set[int] | None = None) -> list[set[int]]:
    """The tokens of each text that lie in a passage that stood before, by comparing all with all."""
    seen: dict[tuple[str, ...], tuple[int, int]] = {}
    out: list[set[int]] = [set() for _ in texts]
    for doc in sorted(range(len(texts)), key=rank.__getitem__):
        own: dict[tuple[str, ...], tuple[int, int]] = {}
        for start, stop, passage in units(texts[doc], way, n):
            first = seen.get(passage) or own.setdefault(passage, (doc, start))
            if first[0] != doc or first[1] + stop - start <= start:
                out[doc] |= set(range(start, stop))
        if doc not in (gone or set()):
            seen = {**own, **seen}
    return out


def token_places(text: str, places: set[int]) -> set[int]:
    """The code points of tokens."""
    found = list(re.finditer(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", text))
    return {i for place in places for i in range(*found[place].span())}


PIECES = st.lists(st.sampled_from(["a", "b b", "c\n", "\n\n", "天", "a b c d", "地天\n", " \t", "\u3000x", "a b\n\n天地"]), max_size=14)


@settings(max_examples=60, deadline=None)  # each writes files
@given(
    texts=st.lists(PIECES.map(" ".join), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
    way=st.sampled_from(repeats.WAYS),
    n=st.integers(5, 7),
)
def test_what_repeats_is_what_comparing_all_with_all_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], order: random.Random, way: str, n: int
) -> None:
    rank = order.sample(range(len(texts)), len(texts))
    found = search(texts, tmp_path_factory.getbasetemp(), rank, find=[way], tokens=n, min_tokens=1)
    expected = [token_places(text, places) for text, places in zip(texts, by_hand(texts, rank, way, n), strict=True)]
    assert marked(texts, found) == expected


def corpus(n: int, seed: int) -> list[str]:
    """English and Chinese texts that quote each other, and themselves."""
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(400)]
    texts: list[list[str]] = []
    for i in range(n):
        text = [rng.choice(words) for _ in range(rng.randrange(40, 200))] if i % 2 else rng.choices(HAN * 50, k=150)
        for _ in range(rng.randrange(3)):
            source = rng.choice(texts) if texts and rng.random() < 0.8 else text
            at, place, length = rng.randrange(len(source)), rng.randrange(len(text)), rng.randrange(10, 90)
            text = [*text[:place], *source[at : at + length], *text[place:]]
        texts.append(text)
    return [(" " if i % 2 else "").join(text) for i, text in enumerate(texts)]


def windows_by_suffixes(texts: list[str], n: int) -> set[tuple[int, int]]:
    """Text and first token of each run of n tokens that stands elsewhere too: neighbours of a sort of all suffixes."""
    suffixes = sorted((own[i:], doc, i) for doc, own in enumerate(map(tokens, texts)) for i in range(len(own) - n + 1))
    twice = [(left, right) for left, right in pairwise(suffixes) if left[0][:n] == right[0][:n]]
    return {(doc, i) for pair in twice for _, doc, i in pair}


def test_of_all_runs_that_a_sort_of_suffixes_finds_twice_the_first_stays_and_the_others_go(tmp_path: Path) -> None:
    texts = corpus(60, 7)
    found = search(texts, tmp_path, find=["substring"], tokens=20)
    first: dict[tuple[str, ...], tuple[int, int]] = {}
    later = set()
    for doc, start in sorted(windows_by_suffixes(texts, 20)):
        passage = tuple(tokens(texts[doc])[start : start + 20])
        source = first.setdefault(passage, (doc, start))
        if source[0] != doc or source[1] + 20 <= start:
            later |= {(doc, i) for i in range(start, start + 20)}
    assert len(later) > 500
    expected = [token_places(text, {i for d, i in later if d == doc}) for doc, text in enumerate(texts)]
    assert marked(texts, found) == expected


def test_each_run_names_where_the_same_tokens_stood_before_and_its_length(tmp_path: Path) -> None:
    texts = corpus(60, 8)
    found = search(texts, tmp_path, find=["substring", "line"], tokens=20, min_tokens=5)
    for (doc, start, stop, source, first, way), length in zip(found.runs.tolist(), found.tokens.tolist(), strict=True):
        own = tokens(texts[doc][start:stop])
        assert (len(own), own) == (length, tokens(texts[source][first:])[:length]), way
        assert (source, first) < (doc, start)


def test_what_is_cut_still_stands_somewhere_that_stays(tmp_path: Path) -> None:
    texts = corpus(80, 9)
    found = search(texts, tmp_path, find=["substring"], tokens=20)
    moved: dict[tuple[int, int], tuple[int, int]] = {}
    for (doc, start, _, source, first, _), length in zip(found.runs.tolist(), found.tokens.tolist(), strict=True):
        own, other = len(tokens(texts[doc][:start])), len(tokens(texts[source][:first]))
        moved |= {(doc, own + i): (source, other + i) for i in range(length)}
    assert len(moved) > 500
    for place, before in moved.items():
        assert before < place
        while before in moved:
            before = moved[before]
        assert tokens(texts[before[0]])[before[1]] == tokens(texts[place[0]])[place[1]]


def test_the_better_document_keeps_the_passage(tmp_path: Path) -> None:
    texts = ["one x " + "a b c d e f", "a b c d e f two y", "three a b c d e f"]
    found = search(texts, tmp_path, [2, 0, 1], find=["substring"], tokens=6)
    assert found.runs.tolist() == [[2, 6, 17, 1, 0, 0], [0, 6, 17, 1, 0, 0]]


def test_groups_are_not_compared(tmp_path: Path) -> None:
    found = search(["a b c d e f", "a b c d e f", "a b c d e f"], tmp_path, groups=[5, 7, 7], find=["substring"], tokens=6)
    assert found.runs.tolist() == [[2, 0, 11, 1, 0, 0]]


def test_a_text_of_one_word_keeps_its_first_run(tmp_path: Path) -> None:
    found = search(["a " * 100], tmp_path, find=["substring"], tokens=20)
    assert found.runs.tolist() == [[0, at, at + 39, 0, 0, 0] for at in (40, 80, 120, 160)]


def test_white_space_alone_makes_no_difference(tmp_path: Path) -> None:
    texts = ["a b\nc  d e", "a b c d\n\ne", "a b c d, e", "A b c d e"]
    assert search(texts, tmp_path, find=["substring"], tokens=5).runs[:, 0].tolist() == [1]


@pytest.mark.parametrize(
    ("action", "dropped", "repeating"),
    [
        ({"action": "drop", "max_share": 0.6}, [1], [1, 3]),
        ({"action": "drop", "max_share": 0.9}, [], [1, 2, 3]),
        ({"action": "edit", "min_left": 6}, [1], [1, 3]),
        ({"action": "edit", "min_left": 2}, [], [1, 2, 3]),
    ],
)
def test_what_stood_in_a_document_that_goes_is_not_taken_from_others(
    tmp_path: Path, action: dict[str, Any], dropped: list[int], repeating: list[int]
) -> None:
    """The second text is mostly the first's. Where it goes, the third keeps the line that stood in the second before."""
    base, own = "a b c d e f g h i j", "p q r s t"
    texts = [base, f"{base}\n{own}", f"{own}\nm n", f"{own}\no u v w x y"]
    found = search(texts, tmp_path, find=["line"], min_tokens=1, **action)
    assert (np.flatnonzero(found.dropped).tolist(), np.unique(found.runs[:, 0]).tolist()) == (dropped, repeating)


@pytest.mark.parametrize("seed", range(3))
def test_dropped_documents_are_those_of_going_through_the_documents_one_by_one(tmp_path: Path, seed: int) -> None:
    texts = corpus(50, seed)
    found = search(texts, tmp_path, find=["substring"], tokens=15, action="drop", max_share=0.2)
    gone: set[int] = set()
    for doc, text in enumerate(texts):
        share = by_hand(texts[: doc + 1], list(range(doc + 1)), "substring", 15, gone)[doc]
        if share and len(share) >= 0.2 * len(tokens(text)):
            gone.add(doc)
    assert len(gone) > 5
    assert np.flatnonzero(found.dropped).tolist() == sorted(gone)


def test_passages_that_differ_under_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = corpus(30, 4)
    expected = search(texts, tmp_path, find=["substring"], tokens=20)
    hashes = window_hashes

    def poor(text: pa.Array, n: int, seed: int) -> tuple[npt.NDArray[np.uint64], I64, I64]:
        good, first, counts = hashes(text, n, seed)
        return good if seed == 2 else good & np.uint64(0xFF0 << 52), first, counts

    monkeypatch.setattr(repeats, "window_hashes", poor)
    found = search(texts, tmp_path, find=["substring"], tokens=20)
    assert (expected.seeds, found.seeds) == (1, 3)
    assert found.runs.tolist() == expected.runs.tolist()


def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    search(corpus(10, 1), tmp_path, find=["substring", "line", "paragraph"])
    assert list(tmp_path.iterdir()) == []
