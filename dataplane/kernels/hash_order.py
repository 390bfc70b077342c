"""Pseudo-random order without randomness: a 64-bit key for each value, from its bytes and a salt.

A choice by key is the same on every machine, whatever the order and the batches in which the values come, and two
choices under different salts are independent of each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from dataplane.kernels.hashing import hash128

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

_UNIT = 2.0**-53  # a key's upper 53 bits fill a float64's mantissa


def order_keys(values: pa.Array, salt: str) -> U64:
    """A key for each value.

    Args:
        values: Any Arrow array [n]; doc_ids as a rule.
        salt: What the choice is for, with its seed ("held_out", "mixture 7").

    Returns:
        uint64 [n], uniform
    """
    return rekey(hash128(values)[:, 0], salt)


def rekey(keys: U64, salt: str) -> U64:
    """New keys out of keys (or plain numbers), under a salt: uint64 [n]."""
    with np.errstate(over="ignore"):
        mixed = keys.astype(np.uint64) ^ np.uint64(xxhash.xxh64_intdigest(salt.encode()))
        # Finaliser of SplitMix64. Source: Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195, section 5.
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        result: U64 = mixed ^ (mixed >> np.uint64(31))
        return result


def unit(keys: U64) -> F64:
    """Keys as numbers in [0, 1): float64 [n]."""
    return (keys >> np.uint64(11)).astype(np.float64) * _UNIT
