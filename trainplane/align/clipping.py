"""The two losses of PPO. Source: Schulman et al. 2017, arXiv:1707.06347, equation 7; the clipped value loss is that of its code."""

from __future__ import annotations

from typing import Any

from trainplane.align.advantages import masked_mean


def policy_loss(logps_BT: Any, old_BT: Any, advantages_BT: Any, mask_BT: Any, clip: float) -> tuple[Any, float]:
    """The clipped surrogate, to be made small, and the share of tokens at which the clip counts.

    Args:
        logps_BT: Log-probabilities by the policy as it is, with gradient.
        old_BT: By the policy that drew the tokens.
        advantages_BT: Of the tokens.
        mask_BT: 1 at tokens of answers.
        clip: How far the ratio may be from 1.
    """
    import torch

    ratio_BT = (logps_BT - old_BT).exp()
    plain_BT = -advantages_BT * ratio_BT
    clipped_BT = -advantages_BT * ratio_BT.clamp(1 - clip, 1 + clip)
    share = masked_mean((clipped_BT > plain_BT).to(plain_BT.dtype), mask_BT)
    return masked_mean(torch.maximum(plain_BT, clipped_BT), mask_BT), float(share)


def value_loss(values_BT: Any, old_BT: Any, returns_BT: Any, mask_BT: Any, clip: float) -> Any:
    """Half the squared error of the values, the worse of moved freely and moved by `clip` at most."""
    import torch

    near_BT = old_BT + (values_BT - old_BT).clamp(-clip, clip)
    errors_BT = torch.maximum((values_BT - returns_BT) ** 2, (near_BT - returns_BT) ** 2)
    return 0.5 * masked_mean(errors_BT, mask_BT)
