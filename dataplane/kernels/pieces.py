"""Documents in pieces of about a sentence or two, for models that learnt from such."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.unicode import BOUNDS, I64, OCTETS, TERMINAL, classes, decode, text_buffers

_HARD = 2  # a piece without an end is cut after so many times its length


def split(text: pa.Array, chars: int) -> tuple[pa.Array, I64, npt.NDArray[np.float64]]:
    """Cuts each document behind the first line or sentence that ends after `chars` characters of a piece.

    Args:
        text: string or large_string [n]; null reads as empty, and an empty document is one empty piece.
        chars: Characters of a piece at least, but for a document's last.

    Returns:
        large_string [pieces] that share the bytes of `text`; int64 [pieces] the document of each; float64 [pieces] its characters, at
        least 1.
    """
    data, offsets = text_buffers(text)
    cuts, documents, lengths = _cut(data, offsets, classes(), chars)
    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(np.ascontiguousarray(data[: cuts[-1]]))]
    return pa.Array.from_buffers(pa.large_string(), len(documents), buffers), documents, lengths


@nb.njit(
    nb.types.Tuple((nb.int64[::1], nb.int64[::1], nb.float64[::1]))(OCTETS, BOUNDS, OCTETS, nb.int64), cache=True, nogil=True
)  # fmt: skip
def _cut(data, offsets, table, chars):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    room = n + (offsets[n] - offsets[0]) // chars + 1
    cuts, documents, lengths = np.empty(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.float64)
    cuts[0] = offsets[0]
    k = 0
    for i in range(n):
        at, stop = offsets[i], offsets[i + 1]
        count = 0
        while True:
            if at < stop:
                code, at = decode(data, at, stop)
                count += 1
                ended = count >= chars and (code == 10 or table[code] & TERMINAL != 0)
                if not (ended or count >= _HARD * chars) or at >= stop:
                    continue
            cuts[k + 1], documents[k], lengths[k] = at, i, max(1, count)
            k += 1
            count = 0
            if at >= stop:
                break
    return cuts[: k + 1].copy(), documents[:k].copy(), lengths[:k].copy()
