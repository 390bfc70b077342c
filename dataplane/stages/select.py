"""select: documents -> selected, select_decisions. Rules over signals; no text is read and no operator runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from dataplane import schema
from dataplane.corpus.selection import SelectParams, rules, signal_columns
from dataplane.deciding import Decider
from dataplane.engine.documents import ids_batch
from dataplane.lineage.record import StageRun, stage_main
from dataplane.pipeline import CleanParams, Step
from dataplane.snapshot import Snapshot

BATCH_ROWS = 65536


class Selection:
    """Streams the documents' signals once and writes who stays and why the others go.

    Attributes:
        reasons: Documents by "operator.reason".
        dropped: Documents by source.
    """

    def __init__(self, documents: Snapshot, decider: Decider) -> None:
        self.documents, self.decider = documents, decider
        self.reasons: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.decisions: list[pa.RecordBatch] = []

    def selected(self) -> Iterator[pa.RecordBatch]:
        """The ids that stay; `decisions` fills on the way."""
        columns = signal_columns(self.documents.dataset().schema.names)
        for batch in self.documents.batches(columns=columns, batch_size=BATCH_ROWS):
            kept, decisions = self.decider.decide(batch)
            mask = pa.array(kept)
            self._count(batch, mask, decisions)
            self.decisions.append(decisions)
            yield ids_batch(batch.column("doc_id").filter(mask))

    def _count(self, batch: pa.RecordBatch, mask: pa.Array, decisions: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        self.dropped.update(batch.column("source").filter(pc.invert(mask)).to_pylist())
        names = zip(decisions.column("operator").to_pylist(), decisions.column("reason").to_pylist(), strict=True)
        self.reasons.update(f"{operator}.{reason}" for operator, reason in names)


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("select", inputs=("documents",), params=("select", "clean.pipeline")) as run:
        clean = CleanParams(pipeline=[Step.parse(step, where=f"clean.pipeline[{i}]") for i, step in enumerate(run.params["clean.pipeline"])])
        decided = rules(SelectParams.parse(run.params["select"], where="select"), clean)
        documents = run.inputs["documents"]
        decider = Decider(decided, documents.dataset().schema, stage="select", run_id=run.run_id)
        run.used({rule.operator: rule.op_id for rule in decided})
        selection = Selection(documents, decider)
        selected = run.write("selected", schema.IDS, selection.selected())
        run.write("select_decisions", schema.DECISIONS, selection.decisions)
        run.account(rows_in=documents.rows, kept=selected.rows, dropped=documents.rows - selected.rows)
        run.metrics({
            "reasons": dict(sorted(selection.reasons.items())),
            "dropped_by_source": dict(sorted(selection.dropped.items())),
        })


if __name__ == "__main__":
    stage_main(main)
