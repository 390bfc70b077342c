"""From rewards to advantages: KL estimates, rewards by token, generalised advantage estimation, whitening, the KL controller.

Tensors are [B, T] over the tokens of answers; `mask_BT` is 1 at an answer's tokens, the one that ends it included, and 0 behind them.

Source: GAE, Schulman et al. 2015, arXiv:1506.02438, equations 11 to 16; KL penalty and its controller, Ziegler et al. 2019,
arXiv:1909.08593, section 2.2; estimators k1 and k3, Schulman 2020, http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_KL_ERROR = 0.2  # Ziegler et al. 2019, section 2.2
TINY = 1e-8


def kl_estimate(logps_BT: Any, reference_BT: Any, estimator: str) -> Any:
    """Estimate of KL(policy || reference) at tokens that the policy drew, nats.

    With r = reference / policy: k1 = -log r is unbiased and may be negative, k3 = r - 1 - log r is unbiased and never is.
    """
    log_ratio_BT = reference_BT - logps_BT
    return -log_ratio_BT if estimator == "k1" else log_ratio_BT.exp() - 1 - log_ratio_BT


def token_rewards(scores_B: Any, kl_BT: Any, mask_BT: Any, coefficient: float) -> Any:
    """Each token costs its KL; the last one earns the answer's score.

    Raises:
        ValueError: An answer has no token.
    """
    last_B = mask_BT.sum(-1).long() - 1
    if bool((last_B < 0).any()):
        raise ValueError("an answer has no token")
    rewards_BT = -coefficient * kl_BT * mask_BT
    return rewards_BT.scatter_add(-1, last_B[:, None], scores_B[:, None].to(rewards_BT.dtype))


def gae(rewards_BT: Any, values_BT: Any, mask_BT: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """Advantages and returns; behind the last token of an answer the value is 0.

    Returns:
        Advantages and returns (advantages + values), both [B, T] and 0 outside the mask.
    """
    import torch

    values_BT = values_BT * mask_BT
    advantages_BT = torch.zeros_like(values_BT)
    ahead_B = next_value_B = torch.zeros_like(values_BT[:, 0])
    for place in reversed(range(values_BT.shape[1])):
        delta_B = rewards_BT[:, place] + gamma * next_value_B - values_BT[:, place]
        ahead_B = (delta_B + gamma * lam * ahead_B) * mask_BT[:, place]
        advantages_BT[:, place] = ahead_B
        next_value_B = values_BT[:, place]
    return advantages_BT, advantages_BT + values_BT


def masked_mean(values_BT: Any, mask_BT: Any) -> Any:
    """Mean over the tokens of all answers, each counted once."""
    return (values_BT * mask_BT).sum() / mask_BT.sum()


def whiten(values_BT: Any, mask_BT: Any, *, centre: bool = True) -> Any:
    """Values of standard deviation 1 over the mask, and of mean 0 where they are centred; 0 outside."""
    mean = masked_mean(values_BT, mask_BT)
    spread = masked_mean((values_BT - mean) ** 2, mask_BT).sqrt() + TINY
    return (values_BT - mean if centre else values_BT) / spread * mask_BT


@dataclass
class KLController:
    """Steers the mean KL of an answer to a target by what a nat costs.

    Attributes:
        coefficient: Reward taken for a nat.
        target: Nats of an answer.
        gain: How fast the coefficient follows; 0 keeps it.
    """

    coefficient: float
    target: float
    gain: float

    def update(self, kl: float) -> None:
        """Takes note of the mean KL of a round of answers, nats."""
        error = min(max((kl - self.target) / self.target, -MAX_KL_ERROR), MAX_KL_ERROR)
        self.coefficient *= 1 + self.gain * error
