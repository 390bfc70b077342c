"""Was this evaluation item in the training data? The items are looked for, as in decontamination, in what was trained on.

Decontamination drops documents that hold items it was told of before training; this asks afterwards, of any item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus.contamination import DecontaminateParams, Index, index_items, scan
from dataplane.engine.cuts import Cuts
from dataplane.engine.documents import chosen_ids
from dataplane.errors import DataError, UsageError, did_you_mean
from dataplane.kernels.members import Members
from dataplane.snapshot import Snapshot, open_store, tables

CONSUMED = "consumed"
WITHIN = ("documents", "selected", "deduplicated", "decontaminated", "mixture", "held_out", CONSUMED)
CUT = ("decontaminated", "mixture", "held_out", CONSUMED)  # what is left of the texts there is what cuts leave
NAME = "asked"  # stands for the benchmark


@dataclass(frozen=True)
class Found:
    """What is known of one item.

    Attributes:
        item_id: The item.
        checked: Whether it is long enough to be looked for.
        covered: Largest share of its n-grams that one document holds, over all lengths; 0 where none holds one.
        documents: (doc_id, n, share) of the documents that hold some, the most first.
    """

    item_id: str
    checked: bool
    covered: float
    documents: Sequence[tuple[str, int, float]]

    def verdict(self, params: DecontaminateParams) -> str:
        """contained | partly | clean | too short."""
        if not self.checked:
            return "too short"
        if not self.documents:
            return "clean"
        return "contained" if self.covered >= params.min_covered else "partly"


def look_for(items: Mapping[str, Sequence[str]], within: str, params: DecontaminateParams, root: Path = Path()) -> list[Found]:
    """Looks for items in the text of documents; one pass over them.

    Args:
        items: Item id -> its passages.
        within: Whose documents: a table of WITHIN; `consumed` are those of the sequences that a model was trained on.
        params: The n-grams and the share that counts; its benchmarks are not asked.
        root: Folder of the project.

    Returns:
        What was found of each item, in their order

    Raises:
        UsageError: There is no such table.
        DataError: What the model consumed is no longer there.
    """
    own = params.model_copy(update={"benchmarks": []})
    index = index_items(((NAME, item_id, passages) for item_id, passages in items.items()), own)
    checked = {index.items[i][1] for i in set(index.passage_items.tolist())}
    hits = pa.Table.from_batches(_scanned(index, within, root), schema=schema.CONTAMINATION)
    ranked = hits.sort_by([("covered", "descending"), ("n", "descending"), ("doc_id", "ascending")]).to_pylist()
    found: dict[str, list[tuple[str, int, float]]] = {item_id: [] for item_id in items}
    for row in ranked:
        found[row["item_id"]].append((row["doc_id"], row["n"], row["covered"]))
    return [Found(item_id, item_id in checked, rows[0][2] if rows else 0.0, rows) for item_id, rows in found.items()]


def _scanned(index: Index, within: str, root: Path) -> Iterator[pa.RecordBatch]:
    wanted = None if within == "documents" else Members.of(_ids(within, root))
    cuts = Cuts.load(Snapshot.load("cuts", root)) if within in CUT and "cuts" in tables(root) else None
    for batch in Snapshot.load("documents", root).batches(["doc_id", "text"]):
        part = batch if wanted is None else wanted.rows(batch)
        part = cuts.batch(part) if cuts else part
        if len(part):
            yield scan(index, part.column("doc_id"), part.column("text"))


def _ids(within: str, root: Path) -> pa.Array:
    """Whose text is looked at."""
    if within not in WITHIN:
        raise UsageError(f"no table {within!r} of documents, {did_you_mean(within, WITHIN)}", where="contains", fix="correct --in")
    return _consumed(root) if within == CONSUMED else chosen_ids([Snapshot.load(within, root)])


def _consumed(root: Path) -> pa.Array:
    """The documents in the sequences of all steps of pretraining, in the version of `packed` that each run was given."""
    runs = {row["run_id"]: row["data_digest"] for row in Snapshot.load("checkpoints", root).to_table().to_pylist()}
    seen: dict[str, set[int]] = {}
    for batch in Snapshot.load("consumed", root).batches(["run_id", "stage", "seq_ids"]):
        for row in batch.to_pylist():
            if row["stage"] == "pretrain" and runs.get(row["run_id"]):
                seen.setdefault(runs[row["run_id"]], set()).update(row["seq_ids"])
    known = {version.digest for version in open_store(root).versions("packed")} if "packed" in tables(root) else set()
    if gone := sorted(set(seen) - known):
        message = f"version {', '.join(gone)} of `packed`, which a model was trained on, is no longer there"
        raise DataError(message, where="contains", fix="ask of the mixture: --in mixture")
    found = [ids for digest, seq_ids in seen.items() for ids in _documents(Snapshot("packed", digest, 0, root), seq_ids)]
    return pa.concat_arrays([pa.array([], pa.string()), *found]).unique()


def _documents(packed: Snapshot, seq_ids: set[int]) -> Iterator[pa.Array]:
    wanted = Members.of(pa.array(seq_ids, pa.int64()))
    for batch in packed.batches(["seq_id", "spans"]):
        part = wanted.rows(batch, "seq_id")
        yield pc.struct_field(part.column("spans").flatten(), "doc_id").unique()
