"""dedup: selected -> signatures, duplicates, repeats, deduplicated. Equal texts, then near-duplicates, then passages of the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus import exact, minhash, semantic, simhash
from dataplane.corpus.attributes import Attributes
from dataplane.corpus.banding import Work
from dataplane.corpus.clusters import HOW, SEMANTIC, URL, Standing, Stars, duplicate_rows
from dataplane.corpus.dedup_params import DedupParams
from dataplane.corpus.repeat_rows import counts as told_repeats
from dataplane.corpus.repeat_rows import repeat_rows, texts_in_order
from dataplane.corpus.repeats import Collection, Mask, Repeats, RepeatsParams, find_repeats
from dataplane.corpus.similarities import Similarities
from dataplane.corpus.spill import spill_folder
from dataplane.corpus.survival import survival_rank
from dataplane.engine.documents import DocumentsTask, ids_batch
from dataplane.kernels.hashing import hash128
from dataplane.kernels.members import Members
from dataplane.kernels.stars import MAX_LEADERS_IN_BUCKET
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

NO_GROUPS = np.zeros(0, np.uint64)
SIGNATURE_ROWS = 1 << 16  # read together: 28 MB of 112 hash functions
HASH_ROWS = 1 << 16


def signatures_schema(params: DedupParams) -> pa.Schema:
    """Schema of `signatures`: what dedup compares, kept so that later batches can be held against it."""
    return pa.schema(
        [
            schema.DOC_ID,
            pa.field("content_hash", pa.list_(pa.uint64(), 2)),
            pa.field("signature", pa.list_(pa.uint32(), params.width())),
        ]
    )


class Sign(DocumentsTask):
    """Computes each selected document's content hash and MinHash signature."""

    def __init__(self, root: Path, documents: Snapshot, selected: Snapshot, params: DedupParams) -> None:
        super().__init__(root, {"signatures": signatures_schema(params)}, documents, [selected], ["text"])
        self.params = params

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The signatures of one batch."""
        text = batch.column("text")
        columns = [
            batch.column("doc_id"),
            _fixed_list(exact.content_hashes(text, self.params.exact)),
            _fixed_list(self.params.signatures(text)),
        ]
        yield "signatures", pa.record_batch(columns, schema=self.tables["signatures"])


def _fixed_list(values: npt.NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _matrix(column: pa.Array, width: int) -> npt.NDArray[Any]:
    """[n, width] from a column of fixed-size lists."""
    values: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, width)


@dataclass(frozen=True)
class Corpus:
    """What is compared.

    Attributes:
        ids: string [n], doc_id of each document, in the order of `signed`.
        signed: The table `signatures`.
        documents: The table `documents`.
        attributes: What is known of the documents beside their text.
        journal: Folder where similarities are kept and arrays are spilled.
    """

    ids: pa.Array
    signed: Snapshot
    documents: Snapshot
    attributes: Attributes
    journal: Path


def order(corpus: Corpus, params: DedupParams) -> tuple[I64, U64]:
    """Which documents are preferred: int64 [n]; and which are compared with each other: uint64 [n], empty where all are."""
    rank = survival_rank(corpus.ids, params.survivor, corpus.attributes.values)
    return rank, hash128(corpus.attributes.values(params.within))[:, 0].copy() if params.within else NO_GROUPS


def find(corpus: Corpus, rank: I64, groups: U64, params: DedupParams) -> tuple[Standing, int]:
    """Where each document stands, and how often a bucket had no room: equal addresses first, equal texts, then near-duplicates."""
    standing = Standing.alone(len(corpus.ids))
    if params.url:
        urls = corpus.attributes.values(params.url)
        known = np.flatnonzero(urls.is_valid().to_numpy(zero_copy_only=False))
        standing = _equal(standing, known, hash128(urls), rank, groups, URL)
    hashes = _matrix(corpus.signed.to_table(["content_hash"]).column("content_hash").combine_chunks(), 2).astype(np.uint64)
    standing = _equal(standing, standing.kept(), hashes, rank, groups, "exact")
    stars = _near(corpus, standing.kept(), rank, groups, params)
    return standing.then(stars.leader, stars.similarity, params.method), stars.full


def _equal(standing: Standing, among: I64, hashes: U64, rank: I64, groups: U64, how: str) -> Standing:
    """After documents of equal hashes are put behind the best of them."""
    if len(groups):
        hashes = exact.mixed(hashes, groups)
    leader = np.arange(len(rank))
    leader[among] = among[exact.leaders(hashes[among], rank[among])]
    return standing.then(leader, np.full(len(rank), np.nan if how == URL else 1.0), how)


def _near(corpus: Corpus, among: I64, rank: I64, groups: U64, params: DedupParams) -> Stars:
    """The stars of near-duplicates among some documents."""
    chosen = np.zeros(len(rank), np.bool_)
    chosen[among] = True

    def signed() -> Iterator[tuple[I64, U32]]:
        at = 0
        for batch in corpus.signed.batches(["signature"], batch_size=SIGNATURE_ROWS):
            own = np.flatnonzero(chosen[at : at + len(batch)])
            yield at + own, _matrix(batch.column("signature"), params.width()).astype(np.uint32, copy=False)[own]
            at += len(batch)

    work, spill = Work(signed, rank, groups), corpus.journal / "spill"
    if params.method == "simhash":
        return simhash.find_duplicates(work, params.simhash, spill)
    known = Similarities(corpus.journal / "similarities.bin", _halves(corpus.attributes.values("text_hash")))
    stars = minhash.find_duplicates(work, _reader(corpus.documents, corpus.ids), known, params.minhash, spill)
    known.close()
    return stars


def by_meaning(corpus: Corpus, standing: Standing, rank: I64, groups: U64, params: DedupParams) -> tuple[Standing, dict[str, Any]]:
    """After near-duplicates by meaning among those that are left, and what is told of the search."""
    of = params.semantic
    if not of.vectors:
        return standing, {}
    column = corpus.attributes.column(of.vectors)
    left, known = standing.how == 0, Members.of(corpus.ids)

    def spilled() -> Iterator[tuple[I64, pa.Array]]:
        for batch in corpus.documents.batches(["doc_id", column], batch_size=SIGNATURE_ROWS):
            yield known.places(batch.column("doc_id")), batch.column(column)

    with spill_folder(corpus.journal / "spill") as folder:
        vectors = semantic.read_vectors(spilled(), len(rank), folder)
        among = semantic.Vectors(vectors.values, vectors.rows[left[vectors.rows]])
        stars, parts = semantic.find_duplicates(among, rank, groups, hash128(corpus.ids)[:, 0].copy(), of)
        found = standing.then(stars.leader, stars.similarity, SEMANTIC)
        # Those that went before for one that goes now were never compared with their new keeper: the cosine says how alike they are.
        moved = np.flatnonzero(~left & (found.leader != standing.leader) & (found.how == HOW.index(SEMANTIC)))
        found.similarity[moved] = semantic.pair_cosines(vectors.values, moved, found.leader[moved])
    told = {"compared": len(among.rows), "without_vector": int(left.sum()) - len(among.rows), "parts": parts}
    return found, told | {"threshold": of.threshold, "version": semantic.VERSION}


def passages(corpus: Corpus, standing: Standing, rank: I64, groups: U64, params: RepeatsParams) -> Repeats:
    """The passages that stand in several of the documents that are left, or several times in one."""
    texts = texts_in_order(corpus.documents, corpus.ids, standing.how == 0)
    collection = Collection(texts, _reader(corpus.documents, corpus.ids), rank, groups)
    return find_repeats(collection, params, corpus.journal / "spill")


def _halves(hashes: pa.Array) -> U64:
    """uint64 [n, 2] of 128-bit hashes in hex."""
    parts = [bytes.fromhex("".join(hashes.slice(at, HASH_ROWS).to_pylist())) for at in range(0, len(hashes), HASH_ROWS)]
    return np.frombuffer(b"".join(parts), ">u8").astype(np.uint64).reshape(-1, 2)


def _reader(documents: Snapshot, ids: pa.Array) -> minhash.TextsOf:
    """Fetches texts by place in `ids`."""
    data = documents.open()
    places = pc.index_in(ids, documents.to_table(columns=["doc_id"]).column("doc_id").combine_chunks()).to_numpy().astype(np.int64)

    def texts_of(wanted: I64) -> pa.Array:
        return data.take(places[wanted].tolist(), ["text"]).column("text").combine_chunks()

    return texts_of


def _counts(duplicates: pa.Table, full: int, params: DedupParams) -> dict[str, Any]:
    dropped = duplicates.filter(pc.invert(duplicates.column("kept")))
    how = dropped.column("how").value_counts().to_pylist()
    sizes = sorted((row["counts"] for row in duplicates.column("cluster_id").value_counts().to_pylist()), reverse=True)
    return {
        "dropped": {row["values"]: row["counts"] for row in sorted(how, key=lambda row: str(row["values"]))},
        "clusters": len(sizes),
        "largest_cluster": max(sizes, default=0),
        "large_clusters": sum(size >= params.large_cluster for size in sizes),
        "full_buckets": full,
        params.method: _method(params),
    }


def _method(params: DedupParams) -> dict[str, Any]:
    """How near-duplicates were sought, and how surely they were found."""
    if params.method == "simhash":
        return {"distance": params.simhash.distance, "version": simhash.VERSION}
    bands = params.minhash.cut()
    curve = {str(s): round(bands.probability(s), 4) for s in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)}
    about = {"bands": bands.bands, "rows": bands.rows, "threshold": params.minhash.threshold, "version": minhash.VERSION}
    return about | {"candidate_probability": curve}


def _tell(counts: Mapping[str, Any], params: DedupParams) -> None:
    """Says which bands were chosen, and warns of what a person should look at."""
    if params.method == "minhash" and params.minhash.bands == "auto":
        sys.stderr.write(f"dedup: {counts['minhash']['bands']} bands of {counts['minhash']['rows']} rows\n")
    if counts["large_clusters"]:
        sys.stderr.write(
            f"dedup: warning: {counts['large_clusters']} clusters of {params.large_cluster} documents or more, the largest of "
            f'{counts["largest_cluster"]}: look for boilerplate in `dataplane sql "SELECT cluster_id, count(*) FROM duplicates GROUP BY 1 '
            'ORDER BY 2 DESC"`\n'
        )
    if counts["full_buckets"]:
        sys.stderr.write(f"dedup: warning: {counts['full_buckets']} times a bucket held {MAX_LEADERS_IN_BUCKET} kept documents already\n")


def _kept(ids: pa.ChunkedArray, kept: Mask) -> Iterator[pa.RecordBatch]:
    at = 0
    for chunk in ids.chunks:
        yield ids_batch(chunk.filter(pa.array(kept[at : at + len(chunk)])))
        at += len(chunk)


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("dedup", inputs=("raw", "documents", "selected"), params=("dedup",)) as run:
        params = DedupParams.parse(run.params["dedup"], where="dedup")
        documents, selected = run.inputs["documents"], run.inputs["selected"]
        journal = run.journal(signatures=params.definition())
        signed = run.map_rows(Sign(run.root, documents, selected, params), journal)["signatures"]
        ids = signed.to_table(["doc_id"]).column("doc_id")
        attributes = Attributes(ids.combine_chunks(), documents, run.inputs["raw"], "dedup")
        corpus = Corpus(attributes.doc_ids, signed, documents, attributes, journal.folder)
        rank, groups = order(corpus, params)
        standing, full = find(corpus, rank, groups, params)
        standing, meaning = by_meaning(corpus, standing, rank, groups, params)
        duplicates = duplicate_rows(attributes.doc_ids, standing)
        found = passages(corpus, standing, rank, groups, params.repeats)
        repeats = repeat_rows(attributes.doc_ids, found, params.repeats)
        run.write("duplicates", schema.DUPLICATES, duplicates.to_batches())
        run.write("repeats", schema.REPEATS, repeats.to_batches())
        gone = (standing.how > 0) | found.dropped
        kept = run.write("deduplicated", schema.IDS, _kept(ids, ~gone))
        run.account(rows_in=selected.rows, kept=kept.rows, dropped=int(gone.sum()))
        counts = _counts(duplicates, full, params) | {"repeats": told_repeats(repeats), **({"semantic": meaning} if meaning else {})}
        _tell(counts, params)
        run.metrics(counts)


if __name__ == "__main__":
    stage_main(main)
