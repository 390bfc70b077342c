"""Token documents for Megatron and what reads its format: ``train.bin`` (the tokens) and ``train.idx`` (where each lies).

The index, all little endian: the magic, uint64 version, uint8 code of the token type, uint64 number of sequences n,
uint64 number of borders n + 1, int32 [n] tokens of each sequence, int64 [n] byte at which each begins in the .bin file,
int64 [n + 1] borders of documents among the sequences. Here every sequence is a document of its own.

Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.corpus.token_file import check_ids
from dataplane.errors import UsageError
from dataplane.publish.rows import OTHER_TOKENIZER, Rows

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
TYPE_CODES = {"int32": 4, "uint16": 8}
# Megatron's own border for the smaller type (DType.optimal_dtype).
UINT16_VOCABULARY = 65500
TABLES = ("tokens", "packed")


def write(rows: Rows, folder: Path, vocabulary: int, eos_id: int) -> dict[str, Any]:
    """Writes train.bin and train.idx.

    Documents of `tokens` get EOS behind them, since nothing else parts them in the file. Sequences of `packed` are
    written as they are, padding included.

    Args:
        rows: Rows of `tokens` or `packed`.
        folder: Where to.
        vocabulary: Size of the vocabulary; decides the type of the tokens.
        eos_id: Id of EOS.

    Returns:
        rows, tokens, and what a reader has to know about them.

    Raises:
        UsageError: The table holds no tokens.
        DataError: A token is not in the vocabulary.
    """
    if rows.snapshot.table not in TABLES:
        raise UsageError(f"{rows.snapshot.table!r} holds no tokens", fix=f"export one of {', '.join(TABLES)}")
    dtype = "uint16" if vocabulary < UINT16_VOCABULARY else "int32"
    eos = eos_id if rows.snapshot.table == "tokens" else None
    lengths = [np.zeros(0, np.int32)]
    with (folder / "train.bin").open("wb") as stream:
        for batch in rows.batches():
            lengths.append(_append(stream, batch.column("input_ids"), dtype, vocabulary, eos))
    sizes = np.concatenate(lengths)
    with (folder / "train.idx").open("wb") as stream:
        for part in index(sizes, dtype):
            stream.write(part)
    return {"rows": len(sizes), "tokens": int(sizes.sum(dtype=np.int64)), "dtype": dtype, "vocabulary": vocabulary, "appended_eos": eos}


def index(sizes: npt.NDArray[np.int32], dtype: str) -> Iterator[bytes]:
    """The parts of the .idx file.

    Args:
        sizes: Tokens of each sequence: int32 [n].
        dtype: Type of the tokens.
    """
    n = len(sizes)
    pointers = np.zeros(n, np.int64)
    np.cumsum(sizes[:-1], out=pointers[1:], dtype=np.int64)
    yield MAGIC + struct.pack("<QBQQ", VERSION, TYPE_CODES[dtype], n, n + 1)
    yield sizes.astype("<i4").tobytes()
    yield (pointers * np.dtype(dtype).itemsize).astype("<i8").tobytes()
    yield np.arange(n + 1, dtype="<i8").tobytes()


def _append(stream: IO[bytes], lists: pa.Array, dtype: str, vocabulary: int, eos: int | None) -> npt.NDArray[np.int32]:
    """Writes the tokens of a batch; tokens of each document, its EOS included: int32 [n]."""
    tokens = lists.flatten().to_numpy(zero_copy_only=False)
    check_ids(tokens, vocabulary, where="input_ids", fix=OTHER_TOKENIZER)
    sizes: npt.NDArray[np.int32] = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int32)
    if eos is not None:
        tokens = np.insert(tokens, np.cumsum(sizes), eos)
        sizes += 1
    stream.write(tokens.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
    return sizes
