"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math

from trainplane.params import PretrainParams


def learning_rate(step: int, params: PretrainParams) -> float:
    """Linear warm-up to the peak, then the shape that `schedule` names, never below `min_lr_ratio` of the peak.

    Args:
        step: From 1.
        params: Of pretraining.
    """
    if step <= params.warmup_steps:
        return params.learning_rate * step / params.warmup_steps
    shape = {"cosine": _cosine, "wsd": _stable_then_linear, "restarts": _restarts, "inverse_sqrt": _inverse_sqrt}[params.schedule]
    return params.learning_rate * shape(step, params)


def _cosine(step: int, params: PretrainParams) -> float:
    """Down to the floor at the last step. Source: Loshchilov and Hutter 2016, arXiv:1608.03983, without restarts."""
    return _half_cosine(min(1.0, _progress(step, params)), params.min_lr_ratio)


def _restarts(step: int, params: PretrainParams) -> float:
    """Cosines of equal length, each from the peak to the floor. Source: Loshchilov and Hutter 2016, arXiv:1608.03983, section 3."""
    turns = min(1.0, _progress(step, params)) * params.cycles
    # The last step of a cosine is its floor; the next begins at the peak.
    return _half_cosine(turns - math.ceil(turns) + 1, params.min_lr_ratio)


def _stable_then_linear(step: int, params: PretrainParams) -> float:
    """The peak, then straight down to the floor. Source: MiniCPM, Hu et al. 2024, arXiv:2404.06395, section 4.2."""
    decay_steps = max(1, round(params.steps * params.decay_share))
    left = max(0, params.steps - step) / decay_steps
    return params.min_lr_ratio + (1 - params.min_lr_ratio) * min(1.0, left)


def _inverse_sqrt(step: int, params: PretrainParams) -> float:
    """Falls with the root of the step. Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.3."""
    return max(params.min_lr_ratio, math.sqrt(max(1, params.warmup_steps) / step))


def _progress(step: int, params: PretrainParams) -> float:
    return (step - params.warmup_steps) / max(1, params.steps - params.warmup_steps)


def _half_cosine(share: float, floor: float) -> float:
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * share))
