"""Passages that are cut out of documents when they are read: text is written once, and what does not count of it is told beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.kernels.hashing import U64, row_hashes
from dataplane.kernels.members import I64, Members
from dataplane.snapshot import Snapshot

Spans = Sequence[tuple[int, int]]  # code points: the first, and the one after the last
_NEWLINE = "\n"


class Cuts:
    """What is cut out of which document.

    Args:
        table: Columns doc_id, start, stop of the table `cuts`.
    """

    def __init__(self, table: pa.Table) -> None:
        rows = table.select(["doc_id", "start", "stop"]).sort_by([("doc_id", "ascending"), ("start", "ascending"), ("stop", "ascending")])
        rows = rows.combine_chunks()
        names = rows.column("doc_id").combine_chunks()
        self.doc_ids = names.unique()
        self._members = Members.of(self.doc_ids)
        self._starts, self._stops = (rows.column(name).to_numpy() for name in ("start", "stop"))
        self._first = np.searchsorted(pc.index_in(names, self.doc_ids).to_numpy(), np.arange(len(self.doc_ids) + 1))
        hashes = [row_hashes(batch) for batch in rows.to_batches()]
        self._hashes = np.add.reduceat(np.concatenate(hashes), self._first[:-1]) if hashes else np.zeros((0, 2), np.uint64)

    @classmethod
    def load(cls, snapshot: Snapshot) -> Cuts:
        """Reads a version of the table `cuts`; it is kept in memory, some 60 bytes a cut."""
        return _load(snapshot)

    def told(self, doc_ids: pa.Array, hashes: U64) -> U64:
        """Hashes of documents (uint64 [n, 2]) that differ where other passages are cut out of them."""
        places = self.places(doc_ids)
        out = hashes.copy()
        out[places >= 0] ^= self._hashes[places[places >= 0]]
        return out

    def spans(self, doc_id: str) -> Spans:
        """What is cut out of a document."""
        place = int(self.places(pa.array([doc_id]))[0])
        return [] if place < 0 else self._spans(place)

    def texts(self, doc_ids: pa.Array, text: pa.Array) -> pa.Array:
        """Texts (large_string [n]) without what is cut out of them."""
        places = self.places(doc_ids)
        if not (places >= 0).any():
            return text
        changed = [None if place < 0 else without(text[i].as_py(), self._spans(place)) for i, place in enumerate(places.tolist())]
        return pc.if_else(pa.array(places >= 0), pa.array(changed, pa.large_string()), text.cast(pa.large_string()))

    def places(self, doc_ids: pa.Array) -> I64:
        """int64 [n]: where each document stands in `doc_ids`; -1 where nothing is cut out of it."""
        return self._members.places(doc_ids)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with doc_id and text, the text without what is cut out of it."""
        at = batch.schema.get_field_index("text")
        field = pa.field("text", pa.large_string())
        return batch.set_column(at, field, self.texts(batch.column("doc_id"), batch.column("text")))

    def _spans(self, place: int) -> Spans:
        part = slice(self._first[place], self._first[place + 1])
        return list(zip(self._starts[part].tolist(), self._stops[part].tolist(), strict=True))


@lru_cache(maxsize=4)
def _load(snapshot: Snapshot) -> Cuts:
    return Cuts(snapshot.to_table(["doc_id", "start", "stop"]))


def without(text: str, spans: Spans) -> str:
    """A text without some passages."""
    return "".join(text[start:stop] for start, stop in kept(text, spans))


def kept(text: str, spans: Spans) -> Spans:
    """The parts of a text that stay where passages are cut out.

    Of the white space before and after a passage, that stays which has more line breaks; none at the text's ends but the indentation of its
    first line.

    Args:
        text: The text.
        spans: What is cut out of it; they may overlap.
    """
    gaps = [_gap(text, start, stop) for start, stop in _joined(text, spans)]
    edges = [0, *(edge for gap in gaps for edge in gap), len(text)]
    return [(start, stop) for start, stop in list(pairwise(edges))[::2] if start < stop]


def _joined(text: str, spans: Spans) -> Iterable[tuple[int, int]]:
    """The spans in order, those joined that overlap or have white space alone between them."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def _gap(text: str, start: int, stop: int) -> tuple[int, int]:
    """What goes with a passage: the white space on one of its sides."""
    left = len(text[:start].rstrip())
    right = len(text) - len(text[stop:].lstrip())
    if right == len(text):
        return left, right
    if left == 0:
        return 0, right if _NEWLINE not in text[stop:right] else text.rindex(_NEWLINE, stop, right) + 1
    before, after = text[left:start], text[stop:right]
    if before.count(_NEWLINE) > after.count(_NEWLINE) or not after:
        return start, right
    return left, stop
