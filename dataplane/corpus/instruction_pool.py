"""The pool that the operator instruction_novelty holds instructions against: those of the conversations in `raw`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from dataplane.annotators.instruction_text import exchange, words
from dataplane.conversation import MIME
from dataplane.errors import DataError
from dataplane.kernels.instruction_pool import Pool, vector
from dataplane.snapshot import Snapshot
from dataplane.sources.decode import decode


def fit(raw: Snapshot, sources: Iterable[str] = ()) -> Pool:
    """The instructions as they arrived.

    Operators that rewrite text (scrubbing addresses, say) come later, so that a distance may be a little more than 0 where it would be 0.

    Args:
        raw: The table.
        sources: Those that are taken; all where none is named.

    Raises:
        DataError: There is no conversation.
    """
    found: dict[str, np.ndarray] = {}
    wanted = sorted(set(sources))
    columns = ["doc_id", "mime", "charset", "payload"]
    for batch in raw.batches(columns, {"source": wanted} if wanted else None):
        found.update(_vectors(batch))
    if not found:
        raise DataError(
            "raw holds no conversation that asks something",
            where="instruction pool",
            fix="read a source of format chat with `dvc repro ingest`",
        )
    ids = tuple(sorted(found))
    return Pool(ids, np.stack([found[name] for name in ids]))


def _vectors(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    found = {}
    for row in batch.to_pylist():
        one = exchange(decode(row["payload"], row["mime"], row["charset"]).text) if row["mime"] == MIME else None
        if one and (tokens := words(one.instruction())):
            found[row["doc_id"]] = vector(tokens)
    return found
