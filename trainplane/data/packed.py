"""Sequences of `packed` as a model takes them: ids, positions that restart with each document, labels that know their document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.snapshot import Snapshot

I64 = npt.NDArray[np.int64]

IGNORED = -100  # torch's cross entropy leaves these labels out
PADDING = -1
MEAN_DIGITS = 5  # of a document's loss in the ledger


@dataclass(frozen=True)
class Batch:
    """Sequences of one step or micro-batch.

    Attributes:
        seq_ids: int64 [b]
        input_ids: int64 [b, t]
        documents: int64 [b, t], number of the span a token belongs to, PADDING behind the last
        position_ids: int64 [b, t], from 0 in each span
        labels: int64 [b, t], the token to predict at each place; IGNORED at a span's last token and in padding
        n_pieces: Rows that make up one sequence; 1 unless `pieces` cut them.
        segments: int64 [b, t], 1 in the second segment of a document; only where data/pairs.py made pairs.
        pairs: int64 [b, t], at the first token of a pair whether its second segment is its own; IGNORED elsewhere. As `segments`.
    """

    seq_ids: I64
    input_ids: I64
    documents: I64
    position_ids: I64
    labels: I64
    n_pieces: int = 1
    segments: I64 | None = None
    pairs: I64 | None = None

    def part(self, rows: slice) -> Batch:
        """Some of the rows."""
        return self._map(lambda array: array[rows])

    def pieces(self, length: int) -> Batch:
        """The same tokens and labels in shorter rows, which do not attend to each other; positions begin again in each.

        Raises:
            ValueError: `length` does not divide the length of the rows.
        """
        longest = self.input_ids.shape[1]
        if length == longest:
            return self
        if longest % length:
            raise ValueError(f"sequences of {longest} tokens do not divide into pieces of {length}")
        n = longest // length
        documents, places = self.documents.reshape(-1, length), self.position_ids.reshape(-1, length)
        # A document that reaches over from the piece before begins at 0 here.
        shift = np.where((documents == documents[:, :1]) & (documents != PADDING), places[:, :1], 0)
        return Batch(
            np.repeat(self.seq_ids, n), self.input_ids.reshape(-1, length), documents, places - shift, self.labels.reshape(-1, length), n
        )

    def whole(self) -> Batch:
        """Pieces put together again to sequences; their positions stay those of the pieces."""
        if self.n_pieces == 1:
            return self
        wide = self.input_ids.shape[1] * self.n_pieces
        merged = self._map(lambda array: array.reshape(-1, wide) if array.ndim == 2 else array[:: self.n_pieces])
        return replace(merged, n_pieces=1)

    def _map(self, change: Callable[[I64], I64]) -> Batch:
        """The batch with each of its arrays changed."""
        arrays = (self.seq_ids, self.input_ids, self.documents, self.position_ids, self.labels)
        seq_ids, input_ids, documents, position_ids, labels = map(change, arrays)
        segments, pairs = (None if array is None else change(array) for array in (self.segments, self.pairs))
        return Batch(seq_ids, input_ids, documents, position_ids, labels, self.n_pieces, segments, pairs)

    def n_labels(self) -> int:
        """Tokens that are predicted."""
        return int(self.label_counts().sum())

    def label_counts(self) -> I64:
        """Tokens that are predicted in each row, int64 [b]."""
        return np.asarray((self.labels != IGNORED).sum(axis=1), np.int64)

    def document_means(self, losses: npt.NDArray[np.float32]) -> list[list[float]]:
        """Mean loss of each document of each sequence, in the order of the spans.

        Args:
            losses: float32 [b, t], of each predicted token, nats.
        """
        out = []
        for row_losses, row_documents, row_labels in zip(losses, self.documents, self.labels, strict=True):
            predicted = row_labels != IGNORED
            n_documents = int(row_documents.max(initial=PADDING)) + 1
            counts = np.bincount(row_documents[predicted], minlength=n_documents)
            sums = np.bincount(row_documents[predicted], weights=row_losses[predicted], minlength=n_documents)
            out.append([round(float(mean), MEAN_DIGITS) for mean in sums / np.maximum(1, counts)])
        return out

    def n_pairs(self) -> int:
        """Documents that are asked whether their second segment is their own."""
        return 0 if self.pairs is None else int((self.pairs != IGNORED).sum())

    def row_hashes(self) -> list[str]:
        """Digest of each row's tokens."""
        rows = np.ascontiguousarray(self.input_ids.astype("<i4"))
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in rows]

    def token_hash(self) -> str:
        """Digest of the tokens in order."""
        return token_hash(self.row_hashes())


