"""Builds models: Llama-style from params, any architecture of transformers from its config, or from a folder that was saved."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from dataplane.errors import ModelMissing, ParamsError, did_you_mean
from trainplane.model.extend import extend, pieces_of_new_tokens
from trainplane.params import ModelParams
from trainplane.tokenizer import read_tokenizer

FAMILIES = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "pairs": "AutoModelForPreTraining"}
MAX_PACKING_DELTA = 1e-4  # of a logit, fp32


def build(
    params: ModelParams,
    *,
    vocab_size: int,
    sequence_length: int,
    eos_id: int,
    pad_id: int,
    seed: int,
    objective: str = "causal",
    tokenizer: Any = None,
) -> Any:
    """A model with fresh weights, or the checkpoint that is to be trained on, with rows for every token (fp32).

    Args:
        params: What it is.
        vocab_size: Of the tokenizer.
        sequence_length: Tokens that it has to take.
        eos_id: End of a document.
        pad_id: Padding.
        seed: Of fresh weights.
        objective: "causal", "masked", or "pairs" for a masked model that also tells whether a segment follows another.
        tokenizer: Of the project, from which a checkpoint's new rows are made.

    Raises:
        ParamsError: The config names no model of transformers, one without the head that the objective needs, or one in which the
            documents of a sequence feel each other.
    """
    import torch

    torch.manual_seed(seed)
    model = outline(
        params, vocab_size=vocab_size, sequence_length=sequence_length, eos_id=eos_id, pad_id=pad_id, objective=objective,
        tokenizer=tokenizer,
    )  # fmt: skip
    check_packing(model, objective)
    return model


def outline(
    params: ModelParams,
    *,
    vocab_size: int,
    sequence_length: int,
    eos_id: int,
    pad_id: int,
    objective: str = "causal",
    tokenizer: Any = None,
) -> Any:
    """The model, unchecked: under `torch.device("meta")` it has sizes and no weights.

    Raises:
        ParamsError: As `build`.
    """
    if params.checkpoint is not None:
        folder = Path(params.checkpoint)
        return with_vocabulary(load(folder, objective), vocab_size, folder, tokenizer)
    more = {"vocab_size": vocab_size, "bos_token_id": eos_id, "eos_token_id": eos_id, "pad_token_id": pad_id}
    if objective == "causal":
        more["use_cache"] = False
    values = _values(params.config) if params.config is not None else _llama(params, sequence_length)
    return _from_values(values | more, objective)


def _llama(params: ModelParams, sequence_length: int) -> dict[str, Any]:
    return {
        "model_type": "llama", "hidden_size": params.hidden_size, "num_hidden_layers": params.n_layers,
        "num_attention_heads": params.n_heads, "num_key_value_heads": params.n_kv_heads, "intermediate_size": params.intermediate_size,
        "rms_norm_eps": params.rms_norm_eps, "rope_parameters": {"rope_type": "default", "rope_theta": params.rope_theta},
        "tie_word_embeddings": params.tie_embeddings, "initializer_range": params.initializer_range,
        "max_position_embeddings": sequence_length,
    }  # fmt: skip


def _values(config: str | dict[str, Any]) -> dict[str, Any]:
    """The content of a config, given or in a file."""
    if isinstance(config, dict):
        return dict(config)
    path = Path(config)
    try:
        values = json.loads((path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParamsError(f"{path} is no config of a model: {error}", where="model.config", fix="give the path of a config.json") from None
    return dict(values)


def _from_values(values: dict[str, Any], objective: str) -> Any:
    """A model by the name of its architecture."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    kind = str(values.pop("model_type", ""))
    values.pop("transformers_version", None)
    values.pop("architectures", None)
    if kind not in CONFIG_MAPPING_NAMES:
        hint = did_you_mean(kind, list(CONFIG_MAPPING_NAMES))
        raise ParamsError(f"unknown model_type {kind!r}, {hint}", where="model.config", fix="name an architecture of transformers")
    family = getattr(transformers, FAMILIES[objective])
    try:
        model = family.from_config(transformers.AutoConfig.for_model(kind, **values), attn_implementation="sdpa")
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise ParamsError(
            f"{kind} cannot be built for the {objective} objective: {first}", where="model.config", fix="name another"
        ) from None
    return pool_each_place(model) if objective == "pairs" else model


