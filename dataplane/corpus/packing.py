"""Packing: documents, each with EOS behind it, put together into training sequences of one length.

No document is cut unless it is longer than a sequence; then it gives full sequences, or pieces that end where a paragraph
or a sentence does, and its remainder is packed like any other document. (`concatenate` cuts whatever lies on a sequence's
end.) A document that the mixture repeats is packed once for each occurrence. Spans lead from every token back to its document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.corpus.token_file import TokenFile, whole
from dataplane.corpus.tokenizer import EOS
from dataplane.errors import DataError
from dataplane.kernels import packing as kernel
from dataplane.kernels.hash_order import rekey
from dataplane.params import Params
from dataplane.schema import SPAN, packed

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

BATCH_TOKENS = 1 << 20
NONE = -1  # id of a special token that is not put in
_SHOWN_IDS = 3
_BORDERS = {"sentence": kernel.SENTENCE, "paragraph": kernel.PARAGRAPH}


class PackParams(Params):
    """How documents become sequences."""

    sequence_length: int = Field(512, ge=2, le=1 << 20, description="Tokens of a training sequence.")
    algorithm: Literal["best_fit_decreasing", "first_fit", "concatenate"] = Field(
        "best_fit_decreasing",
        description="Where a document goes, longest first: the sequence it fills best, or the first with room for it. concatenate: one "
        "behind the other in the mixture's order, cut where a sequence is full, so that only the last has padding.",
    )
    cut_at: Literal["anywhere", "sentence", "paragraph"] = Field(
        "anywhere",
        description="Where a document longer than a sequence is cut: where the sequence is full, or at the last border in its second half "
        "(a paragraph's is a line break; without one a sentence's). concatenate always cuts anywhere.",
    )
    bos: str = Field("", description="Special token put before each document; empty: none.")
    eos: str = Field(EOS, description="Special token put behind each document; empty: none.")
    seed: int = Field(0, ge=0, description="Order of the sequences.")


@dataclass(frozen=True)
class Vocabulary:
    """What packing has to know of the tokenizer.

    Attributes:
        pad: Id that fills the end of a sequence.
        eos: Id put behind each document, or NONE.
        bos: Id put before each, or NONE.
        kinds: uint8 [vocabulary], which tokens end what, as `borders.token_kinds` tells; not asked where documents are cut anywhere.
    """

    pad: int
    eos: int = NONE
    bos: int = NONE
    kinds: U8 | None = None


class Packing:
    """Which piece of which document goes where; the tokens are gathered batch by batch.

    Args:
        mixture: Column doc_id [n], in position order; a doc_id once for each occurrence.
        tokens: Each doc_id of the mixture once.
        vocabulary: Ids of the special tokens.
        params: How to pack.

    Raises:
        DataError: A document of the mixture has no tokens row, or a token is not in the vocabulary.
    """

    def __init__(self, mixture: pa.Table, tokens: TokenFile, vocabulary: Vocabulary, params: PackParams) -> None:
        self.params, self.vocabulary, self._tokens = params, vocabulary, tokens
        self._doc_ids = whole(mixture.column("doc_id"))
        self._rows = _rows(self._doc_ids, tokens.doc_ids)
        self._lengths = np.diff(tokens.offsets)[self._rows] + (vocabulary.eos >= 0) + (vocabulary.bos >= 0)
        if params.algorithm == "concatenate":
            self._occurrences, self._starts, self._sizes, bins = kernel.concatenate(self._lengths, params.sequence_length)
            n_bins = int(bins[-1]) + 1 if len(bins) else 0
        else:
            self._occurrences, self._starts, self._sizes = self._cut()
            choose = kernel.best_fit_decreasing if params.algorithm == "best_fit_decreasing" else kernel.first_fit_decreasing
            bins, n_bins = choose(self._sizes, params.sequence_length)
        self.n_sequences = int(n_bins)
        self._pieces, self._bounds = self._shuffled(bins)

    def _cut(self) -> tuple[I64, I64, I64]:
        """Occurrence, first token and length of each piece."""
        size = self.params.sequence_length
        if self.params.cut_at == "anywhere":
            pieces: tuple[I64, I64, I64] = kernel.cut(self._lengths, size)
            return pieces
        kinds, tokens = self.vocabulary.kinds, self._tokens
        highest = int(tokens.values.max()) if len(tokens.values) else NONE
        if kinds is None or highest >= len(kinds):
            raise DataError(f"token {highest} is not in the vocabulary", where="pack", fix="dvc repro --force tokenize")
        lead = int(self.vocabulary.bos >= 0)
        wanted = _BORDERS[self.params.cut_at]
        at_borders: tuple[I64, I64, I64] = kernel.cut_at_borders(
            tokens.values, tokens.offsets, self._rows, self._lengths, lead, size, kinds, wanted
        )
        return at_borders

    def _shuffled(self, bins: I64) -> tuple[I64, I64]:
        """Pieces in their order, and where each sequence's pieces start (int64 [s + 1])."""
        keys = rekey(np.arange(self.n_sequences, dtype=np.uint64), f"packing {self.params.seed}")
        seq_id = np.empty(self.n_sequences, np.int64)
        seq_id[np.argsort(keys, kind="stable")] = np.arange(self.n_sequences)
        grouped: tuple[I64, I64] = kernel.group(seq_id[bins], self.n_sequences)
        return grouped

    @property
    def schema(self) -> pa.Schema:
        """Of the batches: tokens are held as the given ones are."""
        return packed(self.params.sequence_length, pa.from_numpy_dtype(self._tokens.values.dtype))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the arrays that packing holds for as long as it lasts, tokens left out."""
        held = (self._rows, self._lengths, self._occurrences, self._starts, self._sizes, self._pieces, self._bounds, self._tokens.offsets)
        return sum(array.nbytes for array in held) + int(self._doc_ids.nbytes) + int(self._tokens.doc_ids.nbytes)

    @cached_property
    def metrics(self) -> dict[str, int | float]:
        """What packing made of the mixture."""
        room = self.n_sequences * self.params.sequence_length
        n_tokens = int(self._sizes.sum())
        cut = np.bincount(self._occurrences, minlength=len(self._rows)) > 1
        fit = self._lengths <= self.params.sequence_length
        return {
            "documents": len(self._rows),
            "empty": int((self._lengths == 0).sum()),
            "tokens": n_tokens,
            "sequences": self.n_sequences,
            "padding": room - n_tokens,
            "padding_share": (room - n_tokens) / room if room else 0.0,
            "cut_documents": int(cut.sum()),
            "cut_share": float(cut.mean()) if len(cut) else 0.0,
            "cut_though_they_fit": int((cut & fit).sum()),
            "documents_per_sequence": len(self._sizes) / self.n_sequences if self.n_sequences else 0.0,
            "memory_bytes": self.memory_bytes,
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
        out = np.full((stop - first, self.params.sequence_length), self.vocabulary.pad, self._tokens.values.dtype)
        seq_starts = np.empty(len(pieces), np.int32)
        around = np.int32(self.vocabulary.bos), np.int32(self.vocabulary.eos)
        tokens, rows = self._tokens, self._rows[occurrences]
        kernel.fill(tokens.values, tokens.offsets, rows, starts, sizes, bounds, bounds[0], *around, out, seq_starts)
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
        return pa.record_batch(columns, schema=self.schema)


def pack(mixture: pa.Table, tokens: TokenFile, vocabulary: Vocabulary, params: PackParams) -> Iterator[pa.RecordBatch]:
    """Batches of the table `packed`; arguments and errors as `Packing`."""
    return Packing(mixture, tokens, vocabulary, params).batches()


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
