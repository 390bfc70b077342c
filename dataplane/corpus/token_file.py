"""The tokens of all documents as one flat array, in memory or in a file without a name that is mapped into it.

Packing reaches for documents in no order, so it needs them all at hand; mapped, they are the page cache's and not the process's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class TokenFile:
    """Tokens by document.

    Attributes:
        doc_ids: string [d], each once.
        offsets: int64 [d + 1], where each document's tokens lie.
        values: int32 [t]
    """

    doc_ids: pa.Array
    offsets: I64
    values: I32


def in_memory(tokens: pa.Table) -> TokenFile:
    """The rows of the table `tokens`, as they lie in memory."""
    lists = whole(tokens.column("input_ids")).cast(pa.large_list(pa.int32()))
    return TokenFile(whole(tokens.column("doc_id")), lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False))


def mapped(batches: Iterable[pa.RecordBatch], folder: Path) -> TokenFile:
    """Rows of the table `tokens` with their tokens in a file of `folder`, which goes with the last who looks at it.

    The file has no name: whatever ends the process frees its room.
    """
    doc_ids, counts, total = [pa.array([], pa.string())], [np.zeros(0, np.int64)], 0
    with tempfile.TemporaryFile(dir=folder) as stream:
        for batch in batches:
            lists = batch.column("input_ids").cast(pa.large_list(pa.int32()))
            doc_ids.append(batch.column("doc_id").cast(pa.string()))
            counts.append(np.diff(lists.offsets.to_numpy()))
            part = lists.flatten().to_numpy(zero_copy_only=False)
            stream.write(part.astype(np.int32, copy=False).data)
            total += len(part)
        stream.flush()
        values = np.asarray(np.memmap(stream, np.int32, "r", shape=(total,))) if total else np.zeros(0, np.int32)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])
    return TokenFile(pa.concat_arrays(doc_ids), offsets, values)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; an offset that slicing left is taken out, since the kernels read whole buffers."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array