def pool_each_place(model: Any) -> Any:
    """Has the head of pairs answer at every place, and not at a sequence's first alone: sequences hold several documents.

    Raises:
        ParamsError: The model has no such head, or pools otherwise than BERT.
    """
    pooler: Any = getattr(model.base_model, "pooler", None)
    if not (hasattr(getattr(model, "cls", None), "seq_relationship") and hasattr(pooler, "dense") and hasattr(pooler, "activation")):
        raise ParamsError(
            f"{type(model).__name__} has no head for pairs as BERT's is",
            where="pretrain.next_sentence",
            fix="take model_type bert, or set it to false",
        )
    # By instance: names and weights stay those that transformers loads.
    pooler.forward = lambda hidden_BTD: pooler.activation(pooler.dense(hidden_BTD))
    return model


def load(folder: Path, objective: str = "causal") -> Any:
    """A saved model (fp32).

    Raises:
        ModelMissing: The folder holds an adapter alone.
    """
    import torch
    import transformers

    if (folder / "adapter").is_dir() and not (folder / "config.json").is_file():
        raise ModelMissing(
            "there is only an adapter that cannot be merged (prompt or prefix tuning)",
            where=str(folder),
            fix="take a method that merges, such as sft.method: lora, or use trainplane.align.adapter.load_adapted with its base",
        )

    family = getattr(transformers, FAMILIES[objective])
    model = family.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True)
    return pool_each_place(model) if objective == "pairs" else model


def with_vocabulary(model: Any, vocab_size: int, folder: Path, tokenizer: Any = None) -> Any:
    """The model with a row for each token. Rows that a checkpoint has beyond the tokenizer's stay.

    New rows begin at the mean of the tokens that their text was made of, where the model's folder has its tokenizer and the new one is
    given, and at the mean of all rows elsewhere: so no new token is likelier than the old ones are.

    Raises:
        ParamsError: The given tokenizer has other tokens for the ids of the model's.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer is not None and (folder / "tokenizer.json").exists():
        old = read_tokenizer(folder)
        if pieces := pieces_of_new_tokens(old, tokenizer):
            extend(model, pieces, first=len(old))
    elif vocab_size > rows:
        extend(model, [[]] * (vocab_size - rows))
    return model


def check_packing(model: Any, objective: str = "causal") -> float:
    """Proves that documents in one sequence do not feel each other: two documents packed give the logits of each alone.

    Returns:
        The largest difference of a logit.

    Raises:
        ParamsError: They do, so that this architecture cannot be trained on packed sequences.
    """
    import torch

    from trainplane.model.masking import block_causal_mask, block_mask
    from trainplane.model.objective import token_logits

    first, second = 5, 7
    draw = torch.Generator().manual_seed(0)
    ids_1T = torch.randint(0, model.config.vocab_size, (1, first + second), generator=draw)
    positions_1T = torch.cat([torch.arange(first), torch.arange(second)])[None]
    documents_1T = torch.tensor([[0] * first + [1] * second])
    mask = (block_causal_mask if objective == "causal" else block_mask)(documents_1T)
    more = {"use_cache": False} if objective == "causal" else {}
    was_training = model.training
    model.eval()
    with torch.no_grad():
        packed = token_logits(model(input_ids=ids_1T, attention_mask=mask, position_ids=positions_1T, **more))[0]
        parts = (slice(0, first), slice(first, None))
        alone = torch.cat([token_logits(model(input_ids=ids_1T[:, part], **more))[0] for part in parts])
    model.train(was_training)
    delta = float((packed - alone).abs().max())
    if not delta <= MAX_PACKING_DELTA * max(1.0, float(alone.abs().max())):
        raise ParamsError(
            f"documents in one sequence change each other's logits by up to {delta:.3g} in {type(model).__name__}",
            where="model",
            fix="take an architecture with attention alone (Llama, Qwen3, ...), which heeds the mask and position_ids",
        )
    return delta


def save_model(model: Any, folder: Path) -> None:
    """Writes config and safetensors, quietly; use_cache is switched on for those who generate."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = True
    model.save_pretrained(folder)
    logging.enable_progress_bar()


def n_parameters_without_embedding(model: Any) -> int:
    """Numbers outside the input embedding; an output matrix that is tied to it counts once, as the output's."""
    embedding = model.get_input_embeddings().weight
    output = model.get_output_embeddings()
    tied = output is not None and output.weight is embedding
    return n_parameters(model) - (0 if tied else embedding.numel())


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
