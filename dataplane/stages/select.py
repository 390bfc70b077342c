"""select: documents -> selected, select_decisions. Rules over signals; no text is read and no operator runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.corpus.selection import SelectParams, rules, signal_columns
from dataplane.deciding import Decider, Rule
from dataplane.engine.documents import ids_batch
from dataplane.engine.rows import I64, RowsTask, read_rows
from dataplane.engine.units import Unit, whole_fragments
from dataplane.lineage.record import StageRun, stage_main
from dataplane.pipeline import CleanParams, Step
from dataplane.snapshot import Snapshot

UNIT_ROWS = 1 << 15
BATCH_ROWS = 1 << 16


class Select(RowsTask):
    """Decides on rows of `documents`, from their signals alone."""

    def __init__(self, root: Path, documents: Snapshot, decided: Sequence[Rule], run_id: str) -> None:
        self.columns = signal_columns(documents.schema.names)
        super().__init__(root, {"selected": schema.IDS, "select_decisions": schema.DECISIONS}, [documents], self.columns)
        self.decided, self.run_id = list(decided), run_id

    def open(self) -> None:
        """Compiles the rules."""
        super().open()
        self.decider = Decider(self.decided, self.inputs[0].schema, stage="select", run_id=self.run_id)

    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        """Neighbouring fragments, known by their content."""
        return [Unit(unit.key, np.arange(unit.work[0], sum(unit.work))) for unit in whole_fragments(inputs[0], UNIT_ROWS)]

    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Decides on the documents at these places."""
        for batch in read_rows(self.inputs[0].open(), rows, self.columns, BATCH_ROWS):
            kept, decisions = self.decider.decide(batch)
            yield "selected", ids_batch(batch.column("doc_id").filter(pa.array(kept)))
            yield "select_decisions", decisions


def _counts(documents: Snapshot, written: dict[str, Snapshot]) -> dict[str, Any]:
    """What went and why, from the committed tables."""
    import duckdb

    connection = duckdb.connect()
    connection.register("d", written["select_decisions"].to_table(columns=["doc_id", "operator", "reason"]))
    connection.register("s", documents.to_table(columns=["doc_id", "source"]))
    reasons = "SELECT operator || '.' || reason, count(*) FROM d GROUP BY 1 ORDER BY 1"
    sources = "SELECT source, count(DISTINCT doc_id) FROM d JOIN s USING (doc_id) GROUP BY 1 ORDER BY 1"
    return {
        "dropped": connection.execute("SELECT count(DISTINCT doc_id) FROM d").fetchone()[0],
        "reasons": dict(connection.execute(reasons).fetchall()),
        "dropped_by_source": dict(connection.execute(sources).fetchall()),
    }


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("select", inputs=("documents",), params=("select", "clean.pipeline")) as run:
        clean = CleanParams(
            pipeline=[Step.parse(step, where=f"clean.pipeline[{i}]") for i, step in enumerate(run.params["clean.pipeline"])]
        )
        decided = rules(SelectParams.parse(run.params["select"], where="select"), clean)
        documents = run.inputs["documents"]
        decider = Decider(decided, documents.schema, stage="select", run_id=run.run_id)  # faults in rules show before any work
        run.used({rule.operator: rule.op_id for rule in decided})
        run.came_from("selected", rows=[f"documents.{column}" for column in decider.looks_at()])
        journal = run.journal(rules=[asdict(rule) for rule in decided])
        written = run.map_rows(Select(run.root, documents, decided, run.run_id), journal)
        counts = _counts(documents, written)
        run.account(rows_in=documents.rows, kept=written["selected"].rows, dropped=counts.pop("dropped"))
        run.metrics(counts)


if __name__ == "__main__":
    stage_main(main)
