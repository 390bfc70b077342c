"""decontaminate: deduplicated -> contamination, decontaminated, cuts. Documents with benchmark items go, or what they hold of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dataplane import schema
from dataplane.corpus.benchmark_items import benchmark_files
from dataplane.corpus.contamination import DecontaminateParams, Index, build_index, by_benchmark, contaminated, scan
from dataplane.corpus.contamination_cuts import cut_out
from dataplane.engine.cuts import Cuts
from dataplane.engine.documents import DocumentsTask, ids_batch, members
from dataplane.kernels.members import Members
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.snapshot import Snapshot

ONLY_DECIDE = {"action", "margin", "min_left", "max_pieces"}  # what the hits do not depend on


class Scan(DocumentsTask):
    """Looks for benchmark items in each document."""

    def __init__(self, root: Path, documents: Snapshot, ids: Snapshot, repeats: Snapshot, index: Index) -> None:
        super().__init__(root, {"contamination": schema.CONTAMINATION}, documents, [ids], ["text"], repeats)
        self.index = index

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The hits in one batch."""
        yield "contamination", scan(self.index, batch.column("doc_id"), batch.column("text"))


def _kept(ids: Snapshot, gone: Members) -> Iterator[pa.RecordBatch]:
    for batch in ids.batches():
        column = batch.column("doc_id")
        yield ids_batch(column.filter(pa.array(~gone.hold(column))))


def _decided(
    index: Index, hits: pa.Table, documents: Snapshot, repeats: Snapshot, params: DecontaminateParams
) -> tuple[pa.Table, pa.Array]:
    """Rows of `cuts` for what is held of benchmarks, and the documents that go."""
    if params.action == "drop":
        return schema.CUTS.empty_table(), contaminated(hits, params)
    return cut_out(index, hits, documents, Cuts.load(repeats), params)


def _all_cuts(own: pa.Table, repeats: Snapshot, kept: Snapshot) -> pa.Table:
    """What is cut out of the documents that stay, repeats included, by doc_id and start."""
    earlier = repeats.to_table(schema.CUTS.names)
    stays = members([kept]).hold(earlier.column("doc_id"))
    rows = pa.concat_tables([earlier.filter(pa.array(stays)).select(schema.CUTS.names), own])
    return rows.sort_by([(name, "ascending") for name in schema.CUTS.names])


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("decontaminate", inputs=("documents", "deduplicated", "repeats"), params=("decontaminate",)) as run:
        params = DecontaminateParams.parse(run.params["decontaminate"], where="decontaminate")
        documents, ids, repeats = (run.inputs[table] for table in ("documents", "deduplicated", "repeats"))
        files = {str(path): file_digest(path) for benchmark in params.benchmarks for path in benchmark_files(benchmark, run.root)}
        index = build_index(params, run.root)
        task = Scan(run.root, documents, ids, repeats, index)
        journal = run.journal(params=params.model_dump(mode="json", exclude=ONLY_DECIDE), benchmarks=files)
        hits = run.map_rows(task, journal)["contamination"].to_table()
        own, gone = _decided(index, hits, documents, repeats, params)
        kept = run.write("decontaminated", schema.IDS, _kept(ids, Members.of(gone)))
        run.write("cuts", schema.CUTS, _all_cuts(own, repeats, kept).to_batches())
        run.account(rows_in=ids.rows, kept=kept.rows, dropped=len(gone))
        run.metrics(
            {"hits": hits.num_rows, "documents_cut": len(own.column("doc_id").unique()), "by_benchmark": by_benchmark(hits, index, params)}
        )


if __name__ == "__main__":
    stage_main(main)
