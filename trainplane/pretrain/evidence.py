"""What is known of a spike: step, sequences, documents with their share of the loss, and the norms of each layer. One JSON file a spike."""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from trainplane.data.packed import I64, Batch, Sequences
from trainplane.pretrain.engine import Engine, StepResult
from trainplane.pretrain.ranks import barrier, rank
from trainplane.pretrain.stability import Intervention

FOLDER = "evidence"
SHOWN_DOCUMENTS = 50
LAYER = re.compile(r"^(.*?\.\d+)(\.|$)")


def write_evidence(folder: Path, engine: Engine, packed: Sequences, seq_ids: I64, result: StepResult, made: Intervention) -> None:
    """Writes evidence/step_N.json below the run's folder, once the engine is back at its last checkpoint.

    The norms are those of that checkpoint's weights on the step's batch: they are computed anew, with torch's anomaly detection on.
    """
    if rank() == 0:
        usual, rows = documents(packed, seq_ids, result)
        known = {
            "step": made.spike, "reason": made.reason, "loss": result.loss, "grad_norm": result.grad_norm, "usual_document_loss": usual,
            "from_step": made.from_step, "sequences_skipped": made.sequences, "lr_scale": made.lr_scale,
            "sequences": [{"seq_id": int(i), "loss": loss} for i, loss in zip(seq_ids, result.losses, strict=True)],
            "documents": rows[:SHOWN_DOCUMENTS], **rerun(engine, packed.batch(seq_ids), made.spike),
        }  # fmt: skip
        path = folder / FOLDER / f"step_{made.spike:08d}.json"
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps(_plain(known), indent=1) + "\n", encoding="utf-8")
        partial.replace(path)
    barrier()


def documents(packed: Sequences, seq_ids: I64, result: StepResult) -> tuple[float, list[dict[str, Any]]]:
    """The median of the documents' mean losses, and the documents, those that added most to the loss first.

    A document's share is its part of the step's summed loss; its excess is what it has above the median, in nats.
    """
    means = [mean for sequence in result.document_losses for mean in sequence if math.isfinite(mean)]
    usual = float(np.median(means)) if means else math.nan
    rows = []
    for seq_id, losses, spans in zip(seq_ids, result.document_losses, packed.spans(seq_ids), strict=True):
        for loss, span in zip(losses, spans, strict=True):
            tokens = max(0, span["length"] - 1)
            rows.append({
                "doc_id": span["doc_id"], "seq_id": int(seq_id), "tokens": tokens, "loss": loss, "share": loss * tokens,
                "excess": (loss - usual) * tokens,
            })  # fmt: skip
    total = sum(row["share"] for row in rows)
    for row in rows:
        row["share"] = row["share"] / total if total else 0.0
    return usual, sorted(rows, key=lambda row: -row["excess"] if math.isfinite(row["excess"]) else -math.inf)


def rerun(engine: Engine, batch: Batch, step: int) -> dict[str, Any]:
    """Runs the batch of a step forward and backward without an update, with anomaly detection on.

    Returns:
        "anomaly": where the first NaN arose, None where there was none; "layers": the norms of weights and gradients of each layer. Under
        ZeRO 3 and in a pipeline no rank has all layers, and nothing is computed.
    """
    import torch

    if engine.params.zero_stage == 3 or engine.pipeline is not None:
        return {"anomaly": None, "layers": []}
    named = [(name, p) for name, p in engine.deepspeed.module.named_parameters() if p.requires_grad]
    batch = engine.objective.shown(batch.pieces(engine.params.length_of_step(step, batch.input_ids.shape[1])), step)
    rows = engine.params.micro_batch * batch.n_pieces
    gradients: list[Any] = [torch.zeros_like(p, dtype=torch.float32) for _, p in named]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.set_detect_anomaly(True):
                for start in range(0, len(batch.seq_ids), rows):
                    part = batch.part(slice(start, start + rows))
                    loss = engine.token_losses(part, engine.deepspeed.module).sum() / max(1, batch.n_labels())
                    for total, gradient in zip(gradients, torch.autograd.grad(loss, [p for _, p in named]), strict=True):
                        total += gradient
    except RuntimeError as error:
        return {"anomaly": str(error), "layers": []}
    return {"anomaly": None, "layers": _norms(named, gradients)}


def _norms(named: list[tuple[str, Any]], gradients: list[Any]) -> list[dict[str, Any]]:
    """Norms by layer, in the order of the model."""
    squares: dict[str, list[float]] = {}
    for (name, parameter), gradient in zip(named, gradients, strict=True):
        found = LAYER.match(name)
        of_layer = squares.setdefault(found[1] if found else name, [0.0, 0.0])
        of_layer[0] += float(parameter.detach().float().square().sum())
        of_layer[1] += float(gradient.square().sum())
    return [{"layer": name, "weight_norm": math.sqrt(weights), "grad_norm": math.sqrt(grads)} for name, (weights, grads) in squares.items()]


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
