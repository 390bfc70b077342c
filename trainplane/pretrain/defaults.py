"""What is `auto` in the params of pretraining, derived from the size of the model.

Source: OLMo-core's model ladder (`model_ladder/wsds_chinchilla_run_configurator.py`), for AdamW and up to about a billion parameters:
learning rate and batch as powers of the size, warm-up over as many tokens as there are parameters, 20 tokens a parameter. N counts all
parameters but the input embedding. Hoffmann et al. 2022, arXiv:2203.15556, for the 20 tokens (Besiroglu et al. 2024, arXiv:2404.10102,
on why its rounded fit is not used).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataplane.params import Params
from trainplane.params import ModelParams, PretrainParams

AUTO = "auto"
TOKENS_PER_PARAMETER = 20
REFERENCE_PARAMETERS = 108e6
REFERENCE_RATE = 0.0047 / 2  # halved for runs longer than the ladder's
REFERENCE_BATCH_TOKENS = 2048 * 160
LARGE_BATCH_TOKENS = 524_288


def resolved(values: Mapping[str, Any] | None, *, n_parameters: int, sequence_length: int) -> PretrainParams:
    """The params with a number for each `auto`.

    Args:
        values: The section `pretrain` of params.yaml.
        n_parameters: Of the model, without its input embedding.
        sequence_length: Tokens of a packed sequence.

    Raises:
        ParamsError: As `PretrainParams.parse`.
    """
    given = dict(values or {})
    wanted = {name for name, value in given.items() if value == AUTO}
    known = derived(given, n_parameters, sequence_length)
    return PretrainParams.parse(
        {name: known.get(name, value) if name in wanted else value for name, value in given.items()}, where="pretrain"
    )


def read(values: Mapping[str, Any] | None, model: ModelParams, vocab_size: int, sequence_length: int) -> PretrainParams:
    """The params of pretraining this model, with a number for each `auto`.

    Args:
        values: The section `pretrain` of params.yaml.
        model: What is trained; built without weights where a number depends on its size.
        vocab_size: Of the tokenizer.
        sequence_length: Tokens of a packed sequence.
    """
    if AUTO not in (values or {}).values():
        return PretrainParams.parse(values, where="pretrain")
    given = values or {}
    objective = "pairs" if given.get("next_sentence") else str(given.get("objective", _default("objective")))
    return resolved(values, n_parameters=size(model, vocab_size, sequence_length, objective), sequence_length=sequence_length)


def size(model: ModelParams, vocab_size: int, sequence_length: int, objective: str) -> int:
    """Parameters of a model without its input embedding; no weights are made."""
    import torch

    from trainplane.model.build import n_parameters_without_embedding, outline

    with torch.device("meta"):
        sketch = outline(model, vocab_size=vocab_size, sequence_length=sequence_length, eos_id=0, pad_id=1, objective=objective)
    return n_parameters_without_embedding(sketch)


def derived(given: Mapping[str, Any], n_parameters: int, sequence_length: int) -> dict[str, float | int]:
    """Every number that `auto` can stand for; what is given as a number counts for what depends on it.

    Args:
        given: The section `pretrain`, of which micro_batch and global_batch count.
        n_parameters: Of the model, without its input embedding.
        sequence_length: Tokens of a packed sequence.
    """
    scale = n_parameters / REFERENCE_PARAMETERS
    micro = int(given.get("micro_batch", _default("micro_batch")))
    wanted = round(REFERENCE_BATCH_TOKENS * scale ** (2 / 3) / sequence_length / micro) * micro
    given_batch = given.get("global_batch", _default("global_batch"))
    batch = max(micro, wanted) if given_batch == AUTO else int(given_batch)
    tokens = batch * sequence_length
    return {
        "learning_rate": float(f"{REFERENCE_RATE * scale ** (-1 / 3):.3g}"),
        "global_batch": batch,
        "steps": max(1, round(TOKENS_PER_PARAMETER * n_parameters / tokens)),
        "warmup_steps": max(1, round(n_parameters / tokens)),
        "beta2": 0.95 if tokens >= LARGE_BATCH_TOKENS else 0.99,
        "z_loss": 1e-5,
    }


def _default(name: str) -> Any:
    cls: type[Params] = PretrainParams
    return cls.model_fields[name].default
