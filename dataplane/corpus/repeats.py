"""Passages that stood in the corpus before: runs of tokens, lines and paragraphs. The first occurrence stays, later ones go.

First is what the survivor policy prefers: of two documents the one of better rank, within a document what comes earlier. A passage of n
tokens goes where the same n tokens stand in a document that is preferred and stays, or earlier in its own without touching it. Hashes of
all passages are spread over files by their highest bits, and each file is sorted alone: memory is that of the largest of them and a few
numbers for each document; disk is 24 bytes a token. Equal passages have equal hashes, so none is missed; every run that is found is then
compared with its source in the texts, and where two that differ met in one hash, all is done again under other hashes: so none is found by
chance.

Source: Lee et al. 2021 (arXiv:2107.06499, 4.1) for runs of 50 tokens; CCNet (arXiv:1911.00359, 3.1) for paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.exact import U64
from dataplane.corpus.spill import Appender, mapped, spill_folder
from dataplane.kernels import minhash
from dataplane.kernels.line_edits import Lines, cut
from dataplane.kernels.repeats import covered, fewest, run_starts, same_tokens, span_hashes, token_bounds, window_hashes
from dataplane.params import Params

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Texts = Callable[[], Iterator[tuple[I64, pa.Array]]]
TextsOf = Callable[[I64], pa.Array]

WAYS = ("substring", "paragraph", "line")
VERSION = 1
_FILE_BITS = 8
_RANGES = 64  # files that spans are spread over by the rank of their document
_RUNS_AT_ONCE = 512
_START_BITS = 32
_LOW = np.uint64((1 << _START_BITS) - 1)
_NEVER = np.uint64(0xFFFFFFFFFFFFFFFF)


class RepeatsParams(Params):
    """Params of repeated passages."""

    find: list[Literal["substring", "paragraph", "line"]] = Field(
        [],
        description="What is looked for. substring: any run of `tokens` tokens. paragraph: lines between blank ones. line: a line. "
        "Tokens stand between white space; a Chinese or Japanese character is one.",
    )
    tokens: int = Field(50, ge=5, le=10_000, description="Tokens that a substring has at least.")
    min_tokens: int = Field(8, ge=1, description="Tokens that a line or paragraph has at least; shorter ones repeat by nature.")
    action: Literal["edit", "drop"] = Field(
        "edit",
        description="edit: repeats are cut out, and the document goes where too little is left. drop: a document of many repeats goes, and "
        "nothing is cut.",
    )
    max_share: float = Field(0.5, gt=0, le=1, description="For action drop: share of a document's tokens in repeats from which it goes.")
    min_left: int = Field(20, ge=0, description="For action edit: a document that has fewer tokens left goes.")


@dataclass(frozen=True)
class Collection:
    """Documents that are compared.

    Attributes:
        texts: Goes over them: places int64 [k] and texts [k].
        texts_of: Fetches texts by place.
        rank: int64 [n], 0 for the document that is preferred to all others.
        groups: uint64 [n], documents of different groups are not compared; empty where there are no groups.
    """

    texts: Texts
    texts_of: TextsOf
    rank: I64
    groups: U64


@dataclass(frozen=True)
class Repeats:
    """What was found.

    Attributes:
        runs: int64 [r, 6]: place of the document, first code point of the run and the one after its last, place of the document where it
            stood before, its first code point there, way (in `WAYS`); by rank of the document, then by start.
        tokens: int64 [r], tokens of each run
        dropped: bool [n], documents that go as a whole
        seeds: How many choices of hashes were tried.
    """

    runs: I64
    tokens: I64
    dropped: Mask
    seeds: int


class _Collision(Exception):
    """Passages that differ have one hash."""


def find_repeats(collection: Collection, params: RepeatsParams, folder: Path) -> Repeats:
    """Finds repeated passages.

    Args:
        collection: The documents.
        params: What is looked for, and what becomes of it.
        folder: Where arrays are spilled; gone afterwards.

    Raises:
        OSError: The disk is full.
    """
    if not params.find:
        return Repeats(np.zeros((0, 6), np.int64), np.zeros(0, np.int64), np.zeros(len(collection.rank), np.bool_), 0)
    for seed in count():
        with spill_folder(folder) as spill:
            try:
                return _Pass(collection, params, spill, seed).find()
            except _Collision:
                continue
    raise AssertionError("there are more seeds than that")


class _Pass:
    """One search under one choice of hashes. Spans are rows of `run_starts`, with ranks for texts."""

    def __init__(self, collection: Collection, params: RepeatsParams, folder: Path, seed: int) -> None:
        self.collection, self.params, self.folder, self.seed = collection, params, folder, seed
        self.total = np.zeros(len(collection.rank), np.int64)  # tokens, by rank
        self.of_rank = np.argsort(collection.rank)

    def find(self) -> Repeats:
        for way in self.params.find:
            self._spill(way)
        dropped = np.zeros(len(self.total), np.bool_)
        while True:
            self._pair(dropped)
            again = self._dropped()
            if (again == dropped).all():
                break
            dropped = again  # what stood in them first stands somewhere else first
        found = [np.zeros((0, 7), np.int64), *(self._located(runs) for path in self._span_files() for runs in _blocks(_runs(path)))]
        runs = np.concatenate(found)
        return Repeats(runs[:, :6], runs[:, 6], dropped[self.collection.rank], self.seed + 1)

    def _spill(self, way: str) -> None:
        """Writes hash, place and length of each passage that stands twice."""
        with Appender(self.folder) as files:
            for docs, text in self.collection.texts():
                for name, rows in self._spread(way, docs, text):
                    files.append(name, rows)
        with Appender(self.folder) as files:
            for path in sorted(self.folder.glob(f"{way}-all-*")):
                files.append(path.name.replace("-all-", "-twice-"), _repeated(mapped(path, np.uint64, 3)))
                path.unlink()

    def _spread(self, way: str, docs: I64, text: pa.Array) -> Iterator[tuple[str, U64]]:
        rows = self._passages(way, docs, text)
        file = (rows[:, 0] >> np.uint64(64 - _FILE_BITS)).astype(np.int64)
        order = np.argsort(file, kind="stable")
        bounds = np.searchsorted(file[order], np.arange((1 << _FILE_BITS) + 1))
        for i in np.flatnonzero(np.diff(bounds)):
            yield f"{way}-all-{i:03}", rows[order[bounds[i] : bounds[i + 1]]]

    def _passages(self, way: str, docs: I64, text: pa.Array) -> U64:
        """Hash, place (rank and first token) and length of each passage: uint64 [m, 3]."""
        if way == "substring":
            hashes, first, tokens = window_hashes(text, self.params.tokens, self.seed)
            starts, lengths = np.arange(len(hashes)) - np.repeat(first[:-1], np.diff(first)), np.full(len(hashes), self.params.tokens)
            long = np.ones(len(hashes), np.bool_)
        else:
            lines = cut(text)
            bounds, first = _paragraphs(lines) if way == "paragraph" else (lines.inner, lines.first)
            hashes, lengths = span_hashes(lines.data, bounds, self.seed)
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            tokens = np.diff(before[first])
            starts = before[:-1] - np.repeat(before[first[:-1]], np.diff(first))
            long = lengths >= self.params.min_tokens
        self.total[self.collection.rank[docs]] = tokens
        owners = np.repeat(docs, np.diff(first))
        if len(self.collection.groups):
            hashes = minhash.mixed(hashes, self.collection.groups[owners])
        places = (self.collection.rank[owners] << _START_BITS) | starts
        return np.stack([hashes, places.astype(np.uint64), lengths.astype(np.uint64)], axis=1)[long]

    def _pair(self, dropped: Mask) -> None:
        """Writes the spans that repeat one in a document that stays, spread over files by rank."""
        for path in self._span_files():
            path.unlink()
        step = max(1, -(-len(dropped) // _RANGES))
        with Appender(self.folder) as files:
            for path in sorted(self.folder.glob("*-twice-*")):
                spans = _spans(mapped(path, np.uint64, 3), dropped, WAYS.index(path.name.split("-")[0]))
                for i in np.unique(spans[:, 0] // step):
                    files.append(f"spans-{i:03}", spans[spans[:, 0] // step == i])

    def _span_files(self) -> list[Path]:
        return sorted(self.folder.glob("spans-*"))

    def _dropped(self) -> Mask:
        """Which documents go as a whole: bool [n], by rank."""
        gone = np.zeros(len(self.total), np.int64)
        for path in self._span_files():
            spans = mapped(path, np.int64, 6)
            spans = spans[np.lexsort((spans[:, 1], spans[:, 0]))]
            np.add.at(gone, spans[:, 0], covered(*(np.ascontiguousarray(spans[:, i]) for i in range(3))))
        over = gone >= self.params.max_share * self.total if self.params.action == "drop" else self.total - gone < self.params.min_left
        dropped: Mask = (gone > 0) & over
        return dropped

    def _located(self, runs: I64) -> I64:
        """Runs with places of documents for ranks and code points for tokens, and their tokens: int64 [r, 7].

        Raises:
            _Collision: One is not what stands at its source.
        """
        docs = self.of_rank[runs[:, [0, 3]]]
        wanted = np.unique(docs)
        texts = [np.frombuffer(text.encode(), np.uint8) for text in self.collection.texts_of(wanted).to_pylist()]
        bounds = [token_bounds(text) for text in texts]
        out = np.empty((len(runs), 7), np.int64)
        for i, ((_, start, stop, _, source, way), (own, other)) in enumerate(zip(runs, np.searchsorted(wanted, docs), strict=True)):
            mine, first = bounds[own][start:stop], bounds[other][source : source + stop - start]
            if not same_tokens(texts[own], mine, texts[other], first):
                raise _Collision
            out[i] = wanted[own], mine[0, 2], mine[-1, 3], wanted[other], first[0, 2], way, stop - start
        return out


def _paragraphs(lines: Lines) -> tuple[I64, I64]:
    """Bounds in bytes of the runs of lines without a blank one: int64 [p, 2]; the first of each document: int64 [n + 1]."""
    solid = np.flatnonzero(~lines.blank)
    document = np.searchsorted(lines.first, solid, side="right")
    begins = np.ones(len(solid), np.bool_)
    begins[1:] = (np.diff(solid) > 1) | (np.diff(document) > 0)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(solid))[: len(starts)] - 1
    bounds = np.stack([lines.inner[solid[starts], 0], lines.inner[solid[ends], 1]], axis=1)
    return bounds, np.searchsorted(document[starts], np.arange(1, len(lines.first) + 1))


def _repeated(rows: U64) -> U64:
    """The rows whose hash (first column) comes twice, by hash, then by place."""
    order = np.argsort(rows[:, 0])
    hashes = rows[order, 0]
    same = hashes[1:] == hashes[:-1]
    twice = np.zeros(len(rows), np.bool_)
    twice[1:] |= same
    twice[:-1] |= same
    kept = rows[order[twice]]
    return kept[np.lexsort((kept[:, 1], kept[:, 0]))]


def _spans(rows: U64, dropped: Mask, way: int) -> I64:
    """Each passage that is not the first of its hash, with the first one: int64 [k, 6]."""
    if not len(rows):
        return np.zeros((0, 6), np.int64)
    hashes, places, lengths = np.ascontiguousarray(rows.T)
    ranks = places >> np.uint64(_START_BITS)
    new_hash = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    new_document = new_hash | np.concatenate([[True], ranks[1:] != ranks[:-1]])
    standing = np.where(dropped[ranks.astype(np.int64)], _NEVER, places)
    elsewhere = np.minimum.reduceat(standing, np.flatnonzero(new_hash))[np.cumsum(new_hash) - 1]
    within = places[np.flatnonzero(new_document)][np.cumsum(new_document) - 1]
    source = np.minimum(elsewhere, within)
    # What overlaps its source stays, or a text of one word over and over would lose all but a word.
    later = (source >> np.uint64(_START_BITS) != ranks) | (source + lengths <= places)
    columns = (ranks, places & _LOW, (places & _LOW) + lengths, source >> np.uint64(_START_BITS), source & _LOW)
    return np.stack([*(column[later].astype(np.int64) for column in columns), np.full(int(later.sum()), way)], axis=1)


def _runs(path: Path) -> I64:
    """The spans of a file joined to the longest runs, and of those the fewest that cover the same tokens, by rank, then by start."""
    spans = mapped(path, np.int64, 6)
    spans = np.ascontiguousarray(spans[np.lexsort((spans[:, 1], spans[:, 0], spans[:, 5]))])
    starts = run_starts(spans)
    runs = spans[starts]
    if len(runs):
        runs[:, 2] = np.maximum.reduceat(spans[:, 2], starts)
    runs = np.ascontiguousarray(runs[np.lexsort((runs[:, 5], runs[:, 1], runs[:, 0]))])
    cover: I64 = runs[fewest(runs)]
    return cover


def _blocks(rows: I64) -> Iterator[I64]:
    for at in range(0, len(rows), _RUNS_AT_ONCE):
        yield rows[at : at + _RUNS_AT_ONCE]
