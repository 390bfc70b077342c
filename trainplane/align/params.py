"""Params of supervised fine-tuning and of preference optimisation."""

from __future__ import annotations

from pydantic import Field

from dataplane.params import Params


class AlignParams(Params):
    """What both have in common. A step is an optimizer step."""

    data: list[str] = Field(..., min_length=1, description="Patterns of the JSONL files, below the project.")
    max_steps: int = Field(100, ge=1, description="Optimizer steps.")
    batch_size: int = Field(8, ge=1, description="Examples or pairs in a step.")
    learning_rate: float = Field(5e-3, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    warmup_steps: int = Field(10, ge=0, description="Steps of linear warm-up.")
    clip: float = Field(1.0, gt=0, description="Largest gradient norm.")
    lora_rank: int = Field(16, ge=1, description="Rank of the adapter in every linear layer but the output.")
    lora_alpha: int = Field(32, ge=1, description="Scale of the adapter, over its rank.")
    max_length: int = Field(128, ge=8, description="Tokens of an example at most.")
    seed: int = Field(0, ge=0, description="Adapter's initial weights, choice and order of the examples.")
    threads: int = Field(1, ge=1, description="Torch threads on CPU; sums of floats depend on them, so this is a param.")


class SFTParams(AlignParams):
    """Supervised fine-tuning."""

    max_steps: int = Field(60, ge=1, description="Optimizer steps.")
    max_examples: int = Field(2000, ge=1, description="Examples to train on at most.")
    held_out_examples: int = Field(100, ge=1, description="Held-out examples that the answer loss is measured on.")


class DPOParams(AlignParams):
    """Direct preference optimisation."""

    max_steps: int = Field(40, ge=1, description="Optimizer steps.")
    batch_size: int = Field(4, ge=1, description="Pairs in a step.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate; it falls to 0 along a cosine.")
    beta: float = Field(0.1, gt=0, description="How strongly the model is held to the one it starts from.")
    max_pairs: int = Field(1000, ge=1, description="Pairs to train on at most.")
    held_out_pairs: int = Field(100, ge=1, description="Held-out pairs that the accuracy is measured on.")
