"""Builds models: Llama-style from params, or from a folder that was saved."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from trainplane.params import ModelParams


def build(params: ModelParams, *, vocab_size: int, sequence_length: int, eos_id: int, pad_id: int, seed: int) -> Any:
    """A model with fresh weights (fp32)."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size, hidden_size=params.hidden_size, num_hidden_layers=params.n_layers, num_attention_heads=params.n_heads,
        num_key_value_heads=params.n_kv_heads, intermediate_size=params.intermediate_size, rms_norm_eps=params.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": params.rope_theta}, tie_word_embeddings=params.tie_embeddings,
        initializer_range=params.initializer_range, max_position_embeddings=sequence_length, bos_token_id=eos_id, eos_token_id=eos_id,
        pad_token_id=pad_id, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    return LlamaForCausalLM(config)


def load(folder: Path) -> Any:
    """A saved model (fp32)."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True)


def save_model(model: Any, folder: Path) -> None:
    """Writes config and safetensors, quietly; use_cache is switched on for those who generate."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.config.use_cache = True
    model.save_pretrained(folder)
    logging.enable_progress_bar()


def n_parameters(model: Any) -> int:
    """Trainable numbers; tied matrices count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def weights_digest(model: Any) -> str:
    """128-bit digest of the weights: names, shapes, types and bytes, in the order of the names."""
    import torch

    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        data = tensor.detach().cpu().contiguous()
        whole.update(f"{name} {tuple(data.shape)} {data.dtype}\n".encode())
        whole.update(data.flatten().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:32]
