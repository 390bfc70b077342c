"""pretrain: packed -> models/pretrain, consumed, checkpoints.

Rank 0 is the stage: it holds the lock and writes tables, model and metrics. The other ranks are told what to train on, and train;
pretrain/ranks.py says who starts them.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.lineage.record import StageRun, stage_main
from dataplane.settings import TrainingSettings
from dataplane.snapshot import Snapshot
from trainplane.data.packed import Packed
from trainplane.model.build import build, n_parameters, save_model, weights_digest
from trainplane.params import ModelParams, PretrainParams
from trainplane.pretrain import evidence
from trainplane.pretrain.defaults import read
from trainplane.pretrain.engine import Engine, start_processes
from trainplane.pretrain.export import check_export, whole_weights
from trainplane.pretrain.loop import HeldOut, Trainer
from trainplane.pretrain.metrics import write_curve
from trainplane.pretrain.ranks import broadcast, die_with_parent, rank, started
from trainplane.tokenizer import load_tokenizer

FOLDER = Path("models/pretrain")
TOKENIZER = Path("models/tokenizer")
PLOT = Path("plots/pretrain.csv")
ENTRIES_AT_ONCE = 256


@dataclass(frozen=True)
class Plan:
    """What every rank has to know."""

    model: ModelParams
    params: PretrainParams
    settings: TrainingSettings
    packed: Snapshot
    held_out: HeldOut | None
    folder: Path

    def trainer(self) -> tuple[Any, Trainer]:
        """The model, and the trainer of it."""
        tokenizer, packed = load_tokenizer(TOKENIZER), Packed(self.packed)
        model = build(
            self.model, vocab_size=len(tokenizer), sequence_length=packed.sequence_length, eos_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id, seed=self.params.seed, objective=self.params.objective,
        )  # fmt: skip
        return model, Trainer(Engine(model, self.params), packed, self.params, self.folder, self.held_out, self.settings)


def _held_out(run: StageRun, params: PretrainParams) -> HeldOut | None:
    """The first held-out documents by doc_id."""
    ids = sorted(run.inputs["held_out"].to_table(columns=["doc_id"]).column("doc_id").to_pylist())[: params.held_out_documents]
    if not ids:
        return None
    tokenizer, length = load_tokenizer(TOKENIZER), Packed(run.inputs["packed"]).sequence_length
    rows = run.inputs["tokens"].to_table(columns=["doc_id", "input_ids"], among={"doc_id": ids}).sort_by("doc_id")
    return HeldOut.of(rows.column("input_ids").to_pylist(), length, tokenizer.eos_token_id, tokenizer.pad_token_id)


def _save(model: Any, record: dict[str, Any], trainer: Trainer) -> None:
    """Replaces models/pretrain in one rename, once it is proven to load; evidence of spikes goes with it."""
    partial = FOLDER.with_name(f"{FOLDER.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    save_model(model, partial)
    for path in TOKENIZER.iterdir():
        shutil.copyfile(path, partial / path.name)
    check_export(trainer.engine, partial, trainer.packed.batch(np.arange(1)))
    if (trainer.folder / evidence.FOLDER).is_dir():
        shutil.copytree(trainer.folder / evidence.FOLDER, partial / evidence.FOLDER)
    (partial / "run.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


def _consumed(entries: Iterator[dict[str, Any]], run_id: str) -> Iterator[pa.RecordBatch]:
    columns = [name for name in schema.CONSUMED.names if name not in ("run_id", "stage")]
    while some := list(islice(entries, ENTRIES_AT_ONCE)):
        rows = [{"run_id": run_id, "stage": "pretrain"} | {name: entry[name] for name in columns} for entry in some]
        yield pa.RecordBatch.from_pylist(rows, schema=schema.CONSUMED)


def _curve(entries: Iterable[Mapping[str, Any]], trainer: Trainer, tokens_per_step: int) -> list[dict[str, Any]]:
    """Rows of the plot. Times are known for the steps of this process alone, and are no part of any digest."""
    return [
        {
            "step": entry["step"], "loss": entry["loss"], "held_out_loss": entry.get("held_out_loss", ""),
            "learning_rate": entry["learning_rate"], "grad_norm": entry["grad_norm"],
            "tokens_per_s": round(tokens_per_step / trainer.seconds[entry["step"]]) if entry["step"] in trainer.seconds else "",
        }
        for entry in entries
    ]  # fmt: skip


def _params(run: StageRun) -> PretrainParams:
    """The params, with a number for each `auto`."""
    model, length = ModelParams.parse(run.params["model"], where="model"), Packed(run.inputs["packed"]).sequence_length
    return read(run.params["pretrain"], model, len(load_tokenizer(TOKENIZER)), length)


def _train(run: StageRun, params: PretrainParams) -> tuple[Any, Trainer]:
    """Trains, on this rank and those that follow it."""
    start_processes()
    plan = Plan(
        ModelParams.parse(run.params["model"], where="model"), params, run.settings.training, run.inputs["packed"], _held_out(run, params),
        run.root / "journal" / "pretrain" / run.identity(),
    )  # fmt: skip
    model, trainer = broadcast(plan).trainer()
    trainer.run()
    return model, trainer


def _follow() -> None:
    """What a rank other than the first does."""
    die_with_parent()
    start_processes()
    plan: Plan = broadcast(None)
    _, trainer = plan.trainer()
    trainer.run()
    with whole_weights(trainer.engine):
        pass


def main() -> None:
    """Runs the stage in the current project."""
    if rank() > 0:
        _follow()
        return
    with StageRun("pretrain", inputs=("packed", "held_out", "tokens"), params=("model", "pretrain")) as run:
        params = _params(run)
        with started(run.settings.training.processes, [sys.executable, "-m", "trainplane.stages.pretrain"]):
            model, trainer = _train(run, params)
            with whole_weights(trainer.engine):
                _write(run, params, model, trainer)


def _write(run: StageRun, params: PretrainParams, model: Any, trainer: Trainer) -> None:
    """What the stage leaves."""
    ledger = trainer.ledger
    if ledger is None:
        raise RuntimeError("rank 0 has no ledger")
    packed = trainer.packed
    record = {
        "stage": "pretrain", "digest": weights_digest(model), "parent": None, "data_digest": run.inputs["packed"].digest,
        "step": params.steps, "chain_hash": ledger.head, "seed": params.seed, "global_batch": params.global_batch,
        "interventions": trainer.interventions.to_json(),
    }  # fmt: skip
    _save(model, record, trainer)
    run.write("consumed", schema.CONSUMED, _consumed(ledger.entries(), run.run_id))
    checkpoint = {name: record.get(name) for name in schema.CHECKPOINTS.names} | {"path": FOLDER.as_posix(), "run_id": run.run_id}
    run.write("checkpoints", schema.CHECKPOINTS, [pa.RecordBatch.from_pylist([checkpoint], schema=schema.CHECKPOINTS)])
    curve = _curve(ledger.entries(), trainer, params.global_batch * packed.sequence_length)
    write_curve(run.root / PLOT, curve)
    run.metrics({
        "parameters": n_parameters(model), "digest": record["digest"], "steps": params.steps,
        "epochs": trainer.place / packed.n_sequences, "tokens": params.steps * params.global_batch * packed.sequence_length,
        "first_loss": curve[0]["loss"], "ln_vocabulary": math.log(model.config.vocab_size), "last_loss": curve[-1]["loss"],
        "held_out_loss": {str(row["step"]): row["held_out_loss"] for row in curve if row["held_out_loss"] != ""},
        "rollbacks": trainer.interventions.to_json(),
    })  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
