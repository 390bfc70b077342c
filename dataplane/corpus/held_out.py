"""Which documents are kept out of training, to be measured on: by a hash of the doc_id alone.

A document's lot does not depend on the mixture, on seeds, or on which other documents there are, so the held-out set of a
grown corpus contains that of the smaller one. Only the two bounds (`min_per_source`, `max_bytes`) look at other documents.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.kernels.hash_order import U64, order_keys, unit
from dataplane.params import Params
from dataplane.schema import HELD_OUT

Mask = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]

# However much is asked, at most this share of a source's documents is held out: a source of three is trained on.
MAX_SHARE_OF_SOURCE = 0.5


class HeldOutParams(Params):
    """How much is held out."""

    share: float = Field(0.01, ge=0, le=0.5, description="Share of each source's documents that is held out.")
    min_per_source: int = Field(
        2, ge=0, description="Documents held out of each source at least, as far as that leaves half of them for training."
    )
    max_bytes: int | None = Field(None, ge=1, description="Bytes held out at most, over all sources; null sets no bound.")


def held_out(documents: pa.Table, params: HeldOutParams) -> Mask:
    """Marks the documents that are held out.

    Args:
        documents: Columns doc_id, source, n_bytes [n].

    Returns:
        bool [n]
    """
    keys = order_keys(documents.column("doc_id"), "held_out")
    sources = _codes(documents.column("source"))
    chosen = (unit(keys) < params.share) | (_rank_in_source(keys, sources) < _least(sources, params))
    if params.max_bytes is None:
        return chosen
    return _within(chosen, keys, sources, documents.column("n_bytes").to_numpy().astype(np.int64), params.max_bytes)


def held_out_table(documents: pa.Table, mask: Mask) -> pa.Table:
    """The rows of the table `held_out`, in the order of `documents`."""
    return documents.filter(pa.array(mask)).select(HELD_OUT.names).cast(HELD_OUT)


def _codes(column: pa.ChunkedArray) -> I64:
    codes: I64 = column.combine_chunks().dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _least(sources: I64, params: HeldOutParams) -> I64:
    """For each document, how many of its source are held out at least: int64 [n]."""
    size = np.bincount(sources) if len(sources) else np.zeros(0, np.int64)
    least: I64 = np.minimum(params.min_per_source, (size * MAX_SHARE_OF_SOURCE).astype(np.int64))
    return least[sources]


def _rank_in_source(keys: U64, sources: I64) -> I64:
    """Place of each document in its source by key: int64 [n]."""
    order = np.lexsort((keys, sources))
    starts = np.searchsorted(sources[order], sources[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - starts
    return rank


def _within(chosen: Mask, keys: U64, sources: I64, n_bytes: I64, max_bytes: int) -> Mask:
    """Thins the chosen ones until they fit, each source to its part of the bound; those first by key stay."""
    total = int(n_bytes[chosen].sum())
    if total <= max_bytes:
        return chosen
    asked = np.bincount(sources[chosen], weights=n_bytes[chosen], minlength=int(sources.max(initial=0)) + 1)
    left = np.floor(asked * (max_bytes / total)).astype(np.int64)
    kept = np.zeros_like(chosen)
    places = np.flatnonzero(chosen)
    for place in places[np.argsort(keys[places], kind="stable")].tolist():
        size, source = int(n_bytes[place]), int(sources[place])
        if size <= left[source]:
            kept[place] = True
            left[source] -= size
    return kept
