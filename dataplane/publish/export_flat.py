"""Packed sequences as arrays that a loader maps into memory and reads without decoding anything.

Files, each a NumPy array of the .npy format (version 1):

- ``input_ids.npy``: uint16 or uint32 [sequences, sequence_length], the smaller where the vocabulary allows;
- ``span_bounds.npy``: int64 [sequences + 1], where each sequence's spans begin;
- ``spans.npy``: int64 [spans, 3], first token in the sequence, first token in the document, length;
- ``doc_ids.npy``: uint8 [spans, 16], the document of each span.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import DataError, UsageError
from dataplane.publish.rows import Rows

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
    return write_batches(rows.batches(), folder, rows.total, length, vocabulary)


def write_batches(batches: Iterable[pa.RecordBatch], folder: Path, n_sequences: int, length: int, vocabulary: int) -> dict[str, Any]:
    """As `write`, from batches of `n_sequences` rows together."""
    dtype = "uint16" if vocabulary <= 1 << 16 else "uint32"
    bounds, spans, doc_ids = [np.zeros(1, np.int64)], [np.zeros((0, 3), np.int64)], [np.zeros((0, ID_BYTES), np.uint8)]
    with (folder / "input_ids.npy").open("wb") as stream:
        _header(stream, dtype, (n_sequences, length))
        for batch in batches:
            stream.write(_tokens(batch, dtype, vocabulary).data)
            counts = batch.column("spans").value_lengths().to_numpy(zero_copy_only=False)
            bounds.append(bounds[-1][-1] + np.cumsum(counts, dtype=np.int64))
            parts, ids = _spans(batch.column("spans").flatten())
            spans.append(parts)
            doc_ids.append(ids)
    np.save(folder / "span_bounds.npy", np.concatenate(bounds))
    np.save(folder / "spans.npy", np.concatenate(spans))
    np.save(folder / "doc_ids.npy", np.concatenate(doc_ids))
    return {"rows": n_sequences, "sequence_length": length, "dtype": dtype, "vocabulary": vocabulary, "spans": sum(map(len, spans))}


def _header(stream: Any, dtype: str, shape: tuple[int, int]) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype).newbyteorder("<"))
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})


def _tokens(batch: pa.RecordBatch, dtype: str, vocabulary: int) -> npt.NDArray[Any]:
    tokens = batch.column("input_ids").flatten().to_numpy(zero_copy_only=False)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocabulary:
        raise DataError(
            f"tokens go from {tokens.min()} to {tokens.max()}, and the vocabulary from 0 to {vocabulary - 1}",
            where="input_ids",
            fix="the tokenizer is not the one that made this version: `dvc checkout` the commit that did",
        )
    written: npt.NDArray[Any] = tokens.astype(np.dtype(dtype).newbyteorder("<"))
    return written


def _spans(flat: pa.StructArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Numbers and documents of spans: int64 [k, 3] and uint8 [k, 16]."""
    numbers = [flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("seq_start", "doc_start", "length")]
    ids = bytes.fromhex("".join(flat.field("doc_id").to_pylist()))
    return np.stack(numbers, axis=1), np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES)
