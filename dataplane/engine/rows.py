"""Tasks that make rows of single input rows, so that what was made of a row serves again wherever the row now lies.

The journal knows whole units. A unit in which one row is new, or was left out, would be done again from its first row to
its last; so the rows that the last run under the same identity had seen are taken over from what it wrote, and only the others
are worked on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.engine.journal import Journal
from dataplane.engine.tables import Present, TableTask
from dataplane.engine.units import Unit
from dataplane.errors import DataError
from dataplane.kernels.hashing import U64, row_hashes
from dataplane.kernels.members import Bools, Members
from dataplane.lake.store import Data
from dataplane.snapshot import Snapshot, content_sum, find_version

BATCH_ROWS = 1024
WORKED_ON = "worked on"  # what a unit counts: rows that were not taken over
TOLD_ROWS, TOLD_BYTES = 1 << 14, 32 << 20  # hashed at once: small fragments give small batches
READ_THROUGH = 8  # rows that lie closer together than this are read with what is between them

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Carried:
    """What was made before of some of a unit's rows.

    Attributes:
        ids: doc_id of each of the unit's rows [n], the new ones included.
        new: Whether a row has to be worked on [n].
        places: Table -> rows of its earlier version that belong to the others, ascending.
    """

    ids: pa.Array
    new: Bools
    places: dict[str, I64]


@dataclass(frozen=True)
class Part:
    """Rows of the input that are worked on together.

    Attributes:
        rows: Their places, ascending [n].
        carried: What of them was made before; None where nothing was.
    """

    rows: I64
    carried: Carried | None = None

    def new(self) -> I64:
        """Places of those that have to be worked on."""
        return self.rows if self.carried is None else self.rows[self.carried.new]

    def new_rows(self) -> int:
        """How many of them have to be worked on."""
        return len(self.rows) if self.carried is None else int(self.carried.new.sum())


class RowsTask(TableTask):
    """A task in which each row that is written belongs to one row of the input, and has its doc_id.

    Args:
        root: Folder of the project.
        tables: Name -> schema of each table it writes.
        inputs: The tables that decide which rows there are; the first holds the rows themselves.
        told_by: Columns of the first that tell whether a row is what it was, doc_id among them.
    """

    def __init__(self, root: Path, tables: Mapping[str, pa.Schema], inputs: Sequence[Snapshot], told_by: Sequence[str]) -> None:
        super().__init__(root, tables)
        self.inputs, self.told_by = list(inputs), list(told_by)
        self.earlier: dict[str, Snapshot] = {}

    def open(self) -> None:
        """Opens what earlier runs wrote."""
        self._versions = {table: (version.open(), version.fragments()) for table, version in self.earlier.items()}

    @abstractmethod
    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        """The units of these versions of the inputs: places of rows [n], by a key that changes with the rows."""

    @abstractmethod
    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is made of the input's rows at these places, in order."""

    def new_bytes(self, works: Sequence[Any]) -> int:
        """Bytes of the rows that have to be worked on; 0 where a row is little work however long it is."""
        return 0

    def units(self, journal: Journal) -> list[Unit]:
        """Units of `Part` for the current inputs; finds what the last run under the journal's identity left behind."""
        found = self.parts(self.inputs)
        present = Present(self.root)
        done = {unit.key for unit in found if (result := journal.get(unit.key)) is not None and present(result)}
        undone = [unit for unit in found if unit.key not in done]
        carried = dict(zip((unit.key for unit in undone), self._carry(undone, done, journal), strict=True))
        parts = [Part(unit.work, carried.get(unit.key)) for unit in found]
        return [Unit(unit.key, part, part.new_rows()) for unit, part in zip(found, parts, strict=True)]

    def made(self, written: Mapping[str, Snapshot]) -> dict[str, Any]:
        """What the journal has to say, for `units` of a later run."""
        return {"inputs": [[i.table, i.digest] for i in self.inputs], "tables": {table: s.digest for table, s in written.items()}}

    def run(self, unit: Part) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of a unit: made, or taken over, in the order of the input."""
        try:
            earlier = self._taken_over(unit.carried) if unit.carried else None
        except DataError:  # damaged since; what it was made of is still there
            earlier = None
        if unit.carried is None or earlier is None:
            self.counts[WORKED_ON] += len(unit.rows)
            yield from self.make(unit.rows)
        else:
            yield from self._joined(unit.rows, unit.carried, earlier)

    def _joined(self, rows: I64, carried: Carried, earlier: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is made of the new rows, between what was made of the others."""
        self.counts[WORKED_ON] += int(carried.new.sum())
        made: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for table, batch in self.make(rows[carried.new]):
            made[table].append(batch)
        for table, schema in self.tables.items():
            whole = pa.concat_tables([earlier[table], pa.Table.from_batches(made[table], schema=schema)])
            place = pc.index_in(whole.column("doc_id"), carried.ids).to_numpy()
            for batch in whole.take(np.argsort(place, kind="stable")).combine_chunks().to_batches():
                yield table, batch

    def _carry(self, undone: Sequence[Unit], done: set[str], journal: Journal) -> list[Carried | None]:
        """For each unit what can be taken over from the last run's versions, where they are still there."""
        seen = self._find_earlier(journal) if undone else []
        if not seen:
            return [None] * len(undone)
        now = [self._told(self.inputs, unit) for unit in undone]
        known = Members(self._known(seen, pa.concat_arrays([ids for ids, _ in now]), done))
        return self._places([ids for ids, _ in now], [~known.among(hashes) for _, hashes in now])

    def _known(self, inputs: Sequence[Snapshot], ids: pa.Array, done: set[str]) -> U64:
        """Hashes [m, 2] of rows in these versions of the inputs, those of some doc_ids among them."""
        # No row of a unit that the journal knows can be in another one.
        gone = [unit for unit in self.parts(inputs) if unit.key not in done]
        return np.concatenate([np.zeros((0, 2), np.uint64), *(self._told(inputs, unit)[1] for unit in gone)])

    def _find_earlier(self, journal: Journal) -> list[Snapshot]:
        """The inputs of the last run under this identity; notes what it wrote. Empty where something of it is gone."""
        about = journal.about()
        seen = [find_version(table, digest, self.root) for table, digest in about.get("inputs", [])]
        written = {table: find_version(table, digest, self.root) for table, digest in about.get("tables", {}).items()}
        inputs = [version for version in seen if version]
        self.earlier = {table: version for table, version in written.items() if version}
        whole = inputs and len(inputs) == len(seen) == len(self.inputs) and self.earlier.keys() == self.tables.keys()
        return inputs if whole and set(self.told_by) <= set(inputs[0].schema.names) else []

    def _told(self, inputs: Sequence[Snapshot], unit: Unit) -> tuple[pa.Array, U64]:
        """doc_id [n] and hash [n, 2] of a unit's rows in these versions of the inputs."""
        ids, hashes = [], []
        for batch in by_size(read_rows(inputs[0].open(), unit.work, self.told_by), TOLD_ROWS, TOLD_BYTES):
            ids.append(batch.column("doc_id"))
            hashes.append(row_hashes(batch))
        return pa.concat_arrays(ids), np.concatenate(hashes)

    def _places(self, ids: Sequence[pa.Array], new: Sequence[Bools]) -> list[Carried | None]:
        """Where the rows of the known doc_ids of each unit lie."""
        known = [of.filter(pa.array(~fresh)) for of, fresh in zip(ids, new, strict=True)]
        borders = np.cumsum([len(of) for of in known])
        places = [dict[str, I64]() for _ in known]
        for table, version in self.earlier.items():
            column = version.to_table(columns=["doc_id"]).column("doc_id")
            where = pc.fill_null(pc.index_in(column, pa.concat_arrays(known)), -1).to_numpy()
            rows = np.flatnonzero(where >= 0)
            unit = np.searchsorted(borders, where[rows], side="right")
            rows = rows[np.argsort(unit, kind="stable")]
            for of, part in zip(places, np.split(rows, np.cumsum(np.bincount(unit, minlength=len(known)))[:-1]), strict=True):
                of[table] = part
        return [Carried(*values) if len(old) else None for *values, old in zip(ids, new, places, known, strict=True)]

    def _taken_over(self, carried: Carried) -> dict[str, pa.Table]:
        return {table: self._taken(table, places) for table, places in carried.places.items()}

    def _taken(self, table: str, places: I64) -> pa.Table:
        """Rows of an earlier version, from fragments whose content is what was summed when they were written.

        Raises:
            DataError: A fragment is damaged.
        """
        (data, fragments), start = self._versions[table], 0
        found = [data.schema.empty_table()]
        for fragment in fragments:
            inside = places[np.searchsorted(places, start) : np.searchsorted(places, start + fragment.rows)] - start
            if len(inside):
                batches = list(data.batches(None, None, BATCH_ROWS, start, fragment.rows))
                if sum(map(content_sum, batches)) % (1 << 128) != int(fragment.total, 16):
                    raise DataError(f"a fragment of {table!r} is not what was written", fix="`dataplane lake verify` names it")
                found.append(pa.Table.from_batches(batches).take(inside))
            start += fragment.rows
        return pa.concat_tables(found)


