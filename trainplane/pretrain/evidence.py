"""What is known of a spike: step, sequences, documents with their share of the loss, and the norms of each layer. One JSON file a spike."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trainplane.data.packed import I64, Batch, Sequences
from trainplane.pretrain.engine import Engine, StepResult
from trainplane.pretrain.parts import holders, parts_of_ranks
from trainplane.pretrain.ranks import barrier, gather, rank
from trainplane.pretrain.stability import Intervention

FOLDER = "evidence"
SHOWN_DOCUMENTS = 50
LAYER = re.compile(r"^(.*?\.\d+)(\.|$)")


def write_evidence(folder: Path, engine: Engine, packed: Sequences, seq_ids: I64, result: StepResult, made: Intervention) -> None:
    """Writes evidence/step_N.json below the run's folder, once the engine is back at its last checkpoint.

    The norms are those of that checkpoint's weights on the step's batch: they are computed anew, with detection of what is not finite on.
    Every rank has to call.
    """
    shared = engine.layout.tensor > 1 or engine.layout.pipeline > 1
    found = rerun(engine, packed.batch(seq_ids), made.spike) if shared or rank() == 0 else {}
    if rank() == 0:
        usual, rows = documents(packed, seq_ids, result)
        known = {
            "step": made.spike, "reason": made.reason, "loss": result.loss, "grad_norm": result.grad_norm, "usual_document_loss": usual,
            "from_step": made.from_step, "sequences_skipped": made.sequences, "lr_scale": made.lr_scale,
            "sequences": [{"seq_id": int(i), "loss": loss} for i, loss in zip(seq_ids, result.losses, strict=True)],
            "documents": rows[:SHOWN_DOCUMENTS], **found,
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
    """Runs the batch of a step forward and backward without an update, looking for what is not finite.

    Where ranks share the layers, all of them have to ask, with the same batch.

    Returns:
        "anomaly": where the first NaN or infinity arose, None where there was none; "layers": the norms of weights and gradients of each
        layer. Under ZeRO 3 nothing is computed, since the ranks have the weights only together.
    """
    if engine.params.zero_stage == 3:
        return {"anomaly": None, "layers": []}
    batch = engine.objective.shown(batch.pieces(engine.params.length_of_step(step, batch.input_ids.shape[1])), step)
    rows = engine.params.micro_batch * batch.n_pieces
    parts = [batch.part(slice(start, start + rows)) for start in range(0, len(batch.seq_ids), rows)]
    if engine.layout.tensor > 1 or engine.layout.pipeline > 1:
        return _rerun_together(engine, parts, max(1, batch.n_labels()))
    import torch

    named = [(name, p) for name, p in engine.deepspeed.module.named_parameters() if p.requires_grad]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.set_detect_anomaly(True):
                gradients = _gradients(engine, [p for _, p in named], parts, max(1, batch.n_labels()))
    except RuntimeError as error:
        return {"anomaly": str(error), "layers": []}
    return {"anomaly": None, "layers": _rows(_squares(named, gradients))}


def _gradients(engine: Engine, parameters: list[Any], parts: list[Batch], n_labels: int) -> list[Any]:
    """Gradients of a batch's mean loss, in float32; DeepSpeed sees nothing of them."""
    import torch

    totals = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for part in parts:
        loss = engine.token_losses(part, engine.deepspeed.module).sum() / n_labels
        for total, gradient in zip(totals, torch.autograd.grad(loss, parameters), strict=True):
            total += gradient
    return totals


def _rerun_together(engine: Engine, parts: list[Batch], n_labels: int) -> dict[str, Any]:
    """As `rerun`, on ranks that share the layers.

    PyTorch's detection would end one rank while the others wait for it. Here every rank goes on to the end, and what is not finite is
    found in what the modules give and in the gradients.
    """
    mine = {id(p) for p in engine.deepspeed.module.parameters()}
    named = [(name, p) for name, p in engine.model.named_parameters() if p.requires_grad and id(p) in mine]
    parameters = [p for _, p in named]
    with _not_finite(engine.model) as seen:
        if engine.pipeline is None:
            gradients = _gradients(engine, parameters, parts, n_labels)
        else:
            gradients = engine.pipeline.summed(parameters, parts, n_labels)
    held = holders(parts_of_ranks(engine))
    here = engine.layout.rank % (engine.layout.tensor * engine.layout.pipeline)
    counted = [number for number, (name, _) in enumerate(named) if here in [rank for rank, _ in held[name]]]
    squares = _squares([named[i] for i in counted], [gradients[i] for i in counted])
    told = gather((seen, squares))[: engine.layout.tensor * engine.layout.pipeline]
    layers: dict[str, list[float]] = {}
    for _, of_rank in told:
        for name, (weights, grads) in of_rank.items():
            of_layer = layers.setdefault(name, [0.0, 0.0])
            of_layer[0], of_layer[1] = of_layer[0] + weights, of_layer[1] + grads
    broken = [f"the output of {name} is not finite" for found, _ in told for name in found[:1]]
    # Backward, the last layer comes first.
    broken += [f"the gradient of {name} is not finite" for name, (_, grads) in reversed(layers.items()) if not math.isfinite(grads)]
    return {"anomaly": broken[0] if broken else None, "layers": _rows(layers)}


@contextmanager
def _not_finite(model: Any) -> Iterator[list[str]]:
    """Collects the modules whose output holds NaN or infinity, as they are called: what is inside another comes before it."""
    import torch

    found: list[str] = []

    def look(name: str, output: Any) -> None:
        for value in output if isinstance(output, tuple) else (output,):
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
                found.append(name)

    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: look(name, output)) for name, module in model.named_modules() if name
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _squares(named: list[tuple[str, Any]], gradients: list[Any]) -> dict[str, tuple[float, float]]:
    """Squared norms of weights and gradients by layer, in the order of the model."""
    squares: dict[str, tuple[float, float]] = {}
    for (name, parameter), gradient in zip(named, gradients, strict=True):
        found = LAYER.match(name)
        layer = found[1] if found else name
        weights, grads = squares.get(layer, (0.0, 0.0))
        squares[layer] = weights + float(parameter.detach().float().square().sum()), grads + float(gradient.square().sum())
    return squares


def _rows(squares: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    return [{"layer": name, "weight_norm": math.sqrt(weights), "grad_norm": math.sqrt(grads)} for name, (weights, grads) in squares.items()]


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
