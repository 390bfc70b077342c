"""Params of supervised fine-tuning and of preference optimisation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from dataplane.params import Params


class AlignParams(Params):
    """What both have in common. A step is an optimizer step."""

    data: list[str] = Field([], description="Patterns of JSONL files, below the project.")
    sources: list[str] = Field([], description="Sources of format chat, whose documents are learnt from as the lake has them.")
    snapshot: str = Field("decontaminated", description="Table of the doc_ids that came through: selected, deduplicated, decontaminated.")
    held_out_share: float = Field(
        0.1, gt=0, lt=1, description="Share of a source's documents that are held out, where `split` is not told."
    )
    max_steps: int = Field(100, ge=1, description="Optimizer steps.")
    batch_size: int = Field(8, ge=1, description="Examples or pairs in a step.")
    micro_batch: int | None = Field(None, ge=1, description="How many of them go through the model at once; all where nothing is given.")
    learning_rate: float = Field(2e-4, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    warmup_steps: int = Field(10, ge=0, description="Steps of linear warm-up.")
    clip: float = Field(1.0, gt=0, description="Largest gradient norm.")
    lora_rank: int = Field(16, ge=1, description="Rank of the adapter in every linear layer but the output.")
    lora_alpha: int = Field(32, ge=1, description="Scale of the adapter, over its rank.")
    max_length: int = Field(512, ge=8, description="Tokens of an example at most.")
    seed: int = Field(0, ge=0, description="Adapter's initial weights, choice and order of the examples.")
    threads: int = Field(1, ge=1, description="Torch threads on CPU; sums of floats depend on them, so this is a param.")

    @model_validator(mode="after")
    def _batches_divide(self) -> Self:
        if not (self.data or self.sources):
            raise ValueError("there is nothing to learn from: give data (files), sources (of the lake), or both")
        if self.batch_size % self.micro():
            raise ValueError("batch_size must be a multiple of micro_batch")
        return self

    def micro(self) -> int:
        """Examples or pairs that go through the model at once."""
        return self.micro_batch or self.batch_size


class SFTParams(AlignParams):
    """Supervised fine-tuning."""

    method: Literal["full", "lora", "dora", "qlora", "ia3", "prompt", "prefix"] = Field(
        "lora", description="What is trained. prompt and prefix cannot be merged and are saved alone."
    )
    learning_rate: float = Field(
        2e-4, gt=0, description="Peak learning rate; it falls to 0 along a cosine. 2e-5 is usual for full, 1e-2 for ia3, prompt and prefix."
    )
    max_steps: int = Field(60, ge=1, description="Optimizer steps.")
    max_examples: int = Field(2000, ge=1, description="Examples to train on at most.")
    shares: dict[str, float] = Field(
        {},
        description="Share of the training examples by source, summing to 1; as they come if empty.",
    )
    held_out_examples: int = Field(100, ge=1, description="Held-out examples that the answer loss is measured on.")
    retain: list[str] = Field(
        [], description="Patterns of JSONL files of examples of what the model could do before; their answer loss is measured too."
    )
    virtual_tokens: int = Field(10, ge=1, description="Places that prompt and prefix put before each example, in tokens.")
    pack: bool = Field(
        False, description="Whether examples of a micro-batch share rows of max_length tokens, each attending to itself alone."
    )
    overlong: Literal["refuse", "leave_out", "cut"] = Field(
        "refuse", description="What becomes of an example over max_length: an error, left out, or its answer cut, so that it has no end."
    )

    @model_validator(mode="after")
    def _shares_are_shares(self) -> Self:
        if self.shares and (min(self.shares.values()) <= 0 or abs(sum(self.shares.values()) - 1) > 1e-6):
            raise ValueError(f"shares must be over 0 and sum to 1, got {sum(self.shares.values()):g}")
        return self

    @model_validator(mode="after")
    def _packed_rows_have_no_virtual_tokens(self) -> Self:
        if self.pack and not self.merges():
            raise ValueError(f"method {self.method} adds places before a row, which packed examples would share: set pack: false")
        return self

    def merges(self) -> bool:
        """Whether the trained model can be written as one set of weights."""
        return self.method not in {"prompt", "prefix"}


class DPOParams(AlignParams):
    """Preference optimisation."""

    loss: Literal["dpo", "ipo", "kto", "orpo", "simpo"] = Field(
        "dpo", description="Which loss; dpo, ipo and kto hold the model to the one it starts from, orpo and simpo to none."
    )
    max_steps: int = Field(40, ge=1, description="Optimizer steps.")
    batch_size: int = Field(4, ge=1, description="Pairs in a step.")
    learning_rate: float = Field(1e-5, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    beta: float = Field(
        0.1, gt=0, description="dpo, ipo, kto: how strongly the model is held to its reference; simpo: scale of the reward (2 is usual); "
        "orpo: weight of the odds ratio."
    )  # fmt: skip
    unpaired: bool = Field(
        False, description="kto: whether single answers with a label are learnt from instead of pairs; answers then count where pairs do."
    )
    desirable_weight: float = Field(1.0, gt=0, description="Unpaired: what a desirable answer counts in the loss.")
    undesirable_weight: float = Field(1.0, gt=0, description="Unpaired: what an undesirable answer counts in the loss.")
    gamma: float = Field(0.5, ge=0, description="simpo: by how much the chosen answer's reward should be higher.")
    max_pairs: int = Field(1000, ge=1, description="Pairs to train on at most.")
    held_out_pairs: int = Field(100, ge=1, description="Held-out pairs that the accuracy is measured on.")
    stuck_steps: int = Field(10, ge=2, description="The step by which the loss must have moved from its first value.")
    max_margin: float = Field(15.0, gt=0, description="Alarm where the mean margin between the rewards of a step is larger.")
    max_chosen_fall: float = Field(
        10.0, gt=0, description="Alarm where the chosen answers' mean reward (beta x nats, against the reference) falls below minus this."
    )
    stop_on_alarm: bool = Field(True, description="Whether an alarm stops the run; it is told in the metrics otherwise.")

    @model_validator(mode="after")
    def _step_is_large_enough(self) -> Self:
        if self.loss == "kto" and self.batch_size < 2:
            raise ValueError("kto estimates the divergence from other pairs of the step: batch_size must be 2 or more")
        if self.unpaired and self.loss != "kto":
            raise ValueError(f"{self.loss} compares two answers: unpaired goes with loss kto")
        if not self.unpaired and (self.desirable_weight, self.undesirable_weight) != (1.0, 1.0):
            raise ValueError("desirable_weight and undesirable_weight are of unpaired answers: pairs have as many of both")
        if self.loss in {"kto", "orpo"} and self.micro() != self.batch_size:
            raise ValueError(f"{self.loss} is a loss of the whole step, not a mean over its pairs: leave micro_batch out")
        return self

    def has_reference(self) -> bool:
        """Whether the loss holds the model to a reference."""
        return self.loss in {"dpo", "ipo", "kto"}
