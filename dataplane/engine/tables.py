"""Tasks that turn a unit of work into rows of several tables.

A task yields (table, batch); the engine writes each table's rows as fragments from the worker, so that rows never
travel between processes, and commits every table once all units are done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.lake.store import Fragment
from dataplane.snapshot import open_store, write_part

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
        """Does the unit; the answer is what `Result.parse` reads back."""
        if not self._opened:
            self.open()
            self._opened = True
        self.counts.clear()
        return self.work(unit).to_json()

    def work(self, unit: Any) -> Result:
        """Runs the unit and writes its rows."""
        written: dict[str, list[Fragment]] = defaultdict(list)
        waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for table, batch in self.run(unit):
            waiting[table].append(batch)
            if sum(b.nbytes for b in waiting[table]) >= FLUSH_BYTES:
                written[table] += self._flush(table, waiting.pop(table))
        for table, batches in waiting.items():
            written[table] += self._flush(table, batches)
        return Result(dict(written), Counter(self.counts))

    def _flush(self, table: str, batches: list[pa.RecordBatch]) -> list[Fragment]:
        return write_part(table, self.tables[table], batches, self.root)


@dataclass(frozen=True)
class Result:
    """What a unit of work left behind.

    Attributes:
        tables: Table -> the fragments written, in row order.
        counts: What was counted on the way.
    """

    tables: dict[str, list[Fragment]]
    counts: Counter[str]

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {"tables": {table: [asdict(f) for f in fragments] for table, fragments in self.tables.items()}, "counts": self.counts}

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Result:
        """From what the journal keeps."""
        tables = {table: [Fragment(**f) for f in fragments] for table, fragments in values["tables"].items()}
        return cls(tables, Counter(values["counts"]))


def served_by(results: Sequence[Result], table: str, fragments: Sequence[Fragment]) -> list[Result]:
    """The results with a table's fragments as they were committed.

    A content that the table had before is served by the files of that time, and the new ones are swept. Where rows are not cut
    into fragments as they were then, the results stay as they are.
    """
    written = [fragment for result in results for fragment in result.tables.get(table, [])]
    if [(f.rows, f.total) for f in written] != [(f.rows, f.total) for f in fragments]:
        return list(results)
    rest = iter(fragments)
    return [
        replace(result, tables={name: list(islice(rest, len(of))) if name == table else of for name, of in result.tables.items()})
        for result in results
    ]


class Present:
    """Which data files are there, listed once for each table: `dvc checkout` may have put an older lake in place."""

    def __init__(self, root: Path) -> None:
        self._store = open_store(root)
        self._names: dict[str, set[str]] = {}

    def __call__(self, result: Mapping[str, Any]) -> bool:
        """Whether every data file of a journaled result is there."""
        return all(self._has(table, fragment) for table, fragments in Result.parse(result).tables.items() for fragment in fragments)

    def _has(self, table: str, fragment: Fragment) -> bool:
        if table not in self._names:
            self._names[table] = set(self._store.data_files(table))
        return all(name in self._names[table] for name in self._store.files(fragment.data))
