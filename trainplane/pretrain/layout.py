"""How a run lies over its ranks, and the DeepSpeed config that follows from the params.

Ranks that share a model lie side by side: the data-parallel rank is the rank divided by how many share one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dataplane.errors import ParamsError
from trainplane.params import PretrainParams


@dataclass(frozen=True)
class Layout:
    """This process among the others.

    Attributes:
        world: Ranks of the run.
        rank: Of this process.
        per_model: Ranks that work on one micro-batch together.
        sequence: How many of those share each sequence.
        pipeline: How many of those have the layers one after the other.
    """

    world: int
    rank: int
    per_model: int
    sequence: int = 1
    pipeline: int = 1

    @classmethod
    def of(cls, params: PretrainParams) -> Layout:
        """The layout in the environment that a launcher made; one rank without one.

        Raises:
            ParamsError: DeepSpeed cannot run these params on so many ranks.
        """
        world = int(os.environ.get("WORLD_SIZE", "1"))
        check(params, world)
        return cls(world, int(os.environ.get("RANK", "0")), _per_model(params), params.parallel.sequence, params.parallel.pipeline)

    @property
    def data_ranks(self) -> int:
        """Data-parallel ranks."""
        return self.world // self.per_model

    @property
    def tensor(self) -> int:
        """Ranks that share each layer's matrices."""
        return self.per_model // (self.sequence * self.pipeline)

    @property
    def gradient_ranks(self) -> int:
        """Ranks that DeepSpeed takes the mean of gradients over: those with a part of a sequence too."""
        return self.data_ranks * self.sequence

    @property
    def data_rank(self) -> int:
        """Which of them this process belongs to."""
        return self.rank // self.per_model

    @property
    def speaker(self) -> int:
        """Which of the ranks that share a model tells of losses: in a pipeline the last stage alone knows them."""
        return self.per_model - 1 if self.pipeline > 1 else 0

    def rows(self, n_sequences: int) -> slice:
        """The rows of a global batch that this rank reads: a run of neighbours, so that rank after rank gives the batch's order."""
        each = n_sequences // self.data_ranks
        return slice(self.data_rank * each, (self.data_rank + 1) * each)


def check(params: PretrainParams, world: int) -> None:
    """Refuses what DeepSpeed cannot do, before anything starts.

    Args:
        params: Of pretraining.
        world: Ranks.

    Raises:
        ParamsError: All faults in one message.
    """
    if faults := [*_shape_faults(params, world), *_feature_faults(params)]:
        raise ParamsError("; ".join(faults), where="pretrain", fix="edit params.yaml at pretrain")


def _per_model(params: PretrainParams) -> int:
    return params.parallel.tensor * params.parallel.sequence * params.parallel.pipeline


