"""Random numbers of a step as a pure function of (seed, step, rank), so that resuming, rolling back and verifying need no saved state."""

from __future__ import annotations

import hashlib
import random

import numpy as np

SEED_BYTES = 8


def step_key(seed: int, step: int) -> str:
    """What the random numbers of a step follow from: 128 bits, hex. The ledger's chain holds it."""
    return hashlib.sha256(f"random numbers of seed {seed}, step {step}".encode()).hexdigest()[:32]


def seed_step(seed: int, step: int, rank: int) -> str:
    """Seeds torch (all devices), numpy and random for a step of one rank; returns the step's key."""
    import torch

    key = step_key(seed, step)
    value = int.from_bytes(hashlib.sha256(f"{key} {rank}".encode()).digest()[:SEED_BYTES], "big")
    torch.manual_seed(value)
    np.random.seed(value % (1 << 32))
    random.seed(value)
    return key
