"""The LoRA adapter of both stages: put on, checked, merged, and saved with all that a later stage needs.

Source: LoRA, Hu et al. 2021, arXiv:2106.09685, section 4.1 (B = 0 at the start, so that training begins at the base model).
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import ModelMissing
from trainplane.align.params import AlignParams
from trainplane.data.chat import Example, write_examples
from trainplane.errors import TrainingError
from trainplane.model.build import load, save_model

MAX_MERGE_DELTA = 1e-4  # of a logit, in fp32
PROBE_TOKENS = 64


def lora_config(params: AlignParams) -> Any:
    """LoRA on every linear layer but the output's, without dropout."""
    from peft import LoraConfig

    return LoraConfig(
        r=params.lora_rank, lora_alpha=params.lora_alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
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
        logits = model(
            input_ids=ids_1T.to(model.device), attention_mask=torch.ones_like(ids_1T, device=model.device), use_cache=False
        ).logits
    model.train(was_training)
    return logits.float().cpu()


def check_starts_at_base(model: Any, base_logits: Any) -> None:
    """An adapter that was just put on changes nothing.

    Raises:
        TrainingError: It does.
    """
    if (delta := float((probe(model) - base_logits).abs().max())) > 0:
        raise TrainingError(
            f"the fresh adapter changes logits by up to {delta:.3g}, expected 0",
            where="lora",
            fix="report it: this is a fault of the stage",
        )


def merge(model: Any, parent: Path) -> tuple[Any, float]:
    """The base model with the adapter added to its weights (fp32), and the largest difference of a logit.

    The weights go into a model that is loaded afresh: trl binds its own forward to the model it trains, and a copy of that model
    would go on answering with the original's weights, so that the check compared the model with itself.

    Args:
        model: The base with its adapter.
        parent: Folder of the base.

    Raises:
        TrainingError: The merged model says something else than the base with its adapter.
    """
    before = probe(model)
    merged = load(parent)
    merged.load_state_dict(copy.deepcopy(model).merge_and_unload().state_dict())
    delta = float((probe(merged) - before).abs().max())
    if not delta <= MAX_MERGE_DELTA:
        raise TrainingError(
            f"merging the adapter moves a logit by {delta:.3g}, at most {MAX_MERGE_DELTA} is allowed",
            where="lora",
            fix="lower the learning rate",
        )
    return merged, delta


def save(
    folder: Path,
    *,
    parent: Path,
    merged: Any,
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
        merged: The whole model.
        adapted: The base with its adapter, of which the adapter is saved beside the model.
        record: For run.json.
        ledger: What the steps consumed; moved here.
        stop_ids: Tokens at which generation stops.
        held_out: Examples that no step saw, for the evaluation to ask.
        beside: Files to keep beside the model.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    if merged.can_generate():
        merged.generation_config.eos_token_id = stop_ids
    save_model(merged, partial)
    for path in sorted(parent.glob("*token*.json")):
        shutil.copyfile(path, partial / path.name)
    _save_adapter(adapted, partial / "adapter")
    for path in beside:
        shutil.copyfile(path, partial / path.name)
    if held_out:
        write_examples(held_out, partial / "held_out.jsonl")
    shutil.move(ledger, partial / "consumed.jsonl")
    (partial / "run.json").write_text(json.dumps(dict(record), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _save_adapter(adapted: Any, folder: Path) -> None:
    """Writes the adapter, without the path of this machine's base model, which would differ between equal runs."""
    for config in adapted.peft_config.values():
        config.base_model_name_or_path = None
        if isinstance(config.target_modules, set):
            config.target_modules = sorted(config.target_modules)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
