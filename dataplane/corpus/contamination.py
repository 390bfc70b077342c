"""Decontamination: which documents hold items of a benchmark, and how much of each.

An item's fields are passages of their own, since a question without its answer is a leak too; the item counts as covered
as its most covered passage is.

Source: n-grams of 13 words, Brown et al. 2020 (arXiv:2005.14165), appendix C.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane import schema
from dataplane.errors import ParamsError, SourceError, did_you_mean
from dataplane.kernels.ngrams import Grams, find_grams, folded, index_grams
from dataplane.params import Params

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Benchmark(Params):
    """One benchmark's files."""

    name: str = Field(min_length=1, description="Name in the table `contamination`.")
    paths: list[str] = Field(min_length=1, description="JSONL files, also .gz, relative to the project; globs are allowed.")
    fields: list[str] = Field(min_length=1, description="Fields whose text must not be trained on; a dot leads into an object.")
    id_field: str = Field("", description="Field that names the item; empty takes file name and line number.")


class DecontaminateParams(Params):
    """Params of the decontaminate stage."""

    benchmarks: list[Benchmark] = Field([], description="What must not be in the training data.")
    n: int = Field(13, ge=1, le=100, description="Words in an n-gram.")
    n_cjk: int = Field(13, ge=1, le=200, description="Words in an n-gram of a text that is mostly Chinese or Japanese characters.")
    min_words: int = Field(
        8, ge=1, description="A passage of fewer words is not looked for: such texts meet by chance. One of fewer than n is one n-gram."
    )
    min_covered: float = Field(0.5, gt=0, le=1, description="Share of an item's n-grams from which a document is contaminated.")


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
        """Takes a passage; says whether it is long enough."""
        letters, starts, cjk = folded(text)
        begins = np.flatnonzero(starts)
        words = len(begins)
        if words < self.params.min_words:
            return False
        n = min(words, self.params.n_cjk if 2 * cjk > words else self.params.n)
        edges = np.append(begins, len(letters))
        self.letters.append(letters)
        self.places.append(edges[: words - n + 1] + self.total)
        self.lengths.append((edges[n:] - edges[: words - n + 1]).astype(np.int32))
        self.owners.append(np.full(words - n + 1, len(self.passage_items), np.int32))
        self.passage_items.append(item)
        self.passage_n.append(n)
        self.total += len(letters)
        return True

    def index(self, items: list[tuple[str, str]], skipped: dict[str, int]) -> Index:
        """What was collected, as an index."""
        none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        grams, which = index_grams(
            np.concatenate([none32, *self.letters]), np.concatenate([none64, *self.places]), np.concatenate([none32, *self.lengths])
        )
        owners = np.concatenate([none32, *self.owners])
        pairs = np.unique(np.stack([which, owners], axis=1), axis=0) if len(which) else np.zeros((0, 2), np.int32)
        starts = np.searchsorted(pairs[:, 0], np.arange(len(grams.places) + 1))
        distinct = np.bincount(pairs[:, 1], minlength=len(self.passage_items)).astype(np.int32)
        return Index(
            grams=grams,
            postings=np.ascontiguousarray(pairs[:, 1]).astype(np.int32),
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
    builder = _Builder(params)
    items: list[tuple[str, str]] = []
    skipped: dict[str, int] = {}
    for benchmark in params.benchmarks:
        skipped[benchmark.name] = 0
        for item_id, passages in _items(benchmark, root):
            taken = [builder.add(text, len(items)) for text in passages]
            items.append((benchmark.name, item_id))
            skipped[benchmark.name] += not any(taken)
    return builder.index(items, skipped)


def benchmark_files(benchmark: Benchmark, root: Path = Path()) -> list[Path]:
    """The files of a benchmark, sorted.

    Raises:
        ParamsError: A path matches nothing.
    """
    found: set[Path] = set()
    for pattern in benchmark.paths:
        matches = [root / match for match in glob(pattern, root_dir=root, recursive=True)]
        if not matches:
            where = f"decontaminate.benchmarks, {benchmark.name!r}"
            raise ParamsError(f"no file matches {pattern!r}", where=where, fix="correct the path, or remove the benchmark")
        found.update(path for path in matches if path.is_file())
    return sorted(found)


def _items(benchmark: Benchmark, root: Path) -> Iterator[tuple[str, list[str]]]:
    for path in benchmark_files(benchmark, root):
        for number, item in _read_lines(path):
            where = f"{path}, line {number}"
            name = str(_field(item, benchmark.id_field, where)) if benchmark.id_field else f"{path.name}:{number}"
            yield name, [_text(_field(item, field, where)) for field in benchmark.fields]


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    item = json.loads(line)
                    if not isinstance(item, dict):
                        raise ValueError(f"expected an object, got {type(item).__name__}")
                    yield number, item
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        fix = "a benchmark is a JSONL file, one object a line; mend the file or correct decontaminate.benchmarks"
        raise SourceError(f"cannot be read: {error}", where=f"{path}, line {number}", fix=fix) from None


def _field(item: dict[str, Any], field: str, where: str) -> Any:
    value: Any = item
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            known = value if isinstance(value, dict) else {}
            fix = "correct decontaminate.benchmarks"
            raise ParamsError(f"the item has no field {field!r}, {did_you_mean(part, map(str, known))}", where=where, fix=fix)
        value = value[part]
    return value


def _text(value: Any) -> str:
    """A field's text: that of its strings, in order."""
    if isinstance(value, list):
        return "\n".join(_text(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(_text(part) for part in value.values())
    # A lone surrogate is legal JSON and no legal UTF-8.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def scan(index: Index, doc_ids: pa.Array, text: pa.Array) -> pa.RecordBatch:
    """Looks for the benchmarks' items in documents.

    Args:
        index: What to look for.
        doc_ids: string [n]
        text: large_string [n]

    Returns:
        Rows of `contamination`: one for each document and item that share an n-gram, by document and item
    """
    docs, grams = find_grams(text, index.grams)
    counts = np.diff(index.posting_starts)[grams]
    passages = index.postings[_ranges(index.posting_starts[grams], counts)]
    pairs, hits = np.unique(np.stack([np.repeat(docs, counts), passages], axis=1), axis=0, return_counts=True)
    docs, passages = pairs[:, 0], pairs[:, 1]
    covered = hits / index.passage_grams[passages]
    items = index.passage_items[passages]
    order = np.lexsort((-covered, items, docs))  # the best passage of each item first
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (docs[order][1:] != docs[order][:-1]) | (items[order][1:] != items[order][:-1])
    best = order[fresh]
    found = [index.items[i] for i in items[best]]
    return pa.record_batch(
        {
            "doc_id": doc_ids.take(pa.array(docs[best])).cast(pa.string()),
            "benchmark": pa.array([benchmark for benchmark, _ in found], pa.string()),
            "item_id": pa.array([item for _, item in found], pa.string()),
            "n": pa.array(index.passage_n[passages[best]], pa.int32()),
            "hits": pa.array(hits[best].astype(np.int32), pa.int32()),
            "covered": pa.array(covered[best], pa.float64()),
        },
        schema=schema.CONTAMINATION,
    )


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
