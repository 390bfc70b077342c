"""The order of training: which sequences a step sees, as a pure function of (seed, step).

No state and no list: a keyed permutation of the sequence numbers is computed at any point, so that seeking costs nothing, a
resumed run cannot lose its place, and the number of ranks, workers or steps of a run changes nothing.

Source: format-preserving permutation by a Feistel network with cycle walking, Black and Rogaway 2002,
doi:10.1007/3-540-45760-7_9; the round function is SplitMix64's finaliser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

ROUNDS = 6


@dataclass(frozen=True)
class Batches:
    """How many sequences each step takes: the same number always, or another one for each stage of a schedule.

    Attributes:
        stages: (first step, sequences a step), by step; the first begins at step 1.
    """

    stages: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, usual: int, schedule: Sequence[tuple[int, int]] = ()) -> Batches:
        """From a schedule of (first step, sequences); `usual` holds before its first stage."""
        return cls(tuple(sorted({1: usual, **dict(schedule)}.items())))

    def size(self, step: int) -> int:
        """Sequences of a step (from 1)."""
        return next(size for first, size in reversed(self.stages) if first <= step)

    def before(self, step: int) -> int:
        """Sequences of all steps before this one; nothing is counted one by one."""
        ends = [first for first, _ in self.stages[1:]] + [step]
        return sum((min(end, step) - first) * size for (first, size), end in zip(self.stages, ends, strict=True) if first < step)

    def step_of(self, place: int) -> int:
        """The step that takes what stands at a place (from 0), where nothing is skipped."""
        first, size = next((first, size) for first, size in reversed(self.stages) if self.before(first) <= place)
        return first + (place - self.before(first)) // size


def sequences_of_step(seed: int, step: int, global_batch: int, n_sequences: int) -> I64:
    """The sequences of one step, where nothing was skipped before it.

    Args:
        seed: Of the run.
        step: Optimizer step, from 1.
        global_batch: Sequences in a step.
        n_sequences: Sequences there are.

    Returns:
        int64 [global_batch], seq_ids in order; each epoch is a permutation of its own, and a step may reach over into the next.
    """
    return sequences_at(seed, (step - 1) * global_batch, global_batch, n_sequences)


def sequences_at(seed: int, first: int, count: int, n_sequences: int) -> I64:
    """What stands at `count` places of the run's endless order, epoch after epoch, from place `first` (0 is the run's first sequence)."""
    places = np.arange(first, first + count, dtype=np.int64)
    epochs, within = np.divmod(places, n_sequences)
    out = np.empty(count, np.int64)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        out[here] = permute(within[here], n_sequences, seed, int(epoch))
    return out


def places_of(seq_ids: I64, seed: int, n_sequences: int, end: int) -> I64:
    """Where sequences stand in the run's order: the way back from `sequences_at`, without looking at any step.

    Args:
        seq_ids: int64 [k]
        seed: Of the run.
        n_sequences: Sequences there are.
        end: Places that the run has come to; those before it are told.

    Returns:
        int64 [m], sorted; one for each sequence and epoch.
    """
    epochs = range(-(-end // n_sequences))
    found = [epoch * n_sequences + permute_back(seq_ids, n_sequences, seed, epoch) for epoch in epochs]
    places = np.concatenate(found) if found else np.empty(0, np.int64)
    return np.sort(places[places < end])


def epoch_of_step(step: int, global_batch: int, n_sequences: int) -> int:
    """Epoch of a step's first sequence, from 0."""
    return (step - 1) * global_batch // n_sequences


def permute(places: I64, n: int, seed: int, epoch: int) -> I64:
    """What stands at these places (int64 [k], 0 <= place < n) of the epoch's permutation of 0 .. n-1."""
    return _walk(places, n, _feistel, _keys(seed, epoch))


def permute_back(values: I64, n: int, seed: int, epoch: int) -> I64:
    """Where these values (int64 [k], 0 <= value < n) stand: the inverse of `permute`."""
    return _walk(values, n, _feistel_back, _keys(seed, epoch))


def _walk(values: I64, n: int, network: Callable[[U64, np.uint64, U64], U64], keys: U64) -> I64:
    """The network permutes a power of four; what falls outside n walks on until it is inside."""
    half_bits = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
    out = network(values.astype(np.uint64), half_bits, keys)
    while (outside := out >= np.uint64(n)).any():
        out[outside] = network(out[outside], half_bits, keys)
    return out.astype(np.int64)


def _keys(seed: int, epoch: int) -> U64:
    start = np.array([((seed + 1) * 0x9E3779B97F4A7C15 + epoch * 0xD1B54A32D192ED03) % (1 << 64)], np.uint64)
    with np.errstate(over="ignore"):
        return _mix(start + np.arange(1, ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _feistel(values: U64, half_bits: np.uint64, keys: U64) -> U64:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = values >> half_bits, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << half_bits) | right


def _feistel_back(values: U64, half_bits: np.uint64, keys: U64) -> U64:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = values >> half_bits, values & mask
    for key in keys[::-1]:
        left, right = right ^ (_mix(left ^ key) & mask), left
    return (left << half_bits) | right


def _mix(values: U64) -> U64:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
