"""Tasks that turn a unit of work into rows of several tables.

A task yields (table, batch); the engine writes each table's rows as fragments from the worker, so that rows never
travel between processes, and commits every table once all units are done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.lake.lance import has_files
from dataplane.snapshot import Part, table_uri, write_part

FLUSH_BYTES = 64 << 20


class TableTask(ABC):
    """One unit in, rows of `tables` out. Instances are pickled to the workers, so models load in `open`.

    Attributes:
        root: Folder of the project.
        tables: Name -> schema of each table it writes.
        counts: What `run` counts in a unit beside the rows it writes, such as the records it met.
    """

    def __init__(self, root: Path, tables: Mapping[str, pa.Schema]) -> None:
        self.root, self.tables = root, dict(tables)
        self.counts: Counter[str] = Counter()
        self._opened = False

    def open(self) -> None:
        """Loads what the work needs. Called once in each worker, before the first unit."""

    @abstractmethod
    def run(self, unit: Any) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of one unit, in order."""

    def __call__(self, unit: Any) -> dict[str, Any]:
        """Runs the unit and writes its rows; the result is what `parts` reads back."""
        if not self._opened:
            self.open()
            self._opened = True
        self.counts.clear()
        written: dict[str, list[Part]] = defaultdict(list)
        waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for table, batch in self.run(unit):
            waiting[table].append(batch)
            if sum(b.nbytes for b in waiting[table]) >= FLUSH_BYTES:
                written[table].append(self._flush(table, waiting.pop(table)))
        for table, batches in waiting.items():
            written[table].append(self._flush(table, batches))
        tables = {table: [[part.fragments, part.rows, str(part.total)] for part in parts] for table, parts in written.items()}
        return {"tables": tables, "counts": dict(self.counts)}

    def _flush(self, table: str, batches: list[pa.RecordBatch]) -> Part:
        return write_part(table, self.tables[table], batches, self.root)


def is_whole(result: Mapping[str, Any], root: Path) -> bool:
    """Whether the data files of a journaled result are still there (`dvc checkout` may have put an older lake in place)."""
    return all(
        has_files(table_uri(table, root), fragment)
        for table, written in result["tables"].items()
        for fragments, _, _ in written
        for fragment in fragments
    )


def parts(results: Sequence[Mapping[str, Any]], table: str) -> list[Part]:
    """The parts of one table from the results of all units, in unit order."""
    return [Part(fragments, rows, int(total)) for result in results for fragments, rows, total in result["tables"].get(table, [])]


def counts(results: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """What the units counted, together."""
    total: Counter[str] = Counter()
    for result in results:
        total.update(result["counts"])
    return total
