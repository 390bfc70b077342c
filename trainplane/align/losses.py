"""The papers' preference losses, from log-probabilities of whole answers: what the trainer's first loss is held against.

A run starts where policy and reference are one model, so that a loss with a reference begins at a number that is known beforehand
(DPO: ln 2, IPO: 1 / (2 beta)^2, KTO: 1/2); the others begin at what the starting model's own log-probabilities give.

Source: DPO, Rafailov et al. 2023, arXiv:2305.18290, equation 7; IPO, Azar et al. 2023, arXiv:2310.12036, equation 17; KTO, Ethayarajh
et al. 2024, arXiv:2402.01306, equations 7 and 8; ORPO, Hong et al. 2024, arXiv:2403.07691, equations 4, 6 and 7; SimPO, Meng et al.
2024, arXiv:2405.14734, equation 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answers:
    """Pairs of a batch, as the losses see them.

    Attributes:
        policy: float64 tensor [n, 2], log-probability of the chosen and of the rejected answer, nats.
        reference: The same of the model that the policy starts from.
        lengths: int64 tensor [n, 2], tokens of each answer.
        divergence: Estimate of the KL divergence between policy and reference, nats, at least 0; KTO's z_0.
    """

    policy: Any
    reference: Any
    lengths: Any
    divergence: float = 0.0

    def gains(self) -> Any:
        """How much likelier the policy makes each answer, float64 [n, 2], nats."""
        return self.policy - self.reference

    def means(self, logps: Any) -> Any:
        """Per token of the answer, float64 [n, 2]."""
        return logps / self.lengths


@dataclass(frozen=True)
class JudgedAnswers:
    """Answers of a batch that were judged each by itself.

    Attributes:
        policy: float64 tensor [n], log-probability of each answer, nats.
        reference: The same of the model that the policy starts from.
        desirable: bool tensor [n], whether the answer was found good.
        divergence: As in `Answers`.
        weights: What a desirable and an undesirable answer count.
    """

    policy: Any
    reference: Any
    desirable: Any
    divergence: float = 0.0
    weights: tuple[float, float] = (1.0, 1.0)

    def loss_value(self, beta: float) -> float:
        """KTO's mean loss of the batch (equation 8 of the paper)."""
        import torch

        losses = _kto_losses(self.policy - self.reference, self.desirable, self.divergence, beta)
        return float((losses * torch.where(self.desirable, *self.weights)).mean())


def loss_value(loss: str, answers: Answers, *, beta: float, gamma: float = 0.0) -> float:
    """Mean loss of a batch.

    Args:
        loss: dpo | ipo | kto | orpo | simpo
        answers: The batch.
        beta: Strength of the preference; ORPO's lambda.
        gamma: SimPO's margin between the rewards of the two answers.
    """
    return float(LOSSES[loss](answers, beta, gamma).mean())


def _dpo(answers: Answers, beta: float, _: float) -> Any:
    gains = answers.gains()
    return -_log_sigmoid(beta * (gains[:, 0] - gains[:, 1]))


def _ipo(answers: Answers, beta: float, _: float) -> Any:
    """With log-probabilities per token, as its authors had it for texts of unequal length (trl's documentation of the loss)."""
    gains = answers.means(answers.gains())
    return (gains[:, 0] - gains[:, 1] - 1 / (2 * beta)) ** 2


def _kto(answers: Answers, beta: float, _: float) -> Any:
    """Each answer by itself, weight 1 for the wanted and for the unwanted."""
    import torch

    gains = answers.gains()
    return _kto_losses(gains, torch.tensor([True, False]).expand_as(gains), answers.divergence, beta)


def _kto_losses(gains: Any, wanted: Any, divergence: float, beta: float) -> Any:
    """Of answers whose log-probability moved by `gains`, nats."""
    import torch

    scaled = beta * (gains - divergence)
    return 1 - torch.where(wanted, scaled, -scaled).sigmoid()


def _orpo(answers: Answers, beta: float, _: float) -> Any:
    """The chosen answers' loss by token, and the odds ratio of the answers' mean log-probabilities."""
    import torch

    means = answers.means(answers.policy)
    odds = means - torch.log1p(-means.exp())
    nll = -answers.policy[:, 0].sum() / answers.lengths[:, 0].sum()
    return nll - beta * _log_sigmoid(odds[:, 0] - odds[:, 1])


def _simpo(answers: Answers, beta: float, gamma: float) -> Any:
    means = answers.means(answers.policy)
    return -_log_sigmoid(beta * (means[:, 0] - means[:, 1]) - gamma)


def _log_sigmoid(values: Any) -> Any:
    from torch.nn.functional import logsigmoid

    return logsigmoid(values)


LOSSES: dict[str, Callable[[Answers, float, float], Any]] = {
    "dpo": _dpo, "ipo": _ipo, "kto": _kto, "orpo": _orpo, "simpo": _simpo,
}  # fmt: skip
