"""Forgetting a document: which one is meant, what descends from it, and the tombstone that keeps it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane import tombstones
from dataplane.errors import DataError, UsageError
from dataplane.kernels.members import Members
from dataplane.lake.sql import ask, connect
from dataplane.lineage.query import find_doc_id
from dataplane.snapshot import Snapshot, open_store, tables
from dataplane.tombstones import Tombstone, file_hash

# What a predicate may look at: the record as it came, and the document that was made of it where there is one.
RECORDS = "SELECT raw.*, documents.* EXCLUDE (doc_id, source, kind, url, mime) FROM raw LEFT JOIN documents USING (doc_id)"
IDS_PER_QUESTION = 10_000


@dataclass(frozen=True)
class Chosen:
    """Who is meant: any of these.

    Attributes:
        doc_ids: Ids, or their starts.
        urls: Addresses, as the records give them.
        match: A SQL predicate over the columns of `raw` and `documents`.
        copies: Whether documents of the same text are meant too.
    """

    doc_ids: Sequence[str] = ()
    urls: Sequence[str] = ()
    match: str = ""
    copies: bool = False


def choose(chosen: Chosen, root: Path = Path()) -> pa.Table:
    """The documents that are meant: columns doc_id, source, uri, url, by doc_id.

    Raises:
        UsageError: Nothing was named, an id is unknown, or the predicate is no SQL.
        DataError: Nothing fits, so that nothing would be forgotten.
    """
    if not (chosen.doc_ids or chosen.urls or chosen.match):
        raise UsageError("no document is named", where="forget", fix="give --doc-id, --url or --match")
    Snapshot.load("raw", root)
    connection = connect(root)
    ids = [find_doc_id(connection, doc_id) for doc_id in chosen.doc_ids]
    parts = [f"doc_id IN ({_list(ids)})"] if ids else []
    parts += [f"url IN ({_list(chosen.urls)})"] if chosen.urls else []
    parts += [f"({chosen.match})"] if chosen.match else []
    records = RECORDS if "documents" in tables(root) else "SELECT * FROM raw"
    found = ask(connection, f"SELECT doc_id, source, uri, url FROM ({records}) WHERE {' OR '.join(parts)} ORDER BY doc_id")
    if chosen.copies and found.num_rows:
        more = [row["doc_id"] for row in copies(found.column("doc_id").to_pylist(), root)]
        return choose(Chosen(doc_ids=[*found.column("doc_id").to_pylist(), *more]), root) if more else found
    if not found.num_rows:
        raise DataError("no record fits", where="forget", fix='look with `dataplane sql "SELECT doc_id, url FROM raw WHERE ..."`')
    return found


def copies(doc_ids: Sequence[str], root: Path = Path()) -> list[dict[str, Any]]:
    """Other documents of the same text or in the same cluster of duplicates: (doc_id, like, how)."""
    have, named = tables(root), _list(doc_ids)
    questions = []
    if "documents" in have:
        questions.append(
            f"SELECT other.doc_id, mine.doc_id AS \"like\", 'same text' AS how FROM documents AS other JOIN documents AS mine "
            f"USING (text_hash) WHERE mine.doc_id IN ({named}) AND other.doc_id NOT IN ({named})"
        )
    if "duplicates" in have:
        questions.append(
            f'SELECT other.doc_id, mine.doc_id AS "like", other.how FROM duplicates AS other JOIN duplicates AS mine '
            f"USING (cluster_id) WHERE mine.doc_id IN ({named}) AND other.doc_id NOT IN ({named})"
        )
    if not questions:
        return []
    first = f'SELECT doc_id, min("like") AS "like", max(how) AS how FROM ({" UNION ALL ".join(questions)}) GROUP BY doc_id ORDER BY doc_id'
    return list(ask(connect(root), first).to_pylist())


def _list(values: Iterable[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def bury(documents: pa.Table, why: str, root: Path = Path()) -> list[Tombstone]:
    """Sets a tombstone for each document; the next `dvc repro` makes every table without them.

    Args:
        documents: Columns doc_id and uri.
        why: The reason; it is kept, so it should name no person.
        root: Folder of the project.
    """
    day = datetime.now(UTC).date().isoformat()
    rows = documents.select(["doc_id", "uri"]).to_pylist()
    new = [Tombstone(row["doc_id"], file_hash(row["uri"]), why, day) for row in rows]
    tombstones.add(new, root)
    return new


def descendants(doc_ids: Sequence[str], root: Path = Path()) -> dict[str, Any]:
    """Everything that came of the documents, in whatever version of `packed` a model consumed.

    Returns:
        rows: table -> rows of the current version that are theirs; sequences, steps, checkpoints and scores; and under
        `untold` the versions of `packed` that a checkpoint names and that are no longer there.
    """
    ids = pa.array(sorted(doc_ids), pa.string())
    have = set(tables(root))
    saved = [*(Snapshot.load("checkpoints", root).to_table().to_pylist() if "checkpoints" in have else []), *_tuned(root)]
    packed = {row["data_digest"] for row in saved if row["run_id"]} | (
        {Snapshot.load("packed", root).digest} if "packed" in have else set()
    )
    known = {version.digest for version in open_store(root).versions("packed")} if "packed" in have else set()
    sequences = {digest: _sequences(Snapshot("packed", digest, 0, root), ids) for digest in sorted(packed & known)}
    steps = _steps(saved, sequences, root) if "consumed" in have else []
    touched = _checkpoints(saved, steps)
    return {
        "rows": {table: count for table in sorted(have) if (count := count_rows(Snapshot.load(table, root), ids))},
        "sequences": [{"packed": digest, "seq_id": seq_id} for digest, found in sequences.items() for seq_id in found],
        "steps": steps,
        "checkpoints": touched,
        "scores": _scores({row["digest"] for row in touched}, root) if "evals" in have else [],
        "untold": sorted(digest for digest in packed - known if digest),
    }


def _tuned(root: Path) -> list[dict[str, Any]]:
    """The models that say for themselves which weights they were trained from, as rows of `checkpoints`."""
    found = []
    for path in sorted((root / "models").glob("*/run.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if run.get("parent"):
            found.append(
                {"run_id": None, "step": run["steps"], "data_digest": None, "path": path.parent.relative_to(root).as_posix(), **run}
            )
    return found


def count_rows(snapshot: Snapshot, ids: pa.Array) -> int:
    """Rows of a table that are, or hold, one of the documents."""
    schema = snapshot.schema
    if "doc_id" in schema.names:
        members, batches = Members.of(ids), snapshot.batches(["doc_id"], batch_size=1 << 16)
        return sum(int(members.hold(batch.column("doc_id")).sum()) for batch in batches)
    return len(_sequences(snapshot, ids)) if "spans" in schema.names else 0


def _sequences(packed: Snapshot, ids: pa.Array) -> list[int]:
    """seq_ids of the sequences that hold one of the documents."""
    found: list[int] = []
    members = Members.of(ids)
    for batch in packed.batches(["seq_id", "spans"], batch_size=1 << 12):
        spans = batch.column("spans")
        hits = members.hold(pc.struct_field(spans.flatten(), "doc_id"))
        rows = pc.unique(pc.list_parent_indices(spans).filter(pa.array(hits)))
        found += batch.column("seq_id").take(rows).to_pylist()
    return found


def _steps(saved: Sequence[Mapping[str, Any]], sequences: Mapping[str, Sequence[int]], root: Path) -> list[dict[str, Any]]:
    """The steps that saw one of the sequences, by run, as the run's own version of `packed` numbers them."""
    of_run = {row["run_id"]: row["data_digest"] for row in saved}
    steps: list[dict[str, Any]] = []
    for batch in Snapshot.load("consumed", root).batches(["run_id", "stage", "step", "seq_ids"], batch_size=1 << 12):
        for row in batch.to_pylist():
            seen = sorted(set(row["seq_ids"]) & set(sequences.get(of_run.get(row["run_id"], ""), ())))
            if seen:
                steps.append({"run_id": row["run_id"], "stage": row["stage"], "step": row["step"], "seq_ids": seen})
    return sorted(steps, key=lambda row: (row["stage"], row["run_id"], row["step"]))


def _checkpoints(saved: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Checkpoints at or after the first such step of their run, and all that was trained from one of them."""
    first = {run_id: min(step["step"] for step in steps if step["run_id"] == run_id) for run_id in {step["run_id"] for step in steps}}
    touched = {row["digest"] for row in saved if row["run_id"] in first and row["step"] >= first[row["run_id"]]}
    while more := {row["digest"] for row in saved if row["parent"] in touched} - touched:
        touched |= more
    keys = ("digest", "stage", "run_id", "step", "path")
    return [{key: row[key] for key in keys} for row in saved if row["digest"] in touched]


def _scores(digests: set[str], root: Path) -> list[dict[str, Any]]:
    rows = Snapshot.load("evals", root).to_table().to_pylist()
    keys = ("checkpoint", "stage", "task", "group", "metric", "value")
    return [{key: row[key] for key in keys} for row in rows if row["checkpoint"] in digests]
