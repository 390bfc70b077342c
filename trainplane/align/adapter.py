"""The adapter of a stage: put on, checked, merged, and saved with all that a later stage needs.

Source: LoRA, Hu et al. 2021, arXiv:2106.09685, section 4.1 (B = 0 at the start, so that training begins at the base model).
"""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import ModelMissing
from trainplane.align.base import base_of, merge_base_of
from trainplane.align.params import AlignParams
from trainplane.data.chat import Example, write_examples
from trainplane.errors import TrainingError
from trainplane.model.build import load, save_model, weights_digest

MAX_MERGE_DELTA = 1e-4  # of a logit, in fp32
PROBE_TOKENS = 64
BASE = "base.json"


def lora_config(params: AlignParams, *, dora: bool = False) -> Any:
    """LoRA on every linear layer but the output's, without dropout; DoRA learns each column's length beside it."""
    from peft import LoraConfig

    return LoraConfig(
        r=params.lora_rank, lora_alpha=params.lora_alpha, lora_dropout=0.0, target_modules="all-linear", use_dora=dora,
        task_type="CAUSAL_LM",
    )  # fmt: skip


def read_run(folder: Path, stage: str) -> dict[str, Any]:
    """The record that a stage left beside its model.

    Raises:
        ModelMissing: There is no such model.
    """
    try:
        record: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        record["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelMissing(f"{folder} holds no model with its run.json", where=stage, fix=f"dvc repro {folder.name}") from None
    return record


def probe(model: Any) -> Any:
    """Logits of a fixed row of tokens, float32 [1, t, v]: what two models are compared by."""
    import torch

    generator = torch.Generator().manual_seed(0)
    length = min(PROBE_TOKENS, model.config.max_position_embeddings)
    ids_1T = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits_1TV = model(
            input_ids=ids_1T.to(model.device), attention_mask=torch.ones_like(ids_1T, device=model.device), use_cache=False
        ).logits
    model.train(was_training)
    return logits_1TV[:, -length:].float().cpu()  # behind a prompt's virtual tokens


def check_starts_at_base(model: Any, base_logits: Any, *, allowed: float = 0.0) -> None:
    """An adapter that was just put on changes nothing.

    Args:
        model: The base with its adapter.
        base_logits: What `probe` said of the base.
        allowed: Largest difference of a logit.

    Raises:
        TrainingError: It does.
    """
    if not (delta := float((probe(model) - base_logits).abs().max())) <= allowed:
        raise TrainingError(
            f"the fresh adapter changes logits by up to {delta:.3g}, expected {allowed:g} at most",
            where="adapter",
            fix="report it: this is a fault of the stage",
        )


def merge(model: Any, parent: Path, method: str = "lora") -> tuple[Any, float]:
    """The base model with the adapter added to its weights (fp32), and the largest difference of a logit.

    The weights go into a model that is loaded afresh: trl binds its own forward to the model it trains, and a copy of that model
    would go on answering with the original's weights, so that the check compared the model with itself.

    Args:
        model: The base with its adapter, or the model whose weights were all trained.
        parent: Folder of the base.
        method: By which it was trained; says which numbers the base's weights were.

    Raises:
        TrainingError: The merged model says something else than the base with its adapter.
    """
    before = probe(model)
    merged = _with_weights_of(model, parent, method)
    delta = float((probe(merged) - before).abs().max())
    if not delta <= MAX_MERGE_DELTA:
        raise TrainingError(
            f"merging the adapter moves a logit by {delta:.3g}, at most {MAX_MERGE_DELTA} is allowed",
            where=method,
            fix="lower the learning rate",
        )
    return merged, delta


def _with_weights_of(model: Any, parent: Path, method: str) -> Any:
    from peft import PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    merged = merge_base_of(method, parent)
    if not isinstance(model, PeftModel):
        merged.load_state_dict(model.state_dict())
        return merged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that it deprecated
        fresh = get_peft_model(merged, copy.deepcopy(model.active_peft_config))
    set_peft_model_state_dict(fresh, get_peft_model_state_dict(model))
    return fresh.merge_and_unload()


def save(
    folder: Path,
    *,
    parent: Path,
    merged: Any | None,
    adapted: Any,
    record: Mapping[str, Any],
    ledger: Path,
    stop_ids: list[int],
    held_out: Sequence[Example] = (),
    beside: Sequence[Path] = (),
) -> None:
    """Replaces a model's folder in one rename.

    Args:
        folder: Of the model.
        parent: Folder of the model it comes from, for the tokenizer.
        merged: The whole model; None where the method's adapter cannot be merged, so that it is saved alone.
        adapted: The base with its adapter, of which the adapter is saved beside the model; the model itself where all of it was trained.
        record: For run.json; its `parent` is the base's digest, and its `method`, where it has one, says how the adapter was trained.
        ledger: What the steps consumed; moved here.
        stop_ids: Tokens at which generation stops.
        held_out: Examples that no step saw, for the evaluation to ask.
        beside: Files to keep beside the model.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if merged is not None:
        if merged.can_generate():
            merged.generation_config.eos_token_id = stop_ids
        save_model(merged, partial)
    for path in sorted(parent.glob("*token*.json")) + sorted(parent.glob("*.jinja")):
        shutil.copyfile(path, partial / path.name)
    if hasattr(adapted, "peft_config"):
        save_adapter(adapted, partial / "adapter", base_digest=record["parent"], method=record.get("method", "lora"))
    for path in beside:
        shutil.copyfile(path, partial / path.name)
    if held_out:
        write_examples(held_out, partial / "held_out.jsonl")
    shutil.move(ledger, partial / "consumed.jsonl")
    (partial / "run.json").write_text(json.dumps(dict(record), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def save_adapter(adapted: Any, folder: Path, *, base_digest: str, method: str) -> None:
    """Writes the adapter; base.json names its base.

    peft would write the path of this machine's base model, which differs between equal runs.
    """
    for config in adapted.peft_config.values():
        config.base_model_name_or_path = None
        for name in ("target_modules", "feedforward_modules"):
            if isinstance(getattr(config, name, None), set):
                setattr(config, name, sorted(getattr(config, name)))
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    (folder / BASE).write_text(json.dumps({"digest": base_digest, "method": method}) + "\n", encoding="utf-8")


def load_adapted(base: Path, folder: Path) -> Any:
    """A base with an adapter that was trained on it.

    Args:
        base: Folder of the base.
        folder: Of the adapter, as `save_adapter` left it.

    Raises:
        ModelMissing: There is no such adapter.
        TrainingError: It was trained on another base.
    """
    from peft import PeftModel

    try:
        trained_on = json.loads((folder / BASE).read_text(encoding="utf-8"))
        wanted, method = str(trained_on["digest"]), str(trained_on["method"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelMissing(f"{folder} holds no adapter with its {BASE}", where="adapter", fix="train it again") from None
    if (found := weights_digest(load(base))) != wanted:
        raise TrainingError(
            f"the adapter was trained on a base with digest {wanted}, {base} has {found}", where=str(folder), fix="give it its own base"
        )
    return PeftModel.from_pretrained(base_of(method, base), folder)
