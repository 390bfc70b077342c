"""Params of model and pretraining. `pretrain/layout.py` derives the DeepSpeed config from them, `pretrain/defaults.py` what is `auto`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from dataplane.params import Params
from trainplane.data.order import Batches
from trainplane.pretrain.stability import StabilityParams


class ModelParams(Params):
    """A Llama-style decoder, any architecture of transformers, or a model that is trained on.

    The defaults give about 3 million parameters with 8,192 tokens.
    """

    config: str | dict[str, Any] | None = Field(
        None, description="A model of transformers: path of its config.json, or its content. The sizes below then count for nothing."
    )
    checkpoint: str | None = Field(None, description="Folder of a model to train on, with its tokenizer; its sizes are kept.")
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
        if self.config is not None and self.checkpoint is not None:
            raise ValueError("config makes a new model and checkpoint continues one: give one of them")
        return self


class ParallelParams(Params):
    """How one model lies over several ranks, beside ZeRO. What is left of the ranks is data-parallel."""

    tensor: int = Field(1, ge=1, description="Ranks that share each layer's matrices (DeepSpeed AutoTP).")
    pipeline: int = Field(1, ge=1, description="Ranks that hold the layers one after the other (DeepSpeed's pipeline).")
    sequence: int = Field(1, ge=1, description="Ranks that share each sequence (Ulysses).")
    offload_optimizer: bool = Field(False, description="Whether the optimizer's state lies in host memory; ZeRO 1 to 3.")
    offload_params: bool = Field(False, description="Whether the weights lie in host memory; ZeRO 3.")


class SampleParams(Params):
    """What the model is let write while it is trained."""

    every: int = Field(500, ge=0, description="Steps between samples, which the last step writes too; 0 writes none.")
    prompts: tuple[str, ...] = Field(("The ", "今天"), description="What the samples go on from.")
    tokens: int = Field(32, ge=1, description="Most tokens of a sample.")
    temperature: float = Field(0.8, ge=0, description="Of the draw; 0 takes the likeliest token.")

    def due(self, step: int, last: int) -> bool:
        """Whether a step writes samples."""
        return self.every > 0 and (step % self.every == 0 or step == last)


class BatchFrom(Params):
    """A step of the batch-size schedule."""

    from_step: int = Field(ge=1, description="First step it holds for.")
    sequences: int = Field(ge=1, description="Sequences in a step; a multiple of micro_batch.")


class LengthFrom(Params):
    """A step of the sequence-length schedule."""

    from_step: int = Field(ge=1, description="First step it holds for.")
    length: int = Field(ge=2, description="Tokens that attend to each other; divides the packed length.")


class PretrainParams(Params):
    """How the model is pretrained. A step is an optimizer step."""

    objective: Literal["causal", "masked"] = Field("causal", description="Predict the next token, or masked tokens as BERT does.")
    mask_share: float = Field(0.15, gt=0, lt=1, description="Share of the tokens that a masked model predicts.")
    next_sentence: bool = Field(
        False, description="Whether a masked model also learns whether the second segment of a document is its own (BERT's second task)."
    )
    steps: int = Field(300, ge=1, description="Optimizer steps.")
    global_batch: int = Field(8, ge=1, description="Sequences in a step, over all ranks and accumulation.")
    micro_batch: int = Field(8, ge=1, description="Sequences that go through the model at once on a rank.")
    batch_schedule: tuple[BatchFrom, ...] = Field(
        (), description="Other numbers of sequences from some steps on; `global_batch` holds before them."
    )
    length_schedule: tuple[LengthFrom, ...] = Field(
        (), description="Shorter sequences at first: packed ones are cut into pieces of this length, in tokens; no token is lost."
    )
    learning_rate: float = Field(3e-3, gt=0, description="Peak learning rate.")
    schedule: Literal["cosine", "wsd", "restarts", "inverse_sqrt"] = Field("cosine", description="Learning rate after warm-up.")
    min_lr_ratio: float = Field(0.1, ge=0, le=1, description="Lowest learning rate, as a share of the peak.")
    warmup_steps: int = Field(30, ge=0, description="Steps of linear warm-up.")
    decay_share: float = Field(0.1, gt=0, le=1, description="Share of all steps in which wsd falls linearly, at the end.")
    cycles: int = Field(4, ge=1, description="Cosines of `restarts`, of equal length.")
    optimizer: Literal["adamw", "lamb", "muon"] = Field("adamw", description="Optimizer; lamb is for large batches, muon for matrices.")
    weight_decay: float = Field(0.1, ge=0, description="Decay of matrices; norms and embeddings have none.")
    beta1: float = Field(0.9, gt=0, lt=1, description="AdamW's first moment.")
    beta2: float = Field(0.95, gt=0, lt=1, description="AdamW's second moment.")
    epsilon: float = Field(1e-8, gt=0, description="AdamW's epsilon.")
    clip: float = Field(1.0, ge=0, description="Largest gradient norm; 0 does not clip.")
    z_loss: float = Field(0.0, ge=0, description="Weight of the squared log of the softmax's sum, which keeps logits small; 1e-5 is usual.")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="Numbers of weights and activations.")
    initial_scale_power: int = Field(16, ge=0, le=32, description="fp16 starts with a loss scale of 2 to this power.")
    zero_stage: Literal[0, 1, 2, 3] = Field(0, description="DeepSpeed ZeRO stage.")
    parallel: ParallelParams = Field(
        default_factory=lambda: ParallelParams.parse(None, where="pretrain.parallel"),
        description="Tensor, pipeline and sequence parallelism, and offload.",
    )
    activation_checkpointing: bool = Field(False, description="Whether activations are computed again in the backward pass.")
    compile: bool = Field(False, description="Whether torch.compile is used; it brings nothing on CPU.")
    seed: int = Field(0, ge=0, description="Initial weights and order of the sequences.")
    checkpoint_every: int = Field(100, ge=1, description="Steps between checkpoints that a killed run resumes from.")
    held_out_every: int = Field(100, ge=1, description="Steps between measurements of the held-out loss.")
    held_out_documents: int = Field(64, ge=1, description="Held-out documents of those measurements.")
    samples: SampleParams = Field(
        default_factory=lambda: SampleParams.parse(None, where="pretrain.samples"), description="What the model writes while it learns."
    )
    stability: StabilityParams = Field(
        default_factory=lambda: StabilityParams.parse(None, where="stability"), description="What counts as a spike, and what is done then."
    )
    threads: int = Field(2, ge=1, description="Torch threads on CPU; sums of floats depend on them, so this is a param.")

    @model_validator(mode="after")
    def _batches_divide(self) -> PretrainParams:
        self.accumulation(1)
        return self

    @property
    def head(self) -> str:
        """What the model needs on top: "causal", "masked" or, for next sentences beside hidden tokens, "pairs"."""
        return "pairs" if self.next_sentence else str(self.objective)

    def accumulation(self, data_ranks: int) -> int:
        """Micro-batches of one data-parallel rank in a step of `global_batch`.

        Raises:
            ValueError: The ranks do not divide that, or a batch of the schedule.
        """
        per_round = self.micro_batch * data_ranks
        for name, size in [("global_batch", self.global_batch), *(("batch_schedule", stage.sequences) for stage in self.batch_schedule)]:
            if size % per_round:
                ranks = f" x {data_ranks} ranks" if data_ranks > 1 else ""
                raise ValueError(f"{name} {size} is no multiple of micro_batch {self.micro_batch}{ranks}")
        return self.global_batch // per_round

    def batches(self) -> Batches:
        """How many sequences each step has."""
        return Batches.of(self.global_batch, [(stage.from_step, stage.sequences) for stage in self.batch_schedule])

    def length_of_step(self, step: int, longest: int) -> int:
        """Tokens of a sequence at this step (from 1), `longest` where the schedule says nothing."""
        started = [stage for stage in self.length_schedule if stage.from_step <= step]
        return max(started, key=lambda stage: stage.from_step).length if started else longest
