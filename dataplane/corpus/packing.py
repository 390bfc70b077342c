"""Packing: documents, each with EOS behind it, put together into training sequences of one length.

No document is cut unless it is longer than a sequence; then it gives full sequences, and its remainder is packed like
any other document. A document that the mixture repeats is packed once for each occurrence. Spans lead from every token
back to its document.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.errors import DataError
from dataplane.kernels.hash_order import rekey
from dataplane.kernels.packing import best_fit_decreasing, cut, fill, first_fit_decreasing, group
from dataplane.params import Params
from dataplane.schema import SPAN, packed

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

BATCH_TOKENS = 1 << 20
_SHOWN_IDS = 3


class PackParams(Params):
    """How documents become sequences."""

    sequence_length: int = Field(512, ge=2, le=1 << 20, description="Tokens of a training sequence.")
    algorithm: Literal["best_fit_decreasing", "first_fit"] = Field(
        "best_fit_decreasing",
        description="Where a document goes, longest first: the sequence it fills best, or the first with room for it.",
    )
    seed: int = Field(0, ge=0, description="Order of the sequences.")


class Packing:
    """Which piece of which document goes where; the tokens are gathered batch by batch.

    Args:
        mixture: Column doc_id [n], in position order; a doc_id once for each occurrence.
        tokens: The table `tokens`; each doc_id of the mixture once.
        eos_id: Put behind each document.
        pad_id: Fills the end of a sequence.
        params: How to pack.

    Raises:
        DataError: A document of the mixture has no tokens row.
    """

    def __init__(self, mixture: pa.Table, tokens: pa.Table, eos_id: int, pad_id: int, params: PackParams) -> None:
        self.params, self.eos_id, self.pad_id = params, eos_id, pad_id
        self._doc_ids = _whole(mixture.column("doc_id"))
        self._rows = _rows(self._doc_ids, _whole(tokens.column("doc_id")))
        lists = _whole(tokens.column("input_ids")).cast(pa.large_list(pa.int32()))
        self._offsets: I64 = lists.offsets.to_numpy()
        self._tokens: I32 = lists.values.to_numpy(zero_copy_only=False)
        lengths = np.diff(self._offsets)[self._rows] + 1
        self._occurrences, self._starts, self._sizes = cut(lengths, params.sequence_length)
        self.n_sequences, self._pieces, self._bounds = self._place()

    def _place(self) -> tuple[int, I64, I64]:
        """Number of sequences, pieces in their order, and where each sequence's pieces start (int64 [s + 1])."""
        choose = best_fit_decreasing if self.params.algorithm == "best_fit_decreasing" else first_fit_decreasing
        bins, n_bins = choose(self._sizes, self.params.sequence_length)
        keys = rekey(np.arange(n_bins, dtype=np.uint64), f"packing {self.params.seed}")
        seq_id = np.empty(n_bins, np.int64)
        seq_id[np.argsort(keys, kind="stable")] = np.arange(n_bins)
        pieces, bounds = group(seq_id[bins], n_bins)
        return int(n_bins), pieces, bounds

    @cached_property
    def metrics(self) -> dict[str, int | float]:
        """What packing made of the mixture."""
        room = self.n_sequences * self.params.sequence_length
        n_tokens = int(self._sizes.sum())
        pieces_of = np.bincount(self._occurrences, minlength=len(self._rows))
        return {
            "documents": len(self._rows),
            "tokens": n_tokens,
            "sequences": self.n_sequences,
            "padding": room - n_tokens,
            "padding_share": (room - n_tokens) / room if room else 0.0,
            "cut_documents": int((pieces_of > 1).sum()),
            "cut_share": float((pieces_of > 1).mean()) if len(pieces_of) else 0.0,
            "documents_per_sequence": len(self._sizes) / self.n_sequences if self.n_sequences else 0.0,
        }

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of the table `packed`, in order of seq_id."""
        step = max(1, BATCH_TOKENS // self.params.sequence_length)
        for first in range(0, self.n_sequences, step):
            yield self._batch(first, min(first + step, self.n_sequences))

    def _batch(self, first: int, stop: int) -> pa.RecordBatch:
        bounds = self._bounds[first : stop + 1]
        pieces = self._pieces[bounds[0] : bounds[-1]]
        occurrences, starts, sizes = self._occurrences[pieces], self._starts[pieces], self._sizes[pieces]
        out = np.full((stop - first, self.params.sequence_length), self.pad_id, np.int32)
        seq_starts = np.empty(len(pieces), np.int32)
        fill(self._tokens, self._offsets, self._rows[occurrences], starts, sizes, bounds, bounds[0], np.int32(self.eos_id), out, seq_starts)
        spans = pa.StructArray.from_arrays(
            [self._doc_ids.take(pa.array(occurrences)), pa.array(seq_starts), pa.array(starts), pa.array(sizes.astype(np.int32))],
            fields=list(SPAN),
        )
        n_tokens = np.add.reduceat(sizes, bounds[:-1] - bounds[0]).astype(np.int32)
        columns = [
            pa.array(np.arange(first, stop)),
            pa.array(n_tokens),
            pa.FixedSizeListArray.from_arrays(pa.array(out.reshape(-1)), self.params.sequence_length),
            pa.ListArray.from_arrays(pa.array((bounds - bounds[0]).astype(np.int32)), spans),
        ]
        return pa.record_batch(columns, schema=packed(self.params.sequence_length))


def pack(mixture: pa.Table, tokens: pa.Table, eos_id: int, pad_id: int, params: PackParams) -> Iterator[pa.RecordBatch]:
    """Batches of the table `packed`; arguments and errors as `Packing`."""
    return Packing(mixture, tokens, eos_id, pad_id, params).batches()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; an offset that slicing left is taken out, since the kernels read whole buffers."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _rows(doc_ids: pa.Array, known: pa.Array) -> I64:
    """Row of each document in the tokens table: int64 [n]."""
    places = pc.index_in(doc_ids, value_set=known)
    if places.null_count:
        missing = doc_ids.filter(places.is_null())
        shown = ", ".join(missing.slice(0, _SHOWN_IDS).to_pylist())
        raise DataError(
            f"{len(missing)} of {len(doc_ids)} documents of the mixture have no tokens: {shown}", where="pack", fix="dvc repro tokenize"
        )
    rows: I64 = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows
