"""Directions as whole numbers, whose cosines come out the same on every machine.

A vector of length 1 is kept as integers of 1/SCALE. A product of two is then a sum of whole numbers below 2^24, which float32 holds
exactly: a matrix product gives the same in whatever order, number of threads and blocks it is summed. A cosine is off by some 1e-4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SCALE = 4000
MAX_WIDTH = 16_384  # components for which a product is below 2^24: (SCALE + sqrt(width) / 2)^2

I16 = npt.NDArray[np.int16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


def whole_numbers(vectors: F64) -> I16:
    """The directions of vectors [n, width] as int16 [n, width]; zeros for a vector of zeros.

    Raises:
        ValueError: They are wider than MAX_WIDTH.
    """
    if vectors.shape[1] > MAX_WIDTH:
        raise ValueError(f"vectors of {vectors.shape[1]} components, at most {MAX_WIDTH} can be compared")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.rint(vectors / np.where(norms > 0, norms, 1) * SCALE).astype(np.int16)


def products(left: I16, right: I16) -> F32:
    """Exact products of whole-number directions [n, width] and [m, width]: float32 [n, m]."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32).T, np.float32)


def lengths(vectors: I16) -> F64:
    """The length of each, float64 [n]; 1 for a vector of zeros, which is then like nothing."""
    squares = np.einsum("ij,ij->i", vectors.astype(np.float64), vectors.astype(np.float64))
    return np.sqrt(np.where(squares > 0, squares, 1))


def cosines(left: I16, right: I16) -> F64:
    """Cosine of each pair: float64 [n, m]."""
    return products(left, right).astype(np.float64) / (lengths(left)[:, None] * lengths(right)[None, :])
