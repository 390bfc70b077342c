"""Caps: at most so many documents of one site (or of whatever a signal names) are trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.errors import ParamsError, did_you_mean
from dataplane.kernels.hash_order import order_keys
from dataplane.params import Params
from dataplane.schema import SIGNAL_SEPARATOR

Mask = npt.NDArray[np.bool_]


class CapParams(Params):
    """Which documents share a cap, and how large it is."""

    by: str = Field("", description="Signal or column whose values have a cap each, as canonical_url.domain; empty: none has.")
    max_documents: int = Field(1000, ge=1, description="Documents of one value that are trained on at most; those without a value all are.")


def capped_column(params: CapParams, columns: Sequence[str]) -> str | None:
    """The stored column whose values are capped, None where nothing is.

    Args:
        params: The cap.
        columns: Columns of `documents`.

    Raises:
        ParamsError: There is no such column.
    """
    if not params.by:
        return None
    column = params.by.replace(".", SIGNAL_SEPARATOR)
    known = [name for name in columns if name != "text"]
    if column not in known:
        names = [name.replace(SIGNAL_SEPARATOR, ".") for name in known]
        fix = "correct the name, or put the operator that writes it into clean.pipeline"
        raise ParamsError(f"documents have no signal {params.by!r}, {did_you_mean(params.by, names)}", where="mix.cap.by", fix=fix)
    return column


def over_cap(documents: pa.Table, column: str, params: CapParams, seed: int) -> Mask:
    """Marks the documents beyond their value's cap. Which of them stay is a choice by hash of the doc_id.

    Args:
        documents: Columns doc_id and `column` [n].
        column: Its values share a cap; null has none.
        params: The cap.
        seed: Changes which documents stay.

    Returns:
        bool [n]
    """
    encoded = documents.column(column).combine_chunks().dictionary_encode().indices
    codes = encoded.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.lexsort((order_keys(documents.column("doc_id"), f"cap {seed}"), codes))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(codes[order], codes[order])
    over: Mask = (rank >= params.max_documents) & (codes >= 0)
    return over
