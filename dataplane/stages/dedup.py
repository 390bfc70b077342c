"""dedup: selected -> signatures, duplicates, deduplicated. Equal texts first, then near-duplicates among what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus import exact, minhash
from dataplane.corpus.minhash import DedupParams
from dataplane.engine.documents import DocumentsTask, ids_batch
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot

I64 = npt.NDArray[np.int64]


def signatures_schema(params: DedupParams) -> pa.Schema:
    """Schema of `signatures`: what dedup compares, kept so that later batches can be held against it."""
    return pa.schema(
        [
            schema.DOC_ID,
            pa.field("source", pa.string()),
            pa.field("n_bytes", pa.int64()),
            pa.field("content_hash", pa.list_(pa.uint64(), 2)),
            pa.field("signature", pa.list_(pa.uint32(), params.minhash.bands * params.minhash.rows)),
        ]
    )


class Sign(DocumentsTask):
    """Computes each selected document's content hash and MinHash signature."""

    def __init__(self, root: Path, documents: Snapshot, selected: Snapshot, params: DedupParams) -> None:
        super().__init__(root, {"signatures": signatures_schema(params)}, documents, [selected], ["source", "n_bytes", "text"])
        self.params = params

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The signatures of one batch."""
        text = batch.column("text")
        columns = [
            batch.column("doc_id"),
            batch.column("source"),
            batch.column("n_bytes"),
            _fixed_list(exact.content_hashes(text, self.params.exact)),
            _fixed_list(minhash.signatures(text, self.params.minhash)),
        ]
        yield "signatures", pa.record_batch(columns, schema=self.tables["signatures"])


def _fixed_list(values: npt.NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _matrix(column: pa.ChunkedArray, width: int) -> npt.NDArray[Any]:
    """[n, width] from a column of fixed-size lists."""
    values: npt.NDArray[Any] = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, width)


def find(signed: pa.Table, documents: Snapshot, params: DedupParams) -> pa.Table:
    """Rows of `duplicates`: exact clusters and near-duplicate clusters, joined where an exact copy's keeper is itself dropped."""
    ids = signed.column("doc_id").combine_chunks()
    rank = exact.survival_rank(
        ids, signed.column("source").combine_chunks(), signed.column("n_bytes").combine_chunks(), params.source_priority
    )
    copies = exact.find_duplicates(ids, _matrix(signed.column("content_hash"), 2).astype(np.uint64), rank)
    gone = copies.filter(pc.invert(copies.column("kept"))).column("doc_id")
    left = np.flatnonzero(pc.invert(pc.is_in(ids, gone.combine_chunks())).to_numpy(zero_copy_only=False))
    width = params.minhash.bands * params.minhash.rows
    near = minhash.find_duplicates(
        ids.take(pa.array(left)),
        _matrix(signed.column("signature"), width).astype(np.uint32)[left],
        rank[left],
        _reader(documents, ids.take(pa.array(left))),
        params.minhash,
    )
    return join(copies, near)


def _reader(documents: Snapshot, ids: pa.Array) -> minhash.TextsOf:
    """Fetches texts by place in `ids`."""
    data = documents.open()
    places = pc.index_in(ids, documents.to_table(columns=["doc_id"]).column("doc_id").combine_chunks()).to_numpy().astype(np.int64)

    def texts_of(wanted: I64) -> pa.Array:
        return data.take(places[wanted].tolist(), ["text"]).column("text").combine_chunks()

    return texts_of


def join(copies: pa.Table, near: pa.Table) -> pa.Table:
    """One table in which every representative is a kept document.

    An exact copy whose keeper was dropped as a near-duplicate takes that one's representative, cluster and similarity.
    """
    moved = {row["doc_id"]: row for row in near.to_pylist()}
    rows = near.to_pylist()
    for row in copies.to_pylist():
        keeper = moved.get(row["representative"])
        if row["doc_id"] in moved:  # the keeper itself: its row in `near` says all
            continue
        if keeper is not None:
            how = row["how"] if keeper["kept"] else keeper["how"]
            row |= {
                "cluster_id": keeper["cluster_id"],
                "representative": keeper["representative"],
                "similarity": keeper["similarity"],
                "how": how,
            }
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=schema.DUPLICATES)
    return _with_cluster_ids(table).sort_by([("cluster_id", "ascending"), ("kept", "descending"), ("doc_id", "ascending")])


def _with_cluster_ids(table: pa.Table) -> pa.Table:
    """cluster_id = the smallest doc_id among the documents that share a representative."""
    if not table.num_rows:
        return table
    smallest = table.group_by("representative").aggregate([("doc_id", "min")])
    place = pc.index_in(table.column("representative"), smallest.column("representative").combine_chunks())
    names = smallest.column("doc_id_min").take(place)
    return table.set_column(table.schema.get_field_index("cluster_id"), schema.DUPLICATES.field("cluster_id"), names)


def _counts(duplicates: pa.Table, params: DedupParams) -> dict[str, Any]:
    dropped = duplicates.filter(pc.invert(duplicates.column("kept")))
    how = dropped.column("how").value_counts().to_pylist()
    curve = {str(s): round(minhash.candidate_probability(s, params.minhash), 4) for s in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)}
    return {
        "dropped": {row["values"]: row["counts"] for row in sorted(how, key=lambda row: str(row["values"]))},
        "clusters": pc.count_distinct(duplicates.column("cluster_id")).as_py(),
        "largest_cluster": max((row["counts"] for row in duplicates.column("cluster_id").value_counts().to_pylist()), default=0),
        "minhash": {"bands": params.minhash.bands, "rows": params.minhash.rows, "threshold": params.minhash.threshold},
        "candidate_probability": curve,
    }


def _kept(ids: Sequence[pa.Array], gone: pa.Array) -> Iterator[pa.RecordBatch]:
    for chunk in ids:
        yield ids_batch(chunk.filter(pc.invert(pc.is_in(chunk, gone))))


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("dedup", inputs=("documents", "selected"), params=("dedup",)) as run:
        params = DedupParams.parse(run.params["dedup"], where="dedup")
        documents, selected = run.inputs["documents"], run.inputs["selected"]
        task = Sign(run.root, documents, selected, params)
        journal = run.journal(exact=params.exact.model_dump(mode="json"), minhash=params.minhash.model_dump(mode="json"))
        signed = run.map_rows(task, journal)["signatures"].to_table()
        duplicates = find(signed, documents, params)
        run.write("duplicates", schema.DUPLICATES, duplicates.to_batches())
        gone = duplicates.filter(pc.invert(duplicates.column("kept"))).column("doc_id").combine_chunks()
        kept = run.write("deduplicated", schema.IDS, _kept(signed.column("doc_id").chunks, gone))
        run.account(rows_in=selected.rows, kept=kept.rows, dropped=len(gone))
        run.metrics(_counts(duplicates, params))


if __name__ == "__main__":
    stage_main(main)