def _shape_faults(params: PretrainParams, world: int) -> list[str]:
    per_model = _per_model(params)
    if world % per_model:
        return [f"tensor x pipeline x sequence = {per_model} ranks do not divide the {world} ranks of the run"]
    try:
        params.accumulation(world // per_model)
    except ValueError as error:
        return [str(error)]
    return []


def _feature_faults(params: PretrainParams) -> list[str]:
    parallel, zero = params.parallel, params.zero_stage
    refused = {
        "fp16 needs zero_stage 1, 2 or 3 (at 0 DeepSpeed leaves out the loss scale)": params.precision == "fp16" and zero == 0,
        "offload_optimizer needs zero_stage 1, 2 or 3": parallel.offload_optimizer and zero == 0,
        "offload_params needs zero_stage 3": parallel.offload_params and zero != 3,
        "tensor parallelism goes with zero_stage 0, 1 or 2 (DeepSpeed refuses AutoTP with ZeRO 3)": parallel.tensor > 1 and zero == 3,
        **_pipeline_faults(params),
        "next_sentence is for objective masked": params.next_sentence and params.objective != "masked",
        "next_sentence goes without tensor and sequence parallelism": params.next_sentence and max(parallel.tensor, parallel.sequence) > 1,
        "sequence parallelism goes with no other: set parallel.tensor to 1": parallel.sequence > 1 and parallel.tensor > 1,
        # In half precision DeepSpeed makes one flat tensor of each group, at every ZeRO stage.
        f"{params.optimizer} needs whole matrices: zero_stage 0, precision fp32 and no tensor parallelism": params.optimizer != "adamw"
        and (zero > 0 or parallel.tensor > 1 or params.precision != "fp32"),
    }  # fmt: skip
    return [fault for fault, found in refused.items() if found]


def _pipeline_faults(params: PretrainParams) -> dict[str, bool]:
    parallel, on = params.parallel, params.parallel.pipeline > 1
    return {
        "pipeline parallelism goes with zero_stage 0 or 1 (DeepSpeed's pipeline adds up whole gradients)": on and params.zero_stage > 1,
        "pipeline parallelism goes with no other: set parallel.tensor and parallel.sequence to 1": on
        and max(parallel.tensor, parallel.sequence) > 1,
        "pipeline parallelism is for objective causal: masked models are not rows of layers": on and params.objective != "causal",
        # DeepSpeed's optimizer of that case saves a state that it cannot load.
        "pipeline parallelism in bf16 needs zero_stage 1": on and params.precision == "bf16" and params.zero_stage == 0,
        "pipeline parallelism goes without fp16, whose loss scale over stages is not proven here": on and params.precision == "fp16",
        "pipeline parallelism goes without compile and offload": on and (params.compile or parallel.offload_optimizer),
    }


def clips_itself(params: PretrainParams) -> bool:
    """Whether the engine clips: plain fp32, where DeepSpeed would compute the norm a second time and not tell it."""
    return params.zero_stage == 0 and params.precision == "fp32"


def deepspeed_config(params: PretrainParams, world: int) -> dict[str, Any]:
    """DeepSpeed's config for a run.

    The learning rate is set by the loop at each step, so that it is a pure function of the step and needs no state. With tensor
    parallelism the batch of all ranks is left out, since DeepSpeed counts all of them as data-parallel in its check of it.

    Args:
        params: Of pretraining.
        world: Ranks.
    """
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": params.micro_batch,
        "gradient_accumulation_steps": params.accumulation(world // _per_model(params)),
        "gradient_clipping": 0.0 if clips_itself(params) else params.clip,
        "bf16": {"enabled": params.precision == "bf16"},
        "fp16": {"enabled": params.precision == "fp16", "loss_scale": 0, "initial_scale_power": params.initial_scale_power},
        "zero_optimization": _zero(params),
        "wall_clock_breakdown": False,
        "steps_per_print": 1 << 30,
    }
    if params.parallel.tensor > 1:
        # Logits over the whole vocabulary on each rank: the objective takes losses by token from them.
        config["tensor_parallel"] = {"autotp_size": params.parallel.tensor, "vocab_parallel_lm_head": False}
    if params.parallel.pipeline > 1:
        config["pipeline"] = {"activation_checkpoint_interval": int(params.activation_checkpointing), "use_reentrant": False}
    return config | _optimizer(params)


def _zero(params: PretrainParams) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": params.zero_stage}
    if params.parallel.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu"}
    if params.parallel.offload_params:
        zero["offload_param"] = {"device": "cpu"}
    return zero


def _optimizer(params: PretrainParams) -> dict[str, Any]:
    """torch_adam: DeepSpeed's own CPU Adam is compiled at first use, which takes minutes, with equal losses. LAMB and Muon come from
    optimizer.py.
    """
    if params.optimizer != "adamw":
        return {}
    shared = {"lr": params.learning_rate, "betas": [params.beta1, params.beta2], "eps": params.epsilon, "weight_decay": params.weight_decay}
    offloaded = {"zero_force_ds_cpu_optimizer": False} if params.parallel.offload_optimizer else {}
    return {"optimizer": {"type": "AdamW", "params": shared | {"torch_adam": True}}} | offloaded