def read_rows(data: Data, rows: I64, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The rows at some places, in batches.

    Args:
        data: The table.
        rows: Places, ascending [n].
        columns: What to read.
        batch_rows: Most rows in a batch.
    """
    if len(rows) and (rows[-1] - rows[0]) < READ_THROUGH * len(rows):
        yield from _through(data, rows, columns, batch_rows)
        return
    for start in range(0, len(rows), batch_rows):
        (batch,) = data.take(rows[start : start + batch_rows].tolist(), columns).combine_chunks().to_batches()
        yield batch


def by_size(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Neighbouring batches joined, as long as neither their rows nor their bytes are too many; none is split."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        if gathered and (_rows([*gathered, batch]) > most_rows or _bytes([*gathered, batch]) > most_bytes):
            yield pa.concat_batches(gathered)
            gathered = []
        gathered.append(batch)
    if gathered:
        yield pa.concat_batches(gathered)


def _rows(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(map(len, batches))


def _bytes(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


def _through(data: Data, rows: I64, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    at = int(rows[0])
    for batch in data.batches(columns, None, batch_rows, at, int(rows[-1]) + 1 - at):
        inside = rows[np.searchsorted(rows, at) : np.searchsorted(rows, at + len(batch))] - at
        at += len(batch)
        if len(inside):
            yield batch if len(inside) == len(batch) else batch.take(pa.array(inside))
