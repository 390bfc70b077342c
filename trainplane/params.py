"""Params of model and pretraining, and the one place that derives a DeepSpeed config from them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from dataplane.params import Params
from trainplane.pretrain.stability import StabilityParams


class ModelParams(Params):
    """A Llama-style decoder. The defaults give about 3 million parameters with 8,192 tokens."""

    hidden_size: int = Field(192, ge=8, description="Width of the residual stream.")
    n_layers: int = Field(4, ge=1, description="Decoder layers.")
    n_heads: int = Field(6, ge=1, description="Attention heads.")
    n_kv_heads: int = Field(6, ge=1, description="Key and value heads; fewer than n_heads shares them.")
    intermediate_size: int = Field(512, ge=8, description="Width of the feed-forward layer.")
    rope_theta: float = Field(10_000.0, gt=0, description="Base of the rotary position embedding.")
    rms_norm_eps: float = Field(1e-5, gt=0, description="Epsilon of RMSNorm.")
    tie_embeddings: bool = Field(True, description="Whether input and output embeddings are one matrix.")
    initializer_range: float = Field(0.02, gt=0, description="Standard deviation of the initial weights.")

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelParams:
        if self.hidden_size % self.n_heads or self.n_heads % self.n_kv_heads:
            raise ValueError("hidden_size must be a multiple of n_heads, and n_heads of n_kv_heads")
        return self


class PretrainParams(Params):
    """How the model is pretrained. A step is an optimizer step."""

    steps: int = Field(300, ge=1, description="Optimizer steps.")
    global_batch: int = Field(8, ge=1, description="Sequences in a step, over all ranks and accumulation.")
    micro_batch: int = Field(8, ge=1, description="Sequences that go through the model at once on a rank.")
    learning_rate: float = Field(3e-3, gt=0, description="Peak learning rate.")
    min_lr_ratio: float = Field(0.1, ge=0, le=1, description="Learning rate at the end, as a share of the peak.")
    warmup_steps: int = Field(30, ge=0, description="Steps of linear warm-up.")
    weight_decay: float = Field(0.1, ge=0, description="Decay of matrices; norms and embeddings have none.")
    beta1: float = Field(0.9, gt=0, lt=1, description="AdamW's first moment.")
    beta2: float = Field(0.95, gt=0, lt=1, description="AdamW's second moment.")
    epsilon: float = Field(1e-8, gt=0, description="AdamW's epsilon.")
    clip: float = Field(1.0, ge=0, description="Largest gradient norm; 0 does not clip.")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="Numbers of weights and activations.")
    zero_stage: Literal[0, 1, 2, 3] = Field(0, description="DeepSpeed ZeRO stage.")
    seed: int = Field(0, ge=0, description="Initial weights and order of the sequences.")
    checkpoint_every: int = Field(100, ge=1, description="Steps between checkpoints that a killed run resumes from.")
    held_out_every: int = Field(100, ge=1, description="Steps between measurements of the held-out loss.")
    held_out_documents: int = Field(64, ge=1, description="Held-out documents of those measurements.")
    stability: StabilityParams = Field(
        default_factory=lambda: StabilityParams.parse(None, where="stability"), description="What counts as a spike, and what is done then."
    )
    threads: int = Field(2, ge=1, description="Torch threads on CPU; sums of floats depend on them, so this is a param.")

    @model_validator(mode="after")
    def _batches_divide(self) -> PretrainParams:
        if self.global_batch % self.micro_batch:
            raise ValueError("global_batch must be a multiple of micro_batch")
        return self

    def accumulation(self, world_size: int) -> int:
        """Micro-batches of one rank in a step.

        Raises:
            ValueError: The ranks do not divide the global batch.
        """
        per_round = self.micro_batch * world_size
        if self.global_batch % per_round:
            raise ValueError(f"global_batch {self.global_batch} is no multiple of micro_batch {self.micro_batch} x {world_size} ranks")
        return self.global_batch // per_round


def deepspeed_config(params: PretrainParams, world_size: int) -> dict[str, Any]:
    """DeepSpeed's config for a run.

    The learning rate is set by the loop at each step, so that it is a pure function of the step and needs no state. torch_adam:
    DeepSpeed's own CPU Adam is compiled at first use, which takes minutes, with equal losses.
    """
    return {
        "train_micro_batch_size_per_gpu": params.micro_batch,
        "gradient_accumulation_steps": params.accumulation(world_size),
        "gradient_clipping": params.clip,
        "bf16": {"enabled": params.precision == "bf16"},
        "zero_optimization": {"stage": params.zero_stage},
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": params.learning_rate,
                "betas": [params.beta1, params.beta2],
                "eps": params.epsilon,
                "weight_decay": params.weight_decay,
                "torch_adam": True,
            },
        },
        "wall_clock_breakdown": False,
        "steps_per_print": 1 << 30,
    }
