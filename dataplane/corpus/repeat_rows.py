"""Repeated passages of stored documents, as rows of the table `repeats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.corpus.repeats import I64, WAYS, Mask, Repeats, RepeatsParams, Texts
from dataplane.engine.rows import BATCH_ROWS
from dataplane.kernels.members import Members
from dataplane.snapshot import Snapshot

EFFECTS = ("cut", "dropped")


def texts_in_order(documents: Snapshot, doc_ids: pa.Array, among: Mask) -> Texts:
    """Goes over some documents as they are stored.

    Args:
        documents: The table.
        doc_ids: string [n]
        among: bool [n], the documents that are wanted.
    """

    members = Members.of(doc_ids)

    def texts() -> Iterator[tuple[I64, pa.Array]]:
        for batch in documents.batches(["doc_id", "text"], batch_size=BATCH_ROWS):
            places = members.places(batch.column("doc_id"))
            wanted = np.flatnonzero((places >= 0) & among[places])
            yield places[wanted], batch.column("text").take(pa.array(wanted))

    return texts


def repeat_rows(doc_ids: pa.Array, found: Repeats, params: RepeatsParams) -> pa.Table:
    """Rows of `repeats`, by doc_id, then by start: what is cut out, or stands in documents that go.

    Args:
        doc_ids: string [n]
        found: What was found.
        params: What becomes of it.
    """
    gone = found.dropped[found.runs[:, 0]]
    told = np.ones(len(gone), np.bool_) if params.action == "edit" else gone
    doc, start, stop, first, first_start, way = found.runs[told].T
    columns = {
        "doc_id": doc_ids.take(pa.array(doc)),
        "start": pa.array(start),
        "stop": pa.array(stop),
        "tokens": pa.array(found.tokens[told]),
        "how": pa.array(WAYS, pa.string()).take(pa.array(way)),
        "first": doc_ids.take(pa.array(first)),
        "first_start": pa.array(first_start),
        "effect": pa.array(EFFECTS, pa.string()).take(pa.array(gone[told].astype(np.int8))),
    }
    return pa.table(columns, schema=schema.REPEATS).sort_by([("doc_id", "ascending"), ("start", "ascending")])


def counts(rows: pa.Table) -> list[dict[str, Any]]:
    """Passages, documents and tokens by how and effect."""
    grouped = rows.group_by(["how", "effect"], use_threads=False).aggregate(
        [("doc_id", "count"), ("doc_id", "count_distinct"), ("tokens", "sum")]
    )
    names = {"doc_id_count": "passages", "doc_id_count_distinct": "documents", "tokens_sum": "tokens"}
    told = [{names.get(name, name): value for name, value in row.items()} for row in grouped.to_pylist()]
    return sorted(told, key=lambda row: (row["how"], row["effect"]))
