"""decontaminate: deduplicated -> contamination, decontaminated. Documents that hold benchmark items are left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dataplane import schema
from dataplane.corpus.benchmark_items import benchmark_files
from dataplane.corpus.contamination import DecontaminateParams, Index, build_index, by_benchmark, contaminated, scan
from dataplane.engine.documents import DocumentsTask, ids_batch
from dataplane.kernels.members import Members
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.snapshot import Snapshot


class Scan(DocumentsTask):
    """Looks for benchmark items in each document."""

    def __init__(self, root: Path, documents: Snapshot, ids: Snapshot, index: Index) -> None:
        super().__init__(root, {"contamination": schema.CONTAMINATION}, documents, [ids], ["text"])
        self.index = index

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The hits in one batch."""
        yield "contamination", scan(self.index, batch.column("doc_id"), batch.column("text"))


def _kept(ids: Snapshot, gone: Members) -> Iterator[pa.RecordBatch]:
    for batch in ids.batches():
        column = batch.column("doc_id")
        yield ids_batch(column.filter(pa.array(~gone.hold(column))))


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("decontaminate", inputs=("documents", "deduplicated"), params=("decontaminate",)) as run:
        params = DecontaminateParams.parse(run.params["decontaminate"], where="decontaminate")
        documents, ids = run.inputs["documents"], run.inputs["deduplicated"]
        files = {str(path): file_digest(path) for benchmark in params.benchmarks for path in benchmark_files(benchmark, run.root)}
        index = build_index(params, run.root)
        task = Scan(run.root, documents, ids, index)
        journal = run.journal(params=params.model_dump(mode="json"), benchmarks=files)
        hits = run.map_rows(task, journal)["contamination"].to_table()
        gone = contaminated(hits, params)
        kept = run.write("decontaminated", schema.IDS, _kept(ids, Members.of(gone)))
        run.account(rows_in=ids.rows, kept=kept.rows, dropped=len(gone))
        run.metrics({"hits": hits.num_rows, "by_benchmark": by_benchmark(hits, index, params)})


if __name__ == "__main__":
    stage_main(main)