def token_hash(row_hashes: Sequence[str]) -> str:
    """Digest of a batch's tokens from those of its rows, in order: each rank hashes its own rows, and nobody reads all of them."""
    return hashlib.sha256("".join(row_hashes).encode()).hexdigest()[:32]


class Sequences(Protocol):
    """Random access to packed sequences: a sequence's id is its row.

    Attributes:
        n_sequences: How many there are.
        sequence_length: Tokens of each.
    """

    n_sequences: int
    sequence_length: int

    def batch(self, seq_ids: I64) -> Batch:
        """The sequences with these ids, in this order."""

    def spans(self, seq_ids: I64) -> list[list[dict[str, Any]]]:
        """The spans of these sequences: doc_id, seq_start, doc_start, length."""


class Packed:
    """Random access to the sequences of a snapshot.

    Args:
        snapshot: Of the table `packed`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._data = snapshot.open()
        self.n_sequences = snapshot.rows
        self.sequence_length = int(self._data.schema.field("input_ids").type.list_size)

    def batch(self, seq_ids: I64) -> Batch:
        """The sequences with these ids; a sequence's id is its row."""
        table = self._data.take(seq_ids.tolist(), ["seq_id", "input_ids", "spans"])
        ids = table.column("input_ids").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        found = table.column("seq_id").to_numpy()
        if not np.array_equal(found, seq_ids):
            raise ValueError("the rows of `packed` are not in the order of their seq_ids")
        return make_batch(seq_ids, ids.reshape(len(seq_ids), -1).astype(np.int64), table.column("spans"))

    def spans(self, seq_ids: I64) -> list[list[dict[str, Any]]]:
        """The spans of these sequences: doc_id, seq_start, doc_start, length."""
        return list(self._data.take(seq_ids.tolist(), ["spans"]).column("spans").to_pylist())


def batch_of_documents(rows: Sequence[Sequence[int]], pad_id: int) -> Batch:
    """One document a row, padded to the longest."""
    ids = np.full((len(rows), max(map(len, rows), default=1)), pad_id, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return make_batch(np.arange(len(rows)), ids, [[{"seq_start": 0, "length": len(row)}] for row in rows])


def make_batch(seq_ids: I64, input_ids: I64, spans: pa.ChunkedArray | Sequence[Sequence[dict[str, Any]]]) -> Batch:
    """Positions, documents and labels from the spans.

    Args:
        seq_ids: int64 [b]
        input_ids: int64 [b, t]
        spans: For each sequence its spans, with seq_start and length.
    """
    if isinstance(spans, pa.ChunkedArray):
        flat = spans.combine_chunks().flatten()
        counts = spans.combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
        starts, lengths = (flat.field(name).to_numpy(zero_copy_only=False) for name in ("seq_start", "length"))
    else:
        counts = np.fromiter(map(len, spans), np.int64, len(spans))
        pairs = [(span["seq_start"], span["length"]) for row in spans for span in row]
        starts, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
    return batch_of_spans(seq_ids, input_ids, counts.astype(np.int64), starts.astype(np.int64), lengths.astype(np.int64))


def places_in(lengths: I64) -> I64:
    """0, 1, ... for each of these lengths (int64 [k]), one after another: int64 [sum of them]."""
    return np.arange(lengths.sum(), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def batch_of_spans(seq_ids: I64, input_ids: I64, counts: I64, starts: I64, lengths: I64) -> Batch:
    """As `make_batch`, from the numbers of the spans.

    Args:
        seq_ids: int64 [b]
        input_ids: int64 [b, t]
        counts: int64 [b], spans of each sequence.
        starts: int64 [s], first token of each span in its sequence, by sequence.
        lengths: int64 [s], its tokens.
    """
    n, width = input_ids.shape
    first = np.repeat(np.arange(n) * width, counts) + starts  # of each span, in the flattened batch
    numbers, position = places_in(counts), places_in(lengths)
    places = np.repeat(first, lengths) + position
    documents, positions = np.full(n * width, PADDING, np.int64), np.zeros(n * width, np.int64)
    documents[places] = np.repeat(numbers, lengths)
    positions[places] = position
    # By place, never by token id: the EOS that ends a document is a label like any other.
    labels = np.full(n * width, IGNORED, np.int64)
    predicted = np.delete(places, np.cumsum(lengths) - 1) if len(lengths) else places
    labels[predicted] = input_ids.reshape(-1)[predicted + 1]
    shape = (n, width)
    return Batch(seq_ids, input_ids, documents.reshape(shape), positions.reshape(shape), labels.reshape(shape))
