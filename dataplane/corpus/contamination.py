"""Decontamination: which documents hold items of a benchmark, and how much of each.

An item's fields are passages of their own, since a question without its answer is a leak too; the item counts as covered
as its most covered passage is.

Source: n-grams of 13 words, Brown et al. 2020 (arXiv:2005.14165), appendix C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from dataplane import schema
from dataplane.corpus.benchmark_items import Benchmark, read_items
from dataplane.kernels.ngrams import Grams, find_grams, folded, index_grams
from dataplane.params import Params

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Lengths = Annotated[list[Annotated[int, Field(ge=1, le=200)]], Field(min_length=1)]


class DecontaminateParams(Params):
    """Params of the decontaminate stage."""

    benchmarks: list[Benchmark] = Field([], description="What must not be in the training data.")
    n: Lengths = Field([13], description="Words in an n-gram; several lengths are looked for at once, as [13, 8].")
    n_cjk: Lengths = Field(
        [13], description="Characters in an n-gram of a text that is mostly Chinese or Japanese; several lengths are looked for at once."
    )
    min_words: int = Field(
        8, ge=1, description="A passage of fewer words is not looked for: such texts meet by chance. One of fewer than n is one n-gram."
    )
    min_covered: float = Field(
        0.5, gt=0, le=1, description="Share of an item's n-grams of one length from which a document is contaminated."
    )

    action: Literal["drop", "cut"] = Field(
        "drop",
        description="drop: a contaminated document goes. cut: what it holds of the item goes, and the rest stays where it is enough.",
    )
    margin: int = Field(200, ge=0, description="For action cut: characters on each side that go too, up to the next white space.")
    min_left: int = Field(200, ge=1, description="For action cut: a document of which fewer characters are left goes.")
    max_pieces: int = Field(10, ge=1, description="For action cut: a document that falls into more pieces goes.")

    @field_validator("n", "n_cjk", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, int) else value


@dataclass(frozen=True)
class Index:
    """Benchmarks made ready to be looked for; pickles, so that workers can be handed it.

    Attributes:
        grams: The distinct n-grams.
        postings: int32 [p], passages by n-gram
        posting_starts: int64 [g + 1], where each n-gram's passages begin
        passage_items: int32 [passages], item of each
        passage_n: int32 [passages], words in its n-grams
        passage_grams: int32 [passages], its distinct n-grams
        items: (benchmark, item id) of each item.
        skipped: Benchmark -> items none of whose passages is long enough.
    """

    grams: Grams
    postings: I32
    posting_starts: I64
    passage_items: I32
    passage_n: I32
    passage_grams: I32
    items: list[tuple[str, str]]
    skipped: dict[str, int]


class _Builder:
    """Collects passages."""

    def __init__(self, params: DecontaminateParams) -> None:
        self.params = params
        self.letters: list[I32] = []
        self.places: list[I64] = []
        self.lengths: list[I32] = []
        self.owners: list[I32] = []
        self.passage_items: list[int] = []
        self.passage_n: list[int] = []
        self.total = 0

    def add(self, text: str, item: int) -> bool:
        """Takes a passage, once for each length of n-grams; says whether it is long enough."""
        letters, starts, cjk = folded(text)
        begins = np.flatnonzero(starts)
        words = len(begins)
        if words < self.params.min_words:
            return False
        edges = np.append(begins, len(letters))
        for n in sorted({min(words, n) for n in (self.params.n_cjk if 2 * cjk > words else self.params.n)}):
            self._add(edges, n, item)
        self.letters.append(letters)
        self.total += len(letters)
        return True

    def _add(self, edges: I64, n: int, item: int) -> None:
        """Takes the n-grams of one length of the passage whose letters come next."""
        count = len(edges) - n
        self.places.append(edges[:count] + self.total)
        self.lengths.append((edges[n:] - edges[:count]).astype(np.int32))
        self.owners.append(np.full(count, len(self.passage_items), np.int32))
        self.passage_items.append(item)
        self.passage_n.append(n)

    def index(self, items: list[tuple[str, str]], skipped: dict[str, int]) -> Index:
        """What was collected, as an index."""
        none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        grams, which = index_grams(
            np.concatenate([none32, *self.letters]), np.concatenate([none64, *self.places]), np.concatenate([none32, *self.lengths])
        )
        owners = np.concatenate([none32, *self.owners])
        held, owners, _ = _counted_pairs(which, owners)
        starts = np.searchsorted(held, np.arange(len(grams.places) + 1))
        distinct = np.bincount(owners, minlength=len(self.passage_items)).astype(np.int32)
        return Index(
            grams=grams,
            postings=owners,
            posting_starts=starts.astype(np.int64),
            passage_items=np.array(self.passage_items, np.int32),
            passage_n=np.array(self.passage_n, np.int32),
            passage_grams=distinct,
            items=items,
            skipped=skipped,
        )


def build_index(params: DecontaminateParams, root: Path = Path()) -> Index:
    """Reads the benchmarks.

    Args:
        params: What to read, and the length of n-grams.
        root: Folder of the project.

    Raises:
        ParamsError: A path matches nothing, or an item lacks a field.
        SourceError: A file cannot be read as JSONL.
    """
    items = ((benchmark.name, item_id, passages) for benchmark in params.benchmarks for item_id, passages in read_items(benchmark, root))
    return index_items(items, params)


def index_items(given: Iterable[tuple[str, str, Sequence[str]]], params: DecontaminateParams) -> Index:
    """Items made ready to be looked for.

    Args:
        given: Benchmark, item id and passages of each item.
        params: The length of n-grams.
    """
    builder = _Builder(params)
    items: list[tuple[str, str]] = []
    skipped = {benchmark.name: 0 for benchmark in params.benchmarks}
    for benchmark, item_id, passages in given:
        taken = [builder.add(text, len(items)) for text in passages]
        items.append((benchmark, item_id))
        skipped[benchmark] = skipped.get(benchmark, 0) + (not any(taken))
    return builder.index(items, skipped)


def scan(index: Index, doc_ids: pa.Array, text: pa.Array) -> pa.RecordBatch:
    """Looks for the benchmarks' items in documents.

    Args:
        index: What to look for.
        doc_ids: string [n]
        text: large_string [n]

    Returns:
        Rows of `contamination`: one for each document, item and n of which they share an n-gram, by document, item and n
    """
    docs, grams = find_grams(text, index.grams)
    counts = np.diff(index.posting_starts)[grams]
    passages = index.postings[_ranges(index.posting_starts[grams], counts)]
    docs, passages, hits = _counted_pairs(np.repeat(docs, counts), passages)
    covered = hits / index.passage_grams[passages]
    items = index.passage_items[passages]
    lengths = index.passage_n[passages]
    order = np.lexsort((-covered, lengths, items, docs))  # the best passage of each item and length first
    keys = np.stack([docs, items, lengths], axis=1)[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    best = order[fresh]
    found = [index.items[i] for i in items[best]]
    return pa.record_batch(
        {
            "doc_id": doc_ids.take(pa.array(docs[best])).cast(pa.string()),
            "benchmark": pa.array([benchmark for benchmark, _ in found], pa.string()),
            "item_id": pa.array([item for _, item in found], pa.string()),
            "n": pa.array(lengths[best], pa.int32()),
            "hits": pa.array(hits[best].astype(np.int32), pa.int32()),
            "covered": pa.array(covered[best], pa.float64()),
        },
        schema=schema.CONTAMINATION,
    )


def _counted_pairs(first: I32, second: I32) -> tuple[I32, I32, I64]:
    """The distinct pairs in order, and how often each comes: int32 [k] twice, int64 [k]."""
    keys, counts = np.unique((first.astype(np.int64) << 32) | second, return_counts=True)
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32), counts


def _ranges(starts: I64, counts: I64) -> I64:
    """start, start + 1, ... for each start, one after another."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    positions: I64 = np.arange(total, dtype=np.int64) + np.repeat(starts - before, counts)
    return positions


