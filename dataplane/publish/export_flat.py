"""Packed sequences as arrays that a loader maps into memory and reads without decoding anything.

Files, each a NumPy array of the .npy format (version 1):

- ``input_ids.npy``: uint16 or uint32 [sequences, sequence_length], the smaller where the vocabulary allows;
- ``span_bounds.npy``: int64 [sequences + 1], where each sequence's spans begin;
- ``spans.npy``: int64 [spans, 3], first token in the sequence, first token in the document, length;
- ``doc_ids.npy``: uint8 [spans, 16], the document of each span.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.corpus.token_file import check_ids
from dataplane.errors import UsageError
from dataplane.publish.rows import OTHER_TOKENIZER, Rows

TABLE = "packed"
ID_BYTES = 16


def write(rows: Rows, folder: Path, vocabulary: int) -> dict[str, Any]:
    """Writes the four files.

    Args:
        rows: Rows of `packed`.
        folder: Where to.
        vocabulary: Size of the vocabulary; decides the type of the tokens.

    Returns:
        rows, tokens, and what a reader has to know about them.

    Raises:
        UsageError: The table is another one, or columns are left out.
        DataError: A token is not in the vocabulary.
    """
    if rows.snapshot.table != TABLE or not {"input_ids", "spans"} <= set(rows.schema.names):
        fix = f"dataplane export {TABLE} --to flat, with all columns"
        raise UsageError(f"the flat layout holds whole sequences of {TABLE!r}, and no others", fix=fix)
    length = rows.snapshot.schema.field("input_ids").type.list_size
    return write_batches(rows.batches(), folder, length, vocabulary)


def write_batches(batches: Iterable[pa.RecordBatch], folder: Path, length: int, vocabulary: int) -> dict[str, Any]:
    """As `write`, from batches of sequences of `length` tokens."""
    dtype = "uint16" if vocabulary <= 1 << 16 else "uint32"
    with ExitStack() as files:
        ids, bounds, spans, doc_ids = (
            files.enter_context(_Array(folder / f"{name}.npy", kind, *width))
            for name, kind, width in (
                ("input_ids", dtype, (length,)), ("span_bounds", "int64", ()), ("spans", "int64", (3,)), ("doc_ids", "uint8", (ID_BYTES,)),
            )
        )  # fmt: skip
        bounds.append(np.zeros(1, np.int64))
        for batch in batches:
            ids.append(_tokens(batch, dtype, vocabulary).reshape(-1, length))
            counts = batch.column("spans").value_lengths().to_numpy(zero_copy_only=False)
            bounds.append(spans.rows + np.cumsum(counts, dtype=np.int64))
            numbers, documents = _spans(batch.column("spans").flatten())
            spans.append(numbers)
            doc_ids.append(documents)
    return {"rows": ids.rows, "sequence_length": length, "dtype": dtype, "vocabulary": vocabulary, "spans": spans.rows}


class _Array:
    """A .npy file that grows by rows, so that no array is held in memory; its head is written again at the end.

    Args:
        path: The file.
        dtype: Of its numbers, which are little-endian.
        width: Sizes of the axes behind the first.

    Attributes:
        rows: Written so far.
    """

    def __init__(self, path: Path, dtype: str, *width: int) -> None:
        self.rows, self._width, self._dtype = 0, width, np.dtype(dtype).newbyteorder("<")
        self._stream = path.open("wb")
        self._head()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stream.seek(0)
        self._head()
        self._stream.close()

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Adds rows."""
        self._stream.write(np.ascontiguousarray(rows, self._dtype).data)
        self.rows += len(rows)

    def _head(self) -> None:
        """NumPy leaves room in the head for more rows, so that it is as long at the end as it was at first."""
        known = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.rows, *self._width)}
        np.lib.format.write_array_header_1_0(self._stream, known)


def _tokens(batch: pa.RecordBatch, dtype: str, vocabulary: int) -> npt.NDArray[Any]:
    tokens = batch.column("input_ids").flatten().to_numpy(zero_copy_only=False)
    check_ids(tokens, vocabulary, where="input_ids", fix=OTHER_TOKENIZER)
    written: npt.NDArray[Any] = tokens.astype(np.dtype(dtype).newbyteorder("<"))
    return written


def _spans(flat: pa.StructArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Numbers and documents of spans: int64 [k, 3] and uint8 [k, 16]."""
    numbers = [flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("seq_start", "doc_start", "length")]
    ids = bytes.fromhex("".join(flat.field("doc_id").to_pylist()))
    return np.stack(numbers, axis=1), np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES)
