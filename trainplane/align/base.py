"""The very base that a method trains on, and the one that its adapter is merged onto.

Source: QLoRA, Dettmers et al. 2023, arXiv:2305.14314, section 3 (NF4). peft issues 1043, 2321 and 2105: an adapter that was trained on
4-bit weights and is merged onto the weights they were made from gives another model.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault
from trainplane.model.build import load


def base_of(method: str, folder: Path) -> Any:
    """The model that the method trains on: its weights in NF4 for qlora, as they are otherwise.

    Raises:
        EnvironmentFault: qlora without bitsandbytes.
    """
    return _load_nf4(folder) if method == "qlora" else load(folder)


def merge_base_of(method: str, folder: Path) -> Any:
    """The same in fp32, to add the adapter to: for qlora what the 4-bit numbers stand for, not what they were made from."""
    plain = load(folder)
    if method == "qlora":
        import torch

        plain.load_state_dict(_load_nf4(folder).dequantize(dtype=torch.float32).state_dict())
    return plain


def _load_nf4(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    if importlib.util.find_spec("bitsandbytes") is None:
        raise EnvironmentFault("qlora needs bitsandbytes", where="sft.method", fix='pip install "terraplane[train]", or take lora')
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True, quantization_config=config
    )
    for module in model.modules():
        # On some CPUs the layers would compute in bfloat16, in evaluation mode alone: other numbers than those that are trained.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model
