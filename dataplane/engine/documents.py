"""Tasks over the documents that earlier stages kept: text comes from `documents`, the choice from a table of ids."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane.engine.rows import BATCH_ROWS, I64, RowsTask, read_rows
from dataplane.engine.units import Unit, ranges
from dataplane.kernels.hashing import row_hashes, sum128
from dataplane.kernels.members import Members
from dataplane.params import digest
from dataplane.snapshot import Snapshot

UNIT_ROWS = 4096


class DocumentsTask(RowsTask):
    """Works on the chosen documents of one range of `documents`.

    Args:
        root: Folder of the project.
        tables: Name -> schema of each table it writes.
        documents: The documents.
        ids: Tables whose doc_ids are chosen (their union).
        columns: What to read beside doc_id.
    """

    def __init__(
        self, root: Path, tables: Mapping[str, pa.Schema], documents: Snapshot, ids: Sequence[Snapshot], columns: Sequence[str]
    ) -> None:
        super().__init__(root, tables, [documents, *ids], ["doc_id", "text_hash", *(name for name in columns if name != "text")])
        self.columns = ["doc_id", *columns]

    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        """Ranges of rows that cover the table, known by what is chosen in them.

        A unit's key changes with the chosen documents' ids, texts and `columns`, and with nothing else: signals may come and go.
        """
        documents, *ids = inputs
        wanted, data = members(ids), documents.open()
        found = []
        for offset, count in (unit.work for unit in ranges(documents, UNIT_ROWS)):
            rows, total, at = [], 0, offset
            for batch in data.batches(self.told_by, None, UNIT_ROWS, offset, count):
                places = np.flatnonzero(wanted.hold(batch.column("doc_id")))
                total += sum128(row_hashes(batch.take(pa.array(places))))
                rows.append(at + places)
                at += len(batch)
            n_chosen = sum(map(len, rows))
            if n_chosen:
                found.append(Unit(digest([n_chosen, str(total)]), np.concatenate(rows)))
        return found

    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is made of the documents at these places."""
        for batch in read_rows(self.inputs[0].open(), rows, self.columns):
            yield from self.rows(batch)

    @abstractmethod
    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows made of one batch of chosen documents."""


def chosen_ids(snapshots: Sequence[Snapshot]) -> pa.Array:
    """The distinct doc_ids of these tables."""
    columns = [snapshot.to_table(columns=["doc_id"]).column("doc_id") for snapshot in snapshots]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()).unique()


def members(snapshots: Sequence[Snapshot]) -> Members:
    """The doc_ids of these tables, to hold batches against."""
    return Members.of(*(snapshot.to_table(columns=["doc_id"]).column("doc_id") for snapshot in snapshots))


def chosen(documents: Snapshot, ids: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The chosen documents in stored order, in this process."""
    wanted = members(ids)
    for batch in documents.batches(columns=["doc_id", *columns], batch_size=BATCH_ROWS):
        part = wanted.rows(batch)
        if len(part):
            yield part


def ids_batch(doc_ids: Any) -> pa.RecordBatch:
    """A batch of the schema `IDS`."""
    from dataplane.schema import IDS

    return pa.record_batch({"doc_id": pa.array(doc_ids, pa.string())}, schema=IDS)
