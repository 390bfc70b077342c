"""One execution of a stage, and the record that it leaves in ``lake/runs/``."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from dataplane import collector, lockfile
from dataplane.engine import mapping
from dataplane.engine.journal import Journal, stage_lock
from dataplane.engine.rows import WORKED_ON, RowsTask
from dataplane.engine.runners import runner
from dataplane.engine.tables import Present, Result, TableTask, served_by
from dataplane.engine.units import Unit
from dataplane.errors import AccountingError, ParamsError, TerraplaneError, of_system
from dataplane.lake.objectstore import write_atomically
from dataplane.lake.store import Fragment
from dataplane.lineage.openlineage import Events
from dataplane.params import digest, load_params
from dataplane.settings import Settings, load_settings
from dataplane.snapshot import LAKE, Snapshot, commit_parts, open_store, write_part

PARAMS_FILE = "params.yaml"
METRICS = "metrics"


class StageRun:
    """Reads params and inputs, writes tables and metrics, and keeps the books of one stage.

    The project is the current folder. On entry the code is held against plugins.lock.json and the stage is locked;
    on exit the record says COMPLETE or FAIL. A killed run leaves a record that says RUNNING.

    Args:
        stage: Name of the stage.
        inputs: Tables it reads.
        params: Subtrees of params.yaml it depends on (dotted paths).

    Attributes:
        run_id: UUID of this execution.
        params: The subtrees, by their dotted path.
        inputs: Snapshot of each table.
        settings: Workers and folders; they change no output.
        counts: What the units of the last `map` counted.
    """

    def __init__(self, stage: str, *, inputs: Sequence[str] = (), params: Sequence[str] = ()) -> None:
        self.stage, self.root, self.run_id = stage, Path(), str(uuid.uuid4())
        self._wanted_inputs, self._wanted_params = tuple(inputs), tuple(params)
        self.params: dict[str, Any] = {}
        self.inputs: dict[str, Snapshot] = {}
        self.settings: Settings = load_settings(self.root)
        self.counts: Counter[str] = Counter()
        self._outputs: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._metrics: dict[str, Any] = {}
        self._op_ids: dict[str, str] = {}
        self._effort: dict[str, int] = {}
        self._origins: dict[str, dict[str, Any]] = {}
        self._events = Events(self.settings.lineage, stage, self.root)
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        self._lock.enter_context(stage_lock(self.root, self.stage))
        try:
            self._begin()
        except BaseException:
            self._lock.close()
            raise
        return self

    def _begin(self) -> None:
        self._lockfile = lockfile.verify(self.root)
        tree = load_params(self.root / PARAMS_FILE)
        self.params = {path: _subtree(tree, path) for path in self._wanted_params}
        self.inputs = {table: Snapshot.load(table, self.root) for table in self._wanted_inputs}
        self._started, self._clock = datetime.now(UTC), time.monotonic()
        self._record("RUNNING")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self._write_metrics()
                self._record("COMPLETE")
                sys.stderr.write(self._summary() + "\n")
            else:
                self._record("FAIL", error)
        finally:
            self._lock.close()

    def identity(self, **more: Any) -> str:
        """Digest of what every unit's result depends on: the locked code, and `more`."""
        return digest({"stage": self.stage, "lock": self._lockfile, **more})

    def journal(self, **more: Any) -> Journal:
        """The journal of this run's identity."""
        journal = Journal(self.root, self.stage, self.identity(**more))
        journal.begin()
        return journal

    def map(self, task: TableTask, units: Sequence[Unit], journal: Journal) -> dict[str, Snapshot]:
        """Runs the task over the units in workers and commits each of its tables.

        Args:
            task: What to do with a unit's work.
            units: What to work on, in the order of the rows.
            journal: What is done already; the unit's key and the journal's identity must cover all that a result depends on.
        """
        before = _data_files(task.tables, self.root)
        run = runner(self.settings, self.root)
        outcome = mapping.map(task, units, run=run, journal=journal, title=self.stage, whole=Present(self.root))
        results = [Result.parse(result) for result in outcome.results]
        self.counts = sum((result.counts for result in results), Counter())
        self._effort = {
            "units": len(units),
            "done": len(outcome.done),
            "rows": sum(results[i].counts[WORKED_ON] for i in outcome.done),
            "bytes_written": sum(size for name, size in _data_files(task.tables, self.root).items() if name not in before),
        }
        written = {
            table: self._commit(table, schema, [result.tables.get(table, []) for result in results])
            for table, schema in task.tables.items()
        }
        _correct(journal, units, results, written)
        journal.keep({unit.key for unit in units})
        return written

    def map_rows(self, task: RowsTask, journal: Journal) -> dict[str, Snapshot]:
        """As `map`, over units that the task finds itself: what the last run made of rows that are still there is taken over."""
        written = self.map(task, task.units(journal), journal)
        journal.note(task.made(written))
        return written

    def write(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Snapshot:
        """Streams the rows of one table and commits them as one version."""
        return self._commit(table, schema, [write_part(table, schema, batches, self.root)])

    def _commit(self, table: str, schema: pa.Schema, written: Sequence[Sequence[Fragment]]) -> Snapshot:
        snapshot = commit_parts(table, schema, written, self.root)
        self._outputs[table] = snapshot.digest
        return snapshot

    def used(self, op_ids: Mapping[str, str]) -> None:
        """Notes the operators of this run: name -> op_id."""
        self._op_ids.update(op_ids)

    def came_from(self, table: str, *, columns: Mapping[str, Sequence[str]] | None = None, rows: Sequence[str] = ()) -> None:
        """Notes for the lineage of columns what only this run's operators and rules tell.

        Args:
            table: A table that it writes.
            columns: Column -> what the operator that wrote it has read: columns of the table itself.
            rows: What decided which rows the table has: columns of inputs, as TABLE.COLUMN.
        """
        self._origins[table] = {"columns": dict(columns or {}), "rows": list(rows)}

    def account(self, *, rows_in: int, kept: int, dropped: int = 0, quarantined: int = 0) -> None:
        """Closes the books.

        Raises:
            AccountingError: A row is lost or doubled.
        """
        if rows_in != kept + dropped + quarantined:
            raise AccountingError(
                f"{rows_in} rows in, but {kept} kept + {dropped} dropped + {quarantined} quarantined = {kept + dropped + quarantined}",
                where=self.stage,
                fix="this is a fault of the stage, not of the data: report it with the run's record",
            )
        self._rows = {"in": rows_in, "kept": kept, "dropped": dropped, "quarantined": quarantined}

    def metrics(self, values: Mapping[str, Any]) -> None:
        """Adds to metrics/STAGE.json. Plain values that are equal for equal runs; times go to `lake/runs`."""
        self._metrics.update(values)

    def _write_metrics(self) -> None:
        values = ({"rows": self._rows} if self._rows else {}) | self._metrics
        text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_atomically(self.root / METRICS / f"{self.stage}.json", text, self.stage)

    def _record(self, status: str, error: BaseException | None = None) -> None:
        values = {
            "run_id": self.run_id,
            "stage": self.stage,
            "status": status,
            "started_at": self._started.isoformat(),
            "seconds": round(time.monotonic() - self._clock, 3),
            "version": version("terraplane"),
            "code": self._lockfile["code"],
            "params": self.params,
            "params_digest": digest(self.params),
            "op_ids": self._op_ids,
            "inputs": {table: snapshot.digest for table, snapshot in self.inputs.items()},
            "outputs": self._outputs,
            "rows": self._rows,
            "effort": self._effort,
            "workers": self.settings.n_workers(),
            "error": f"{type(error).__name__}: {error}" if error else None,
            "pid": os.getpid(),
        }
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        write_atomically(self.root / LAKE / "runs" / f"{self.run_id}.json", text, self.stage)
        self._events.send(values | {"metrics": self._metrics, "origins": self._origins})

    def _summary(self) -> str:
        rows = ", ".join(f"{count:,} {name}" for name, count in self._rows.items())
        fresh = f", {self._effort['done']:,} of {self._effort['units']:,} units done now" if self._effort else ""
        fresh += f" ({self._effort['rows']:,} rows)" if self._effort.get("rows") else ""
        return f"{self.stage}: {rows or 'done'}{fresh} ({time.monotonic() - self._clock:.1f} s)"


def _correct(journal: Journal, units: Sequence[Unit], results: Sequence[Result], written: Mapping[str, Snapshot]) -> None:
    """Has the journal name the files that serve, where they are not the ones that were written."""
    served = results
    for table, snapshot in written.items():
        served = served_by(served, table, snapshot.fragments())
    for unit, noted, serving in zip(units, results, served, strict=True):
        if serving != noted:
            journal.put(unit.key, serving.to_json())


def _data_files(tables: Iterable[str], root: Path) -> dict[tuple[str, str], int]:
    """(table, name) -> bytes of the data files that are there."""
    store = open_store(root)
    return {(table, name): size for table in tables for name, size in store.data_files(table).items()}


def _subtree(tree: Mapping[str, Any], path: str) -> Any:
    node: Any = tree
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            raise ParamsError(f"params.yaml has no {path!r}", fix=f"add `{path}:` to params.yaml; `dataplane init` writes a whole one")
        node = node[part]
    return node


def stage_main(main: Callable[[], None]) -> None:
    """Runs a stage as a command: an error that we know prints what failed and how to mend it, and sets the exit code."""
    collector.begin()
    try:
        main()
    except TerraplaneError as error:
        sys.stderr.write(f"error: {error.render()}\n")
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        fault = of_system(error)
        sys.stderr.write(f"error: {fault.render()}\n")
        raise SystemExit(fault.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command to go on where it stopped\n")
        raise SystemExit(130) from None
    finally:
        collector.end()
