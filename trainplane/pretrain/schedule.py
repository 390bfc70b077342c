"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math

from trainplane.params import PretrainParams


def learning_rate(step: int, params: PretrainParams) -> float:
    """Linear warm-up, then a cosine to `min_lr_ratio` of the peak at the last step.

    Args:
        step: From 1.

    Source: Loshchilov and Hutter 2016, arXiv:1608.03983, without restarts.
    """
    if step <= params.warmup_steps:
        return params.learning_rate * step / params.warmup_steps
    after = (step - params.warmup_steps) / max(1, params.steps - params.warmup_steps)
    floor = params.min_lr_ratio
    return params.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, after))))
