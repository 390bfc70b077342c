"""Tasks over the documents that earlier stages kept: text comes from `documents`, the choice from a table of ids."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.engine.tables import TableTask
from dataplane.engine.units import Unit, ranges
from dataplane.kernels.hashing import row_hashes, sum128
from dataplane.params import digest
from dataplane.snapshot import Snapshot

UNIT_ROWS = 4096
BATCH_ROWS = 1024


class DocumentsTask(TableTask):
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
        super().__init__(root, tables)
        self.documents, self.ids, self.columns = documents, list(ids), list(columns)

    def open(self) -> None:
        """Loads the chosen ids."""
        self._chosen = chosen_ids(self.ids)

    def run(self, unit: tuple[int, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows from `unit[0]`, `unit[1]` of them."""
        for batch in self.documents.batches(["doc_id", *self.columns], batch_size=BATCH_ROWS, offset=unit[0], limit=unit[1]):
            chosen = batch.filter(pc.is_in(batch.column("doc_id"), self._chosen))
            if len(chosen):
                yield from self.rows(chosen)

    @abstractmethod
    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows made of one batch of chosen documents."""


def chosen_ids(snapshots: Sequence[Snapshot]) -> pa.Array:
    """The distinct doc_ids of these tables."""
    columns = [snapshot.to_table(columns=["doc_id"]).column("doc_id") for snapshot in snapshots]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()).unique()


def units(documents: Snapshot, ids: Sequence[Snapshot], columns: Sequence[str]) -> list[Unit]:
    """Ranges of rows that cover the table, known by what is chosen in them.

    A unit's key changes with the chosen documents' ids, texts and `columns`, and with nothing else: signals may come and go.

    Args:
        documents: The documents.
        ids: Tables whose doc_ids are chosen.
        columns: What the task reads beside doc_id.
    """
    wanted = chosen_ids(ids)
    read = ["doc_id", "text_hash", *(name for name in columns if name != "text")]
    data = documents.open()
    found: list[Unit] = []
    for unit in ranges(documents, UNIT_ROWS):
        total = count = 0
        for batch in data.batches(read, None, UNIT_ROWS, *unit.work):
            part = batch.filter(pc.is_in(batch.column("doc_id"), wanted))
            total, count = total + sum128(row_hashes(part, read)), count + len(part)
        if count:
            found.append(Unit(digest([count, str(total)]), unit.work))
    return found


def chosen(documents: Snapshot, ids: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The chosen documents in stored order, in this process."""
    wanted = chosen_ids(ids)
    for batch in documents.batches(columns=["doc_id", *columns], batch_size=BATCH_ROWS):
        part = batch.filter(pc.is_in(batch.column("doc_id"), wanted))
        if len(part):
            yield part


def ids_batch(doc_ids: Any) -> pa.RecordBatch:
    """A batch of the schema `IDS`."""
    from dataplane.schema import IDS

    return pa.record_batch({"doc_id": pa.array(doc_ids, pa.string())}, schema=IDS)
