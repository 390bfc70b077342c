"""What supervised fine-tuning trains: all weights, or one of peft's adapters.

Source: DoRA, Liu et al. 2024, arXiv:2402.09353; prompt tuning, Lester et al. 2021, arXiv:2104.08691; prefix tuning, Li and Liang 2021,
arXiv:2101.00190; IA3, Liu et al. 2022, arXiv:2205.05638. peft has no bottleneck adapters, and trl's loss does not reach below its
LLaMA-Adapter.
"""

from __future__ import annotations

from typing import Any

from trainplane.align.adapter import lora_config
from trainplane.align.params import SFTParams

# Of a logit, before the first step. DoRA divides by norms; a prompt or prefix changes the model from the start.
MAX_START_DELTA = {"lora": 0.0, "qlora": 0.0, "ia3": 0.0, "dora": 1e-3}


def adapter_config(params: SFTParams) -> Any | None:
    """peft's config for the method; None where all weights are trained."""
    import peft

    task = {"task_type": "CAUSAL_LM"}
    match params.method:
        case "full":
            return None
        case "lora" | "qlora" | "dora":
            return lora_config(params, dora=params.method == "dora")
        case "ia3":
            return peft.IA3Config(**task)
        case "prompt":
            return peft.PromptTuningConfig(num_virtual_tokens=params.virtual_tokens, **task)
        case "prefix":
            return peft.PrefixTuningConfig(num_virtual_tokens=params.virtual_tokens, **task)
