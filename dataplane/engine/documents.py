"""Tasks over the documents that earlier stages kept: text comes from `documents`, the choice from a table of ids."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.engine.cuts import Cuts
from dataplane.engine.rows import BATCH_ROWS, I64, RowsTask, read_rows
from dataplane.engine.units import Unit, ranges
from dataplane.kernels.hashing import U64, row_hashes, sum128
from dataplane.kernels.members import Members
from dataplane.params import digest
from dataplane.snapshot import Snapshot

UNIT_ROWS = 4096
SCAN_ROWS = 1 << 16


class DocumentsTask(RowsTask):
    """Works on the chosen documents of one range of `documents`.

    Args:
        root: Folder of the project.
        tables: Name -> schema of each table it writes.
        documents: The documents.
        ids: Tables whose doc_ids are chosen (their union).
        columns: What to read beside doc_id.
        cuts: Table of what is cut out of the texts.
    """

    def __init__(
        self,
        root: Path,
        tables: Mapping[str, pa.Schema],
        documents: Snapshot,
        ids: Sequence[Snapshot],
        columns: Sequence[str],
        cuts: Snapshot | None = None,
    ) -> None:
        read = [documents, *ids, *([cuts] if cuts else [])]
        super().__init__(root, tables, read, ["doc_id", "text_hash", *(name for name in columns if name != "text")])
        self.columns, self._n_ids = ["doc_id", *columns], len(ids)

    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        """Ranges of rows that cover the table, known by what is chosen in them.

        A unit's key changes with the chosen documents' ids, texts, `columns` and cuts, and with nothing else: signals may come and go.
        """
        documents, cuts, found, at = inputs[0], self._cuts(inputs), [], 0
        wanted = members(self._ids(inputs))
        for part in _cut_into([unit.work[1] for unit in ranges(documents, UNIT_ROWS)], documents.batches(self.told_by, None, SCAN_ROWS)):
            rows, total = [], 0
            for batch in part:
                places = np.flatnonzero(wanted.hold(batch.column("doc_id")))
                own = batch.take(pa.array(places))
                total += sum128(_told(own.column("doc_id"), row_hashes(own), cuts))
                rows.append(at + places)
                at += len(batch)
            n_chosen = sum(map(len, rows))
            if n_chosen:
                found.append(Unit(digest([n_chosen, str(total)]), np.concatenate(rows)))
        return found

    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is made of the documents at these places."""
        cuts = self._cuts(self.inputs)
        for batch in read_rows(self.inputs[0].open(), rows, self.columns):
            yield from self.rows(cuts.batch(batch) if cuts else batch)

    def _told(self, inputs: Sequence[Snapshot], unit: Unit) -> tuple[pa.Array, U64]:
        ids, hashes = super()._told(inputs, unit)
        return ids, _told(ids, hashes, self._cuts(inputs))

    def _known(self, inputs: Sequence[Snapshot], ids: pa.Array, done: set[str]) -> U64:
        wanted, chosen, cuts = Members.of(ids), members(self._ids(inputs)), self._cuts(inputs)
        found = [np.zeros((0, 2), np.uint64)]
        for batch in inputs[0].batches(self.told_by, None, SCAN_ROWS):
            own = chosen.rows(wanted.rows(batch))
            found.append(_told(own.column("doc_id"), row_hashes(own), cuts))
        return np.concatenate(found)

    def _ids(self, inputs: Sequence[Snapshot]) -> Sequence[Snapshot]:
        return inputs[1 : 1 + self._n_ids]

    def _cuts(self, inputs: Sequence[Snapshot]) -> Cuts | None:
        return Cuts.load(inputs[-1]) if len(inputs) > 1 + self._n_ids else None

    @abstractmethod
    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows made of one batch of chosen documents."""


def _cut_into(counts: Sequence[int], batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The rows of some batches in parts of so many: one scan for all, since each one that is begun takes milliseconds."""
    left = None
    for count in counts:
        part = []
        while count:
            left = left if left else next(batches)
            part.append(left.slice(0, count))
            count, left = count - len(part[-1]), left.slice(count)
        yield part


def chosen_ids(snapshots: Sequence[Snapshot]) -> pa.Array:
    """The distinct doc_ids of these tables."""
    columns = [snapshot.to_table(columns=["doc_id"]).column("doc_id") for snapshot in snapshots]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()).unique()


def members(snapshots: Sequence[Snapshot]) -> Members:
    """The doc_ids of these tables, to hold batches against."""
    return Members.of(*(snapshot.to_table(columns=["doc_id"]).column("doc_id") for snapshot in snapshots))


def _told(doc_ids: pa.Array, hashes: U64, cuts: Cuts | None) -> U64:
    return cuts.told(doc_ids, hashes) if cuts else hashes


def chosen(documents: Snapshot, ids: Sequence[Snapshot], columns: Sequence[str], cuts: Snapshot | None = None) -> Iterator[pa.RecordBatch]:
    """The chosen documents in stored order, in this process; texts without what is cut out of them."""
    wanted = members(ids)
    for batch in documents.batches(columns=["doc_id", *columns], batch_size=BATCH_ROWS):
        part = wanted.rows(batch)
        if len(part):
            yield Cuts.load(cuts).batch(part) if cuts and "text" in columns else part


def ids_batch(doc_ids: Any) -> pa.RecordBatch:
    """A batch of the schema `IDS`."""
    from dataplane.schema import IDS

    return pa.record_batch({"doc_id": pa.array(doc_ids, pa.string())}, schema=IDS)


def sized(table: pa.Table, documents: Snapshot, cuts: Snapshot) -> pa.Table:
    """A table with doc_id and n_bytes (of the stored texts), where n_bytes is what cuts leave of them."""
    cut = Cuts.load(cuts)
    if not len(cut.doc_ids):
        return table
    place = pc.index_in(table.column("doc_id"), cut.doc_ids)
    sizes = _cut_sizes(documents, cut)
    n_bytes = pc.coalesce(sizes.take(place), table.column("n_bytes"))
    return table.set_column(table.schema.get_field_index("n_bytes"), table.schema.field("n_bytes"), n_bytes)


def _cut_sizes(documents: Snapshot, cuts: Cuts) -> pa.Array:
    """UTF-8 bytes that are left of the text of each document that is cut: int64, in the order of `cuts`."""
    found = np.zeros(len(cuts.doc_ids), np.int64)
    for batch in documents.batches(columns=["doc_id", "text"], batch_size=BATCH_ROWS):
        places = cuts.places(batch.column("doc_id"))
        if (held := places >= 0).any():
            part = cuts.batch(batch.filter(pa.array(held)))
            found[places[held]] = pc.binary_length(part.column("text")).to_numpy()
    return pa.array(found)
