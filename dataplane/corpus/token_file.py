"""The tokens of all documents as one flat array, in memory or in a file without a name that is mapped into it.

Packing reaches for documents in no order, so it needs them all at hand; mapped, they are the page cache's and not the process's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import DataError
from dataplane.schema import token_type

I64 = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32] | npt.NDArray[np.uint16]


@dataclass(frozen=True)
class TokenFile:
    """Tokens by document.

    Attributes:
        doc_ids: string [d], each once.
        offsets: int64 [d + 1], where each document's tokens lie.
        values: int32 [t], or uint16 [t] where the vocabulary allows.
    """

    doc_ids: pa.Array
    offsets: I64
    values: Ids


def in_memory(tokens: pa.Table) -> TokenFile:
    """The rows of the table `tokens`, as they lie in memory."""
    lists = whole(tokens.column("input_ids")).cast(pa.large_list(pa.int32()))
    return TokenFile(whole(tokens.column("doc_id")), lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False))


def mapped(batches: Iterable[pa.RecordBatch], folder: Path, vocabulary: int) -> TokenFile:
    """Rows of the table `tokens` with their tokens in a file of `folder`, which goes with the last who looks at it.

    The file has no name: whatever ends the process frees its room.

    Args:
        batches: The rows.
        folder: Where the file lies.
        vocabulary: Size of the vocabulary; decides the type of the tokens.

    Raises:
        DataError: A token is not in the vocabulary.
    """
    dtype: np.dtype[Any] = np.dtype(token_type(vocabulary).to_pandas_dtype())
    doc_ids, counts, total = [pa.array([], pa.string())], [np.zeros(0, np.int64)], 0
    with tempfile.TemporaryFile(dir=folder) as stream:
        for batch in batches:
            lists = batch.column("input_ids").cast(pa.large_list(pa.int32()))
            doc_ids.append(batch.column("doc_id").cast(pa.string()))
            counts.append(np.diff(lists.offsets.to_numpy()))
            part = lists.flatten().to_numpy(zero_copy_only=False)
            check_ids(part, vocabulary, where="tokens", fix="dvc repro --force tokenize")
            stream.write(part.astype(dtype, copy=False).data)
            total += len(part)
        stream.flush()
        values = np.asarray(np.memmap(stream, dtype, "r", shape=(total,))) if total else np.zeros(0, dtype)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])
    return TokenFile(pa.concat_arrays(doc_ids), offsets, values)


def check_ids(ids: npt.NDArray[Any], vocabulary: int, *, where: str, fix: str) -> None:
    """Sees that tokens are in the vocabulary, before they are written in a type that holds no others.

    Raises:
        DataError: One is not.
    """
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocabulary:
        message = f"tokens go from {ids.min()} to {ids.max()}, and the vocabulary from 0 to {vocabulary - 1}"
        raise DataError(message, where=where, fix=fix)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; an offset that slicing left is taken out, since the kernels read whole buffers."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array
