"""Params of the reward model and of reinforcement learning."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from dataplane.params import Params
from trainplane.align.params import AlignParams


class RewardModelParams(AlignParams):
    """A reward model on preference pairs."""

    max_steps: int = Field(40, ge=1, description="Optimizer steps.")
    batch_size: int = Field(4, ge=1, description="Pairs in a step.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    centering: float = Field(0.01, ge=0, description="Weight of the squared sum of a pair's two rewards, which holds rewards around 0.")
    max_pairs: int = Field(1000, ge=1, description="Pairs to train on at most.")
    held_out_pairs: int = Field(200, ge=2, description="Held-out pairs that accuracy and calibration are measured on.")
    bins: int = Field(10, ge=1, description="Bins of confidence, for the calibration.")


class RewardUse(Params):
    """One reward, by name."""

    use: str = Field(..., min_length=1, description="Name of a reward: length, exact_match, regex, program, model, or a plugin's.")
    params: dict[str, Any] = Field({}, description="Params of the reward.")
    weight: float = Field(1.0, description="What the reward counts in the sum.")


class GuardParams(Params):
    """When a run raises an alarm. KL and entropy are in nats."""

    on_alarm: Literal["stop", "record"] = Field("stop", description="Whether an alarm ends the run, or is only written down.")
    max_kl: float = Field(20.0, gt=0, description="Nats of an answer that the policy may be away from its reference.")
    max_length_growth: float = Field(3.0, gt=1, description="Factor by which the mean length of answers may grow over the first step's.")
    min_entropy: float = Field(0.01, ge=0, description="Nats of a token below which the policy has collapsed.")
    max_quality_drop: float = Field(
        0.1, gt=0, description="Fall of the held-out judge (nats a token, or reward) that is borne while the reward rises."
    )
    judge_every: int = Field(10, ge=1, description="Steps between two looks of the held-out judge.")
    samples_every: int = Field(10, ge=1, description="Steps between two looks at written answers, kept in samples.jsonl.")
    samples: int = Field(4, ge=0, description="Answers kept at each look.")


class RLParams(AlignParams):
    """What PPO and GRPO have in common."""

    max_steps: int = Field(40, ge=1, description="Optimizer steps; in PPO, rounds of answers.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    rewards: list[RewardUse] = Field(..., min_length=1, description="Rewards, of which the weighted sum is the score.")
    max_prompts: int = Field(1000, ge=1, description="Prompts to train on at most.")
    held_out_prompts: int = Field(50, ge=1, description="Held-out prompts that the score is measured on, before and after.")
    max_new_tokens: int = Field(48, ge=1, description="Tokens of an answer at most.")
    temperature: float = Field(1.0, gt=0, description="Of sampling and of every log-probability; nothing is cut off the distribution.")
    judge: Literal["none", "answers", "model"] = Field(
        "answers", description="Who judges without being trained on: the chances of held-out answers of the sft stage, or a reward model."
    )
    judge_model: str = Field("models/judge", min_length=1, description="Folder of the reward model that judges.")
    guards: GuardParams = Field(default_factory=lambda: GuardParams.parse(None, where="guards"), description="When an alarm is raised.")


class PPOParams(RLParams):
    """Proximal policy optimisation."""

    batch_size: int = Field(16, ge=1, description="Answers in a round.")
    mini_batch: int = Field(8, ge=1, description="Answers in an update.")
    epochs: int = Field(2, ge=1, description="Passes over the answers of a round.")
    clip_ratio: float = Field(0.2, gt=0, description="How far the ratio of new to old probability counts.")
    clip_value: float = Field(0.2, gt=0, description="How far a value may move from the old one.")
    value_learning_rate: float = Field(1e-3, gt=0, description="Learning rate of the critic, constant.")
    gamma: float = Field(1.0, gt=0, le=1, description="Discount of a later reward, by token.")
    lam: float = Field(0.95, ge=0, le=1, description="Of the generalised advantage estimation.")
    kl_coefficient: float = Field(0.05, ge=0, description="Reward taken for a nat of KL, at the start.")
    kl_target: float = Field(3.0, gt=0, description="Nats of KL of an answer that the controller steers to.")
    kl_gain: float = Field(0.1, ge=0, description="How fast the coefficient follows; 0 keeps it.")
    kl_estimator: Literal["k1", "k3"] = Field(
        "k1", description="Estimator of the KL of a token: k1 = -log r, k3 = r - 1 - log r, whose gradient as a reward is biased."
    )
    whiten_rewards: bool = Field(False, description="Whether the rewards of a round are divided by their standard deviation.")
    missing_eos_penalty: float = Field(1.0, ge=0, description="Taken from the score of an answer that did not end.")

    @model_validator(mode="after")
    def _one_batch_for_updates(self) -> Self:
        if self.micro_batch is not None:
            raise ValueError("micro_batch says nothing here: set mini_batch")
        return self


class GRPOParams(RLParams):
    """Group-relative policy optimisation and REINFORCE leave-one-out, by trl."""

    batch_size: int = Field(16, ge=2, description="Answers in a step; a multiple of the group.")
    group_size: int = Field(8, ge=2, description="Answers to one prompt, which are held against each other.")
    loss: Literal["grpo", "dr_grpo", "dapo", "bnpo", "rloo"] = Field("dapo", description="Which loss, as trl names it.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL to the reference.")
    clip_ratio: float = Field(0.2, gt=0, description="How far the ratio of new to old probability counts.")
