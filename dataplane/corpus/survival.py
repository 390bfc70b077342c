"""Which document of a cluster stays: criteria in order, the smallest doc_id as the last word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.params import Params

I64 = npt.NDArray[np.int64]


class Criterion(Params):
    """One reason to prefer a document to another."""

    by: str = Field(
        description="What is compared: n_bytes, source, fetched_at, the record's field as meta.NAME, or a signal as quality_model.score."
    )
    prefer: Literal["highest", "lowest"] | list[str] = Field(
        "highest", description="Which end survives (of fetched_at, lowest is the oldest), or values, best first. Missing values come last."
    )


LONGEST = Criterion(by="n_bytes", prefer="highest")


def survival_rank(doc_ids: pa.Array, criteria: Sequence[Criterion], values_of: Callable[[str], pa.Array]) -> I64:
    """The order in which documents are preferred.

    Args:
        doc_ids: string [n], distinct
        criteria: What is preferred, the first of them first; where all are equal, the smaller doc_id is.
        values_of: Values of what a criterion compares [n].

    Returns:
        int64 [n], 0 for the document that is preferred to all others; a permutation that depends on no order of rows
    """
    keys = {f"key {i}": _key(values_of(criterion.by), criterion) for i, criterion in enumerate(criteria)}
    table = pa.table({**keys, "doc_id": doc_ids})  # nulls come last
    order = pc.sort_indices(table, sort_keys=[*((name, "ascending") for name in keys), ("doc_id", "ascending")])
    rank = np.empty(len(doc_ids), np.int64)
    rank[order.to_numpy()] = np.arange(len(doc_ids))
    return rank


def _key(values: pa.Array, criterion: Criterion) -> Any:
    """What sorts the preferred value first, null where there is none."""
    if isinstance(criterion.prefer, list):
        return pc.index_in(values.cast(pa.string()), pa.array(criterion.prefer, pa.string()))
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    if criterion.prefer == "lowest":
        return values
    order = pc.rank(values, sort_keys="descending", tiebreaker="min")
    return pc.if_else(values.is_valid(), order, None)