def contaminated(hits: pa.RecordBatch | pa.Table | Sequence[pa.RecordBatch], params: DecontaminateParams) -> pa.Array:
    """Documents that hold at least `min_covered` of an item.

    Args:
        hits: Rows of `contamination`.
        params: The share.

    Returns:
        Their doc_ids, distinct and sorted
    """
    table = pa.Table.from_batches([hits]) if isinstance(hits, pa.RecordBatch) else hits
    if not isinstance(table, pa.Table):
        table = pa.Table.from_batches(list(table), schema=schema.CONTAMINATION)
    over = table.filter(pc.greater_equal(table["covered"], params.min_covered))
    ids = pc.unique(over["doc_id"])
    ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    return ids.take(pc.array_sort_indices(ids))


def by_benchmark(hits: pa.Table, index: Index, params: DecontaminateParams) -> dict[str, dict[str, int]]:
    """What was found of each benchmark.

    Args:
        hits: Rows of `contamination`.
        index: What was looked for.
        params: The share from which a document is contaminated.

    Returns:
        Benchmark -> its items; those too short to be looked for; items and documents with a hit; items and documents where enough of the
        item was found
    """
    items = Counter(benchmark for benchmark, _ in index.items)
    over = hits.filter(pc.greater_equal(hits["covered"], params.min_covered))
    found, enough = _distinct(hits), _distinct(over)
    return {
        name: {
            "items": items[name],
            "too_short": too_short,
            "items_hit": found.get(name, (0, 0))[0],
            "documents_hit": found.get(name, (0, 0))[1],
            "items_found": enough.get(name, (0, 0))[0],
            "documents_contaminated": enough.get(name, (0, 0))[1],
        }
        for name, too_short in sorted(index.skipped.items())
    }


def _distinct(hits: pa.Table) -> dict[str, tuple[int, int]]:
    """Benchmark -> items and documents."""
    counted = hits.group_by("benchmark").aggregate([("item_id", "count_distinct"), ("doc_id", "count_distinct")])
    return {row["benchmark"]: (row["item_id_count_distinct"], row["doc_id_count_distinct"]) for row in counted.to_pylist()}
