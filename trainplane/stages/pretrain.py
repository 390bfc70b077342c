"""pretrain: packed -> models/pretrain, consumed, checkpoints."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import schema
from dataplane.lineage.record import StageRun, stage_main
from trainplane.data.packed import Packed
from trainplane.model.build import build, n_parameters, save_model, weights_digest
from trainplane.params import ModelParams, PretrainParams
from trainplane.pretrain.defaults import read
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.loop import HeldOut, Trainer
from trainplane.pretrain.metrics import write_curve
from trainplane.tokenizer import load_tokenizer

FOLDER = Path("models/pretrain")
TOKENIZER = Path("models/tokenizer")
PLOT = Path("plots/pretrain.csv")


def _held_out(run: StageRun, params: PretrainParams, sequence_length: int, tokenizer: Any) -> HeldOut | None:
    """The first held-out documents by doc_id."""
    ids = sorted(run.inputs["held_out"].to_table(columns=["doc_id"]).column("doc_id").to_pylist())[: params.held_out_documents]
    if not ids:
        return None
    rows = run.inputs["tokens"].to_table(columns=["doc_id", "input_ids"], among={"doc_id": ids}).sort_by("doc_id")
    return HeldOut.of(rows.column("input_ids").to_pylist(), sequence_length, tokenizer.eos_token_id, tokenizer.pad_token_id)


def _save(model: Any, record: dict[str, Any]) -> None:
    """Replaces models/pretrain in one rename."""
    partial = FOLDER.with_name(f"{FOLDER.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    save_model(model, partial)
    for path in TOKENIZER.iterdir():
        shutil.copyfile(path, partial / path.name)
    (partial / "run.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


def _consumed(entries: list[dict[str, Any]], run_id: str) -> Iterator[pa.RecordBatch]:
    columns = [name for name in schema.CONSUMED.names if name not in ("run_id", "stage")]
    rows = [{"run_id": run_id, "stage": "pretrain"} | {name: entry[name] for name in columns} for entry in entries]
    yield pa.RecordBatch.from_pylist(rows, schema=schema.CONSUMED)


def _curve(entries: list[dict[str, Any]], trainer: Trainer, tokens_per_step: int) -> list[dict[str, Any]]:
    """Rows of the plot. Times are known for the steps of this process alone, and are no part of any digest."""
    return [
        {
            "step": entry["step"], "loss": entry["loss"], "held_out_loss": entry.get("held_out_loss", ""),
            "learning_rate": entry["learning_rate"], "grad_norm": entry["grad_norm"],
            "tokens_per_s": round(tokens_per_step / trainer.seconds[entry["step"]]) if entry["step"] in trainer.seconds else "",
        }
        for entry in entries
    ]  # fmt: skip


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("pretrain", inputs=("packed", "held_out", "tokens"), params=("model", "pretrain")) as run:
        model_params = ModelParams.parse(run.params["model"], where="model")
        packed = Packed(run.inputs["packed"])
        tokenizer = load_tokenizer(TOKENIZER)
        params = read(run.params["pretrain"], model_params, len(tokenizer), packed.sequence_length)
        model = build(
            model_params, vocab_size=len(tokenizer), sequence_length=packed.sequence_length, eos_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id, seed=params.seed, objective=params.objective,
        )  # fmt: skip
        engine = Engine(model, params)
        held_out = _held_out(run, params, packed.sequence_length, tokenizer)
        trainer = Trainer(engine, packed, params, run.root / "journal" / "pretrain" / run.identity(), held_out)
        entries = trainer.run()
        digest = weights_digest(model)
        record = {
            "stage": "pretrain", "digest": digest, "parent": None, "data_digest": run.inputs["packed"].digest, "step": params.steps,
            "chain_hash": entries[-1]["chain_hash"], "run_id": run.run_id, "seed": params.seed,
        }  # fmt: skip
        _save(model, {key: value for key, value in record.items() if key != "run_id"})
        run.write("consumed", schema.CONSUMED, _consumed(entries, run.run_id))
        checkpoint = {name: record.get(name) for name in schema.CHECKPOINTS.names} | {"path": FOLDER.as_posix()}
        run.write("checkpoints", schema.CHECKPOINTS, [pa.RecordBatch.from_pylist([checkpoint], schema=schema.CHECKPOINTS)])
        write_curve(run.root / PLOT, _curve(entries, trainer, params.global_batch * packed.sequence_length))
        run.metrics({
            "parameters": n_parameters(model), "digest": digest, "steps": params.steps,
            "epochs": params.steps * params.global_batch / packed.n_sequences,
            "tokens": params.steps * params.global_batch * packed.sequence_length,
            "first_loss": entries[0]["loss"], "ln_vocabulary": math.log(len(tokenizer)), "last_loss": entries[-1]["loss"],
            "held_out_loss": {str(e["step"]): e["held_out_loss"] for e in entries if "held_out_loss" in e},
        })  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
