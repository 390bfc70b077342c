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
from dataplane.snapshot import Snapshot, snapshot_path
from trainplane.data.flat import FlatPacked
from trainplane.data.groups import LANGUAGE, SpanGroups
from trainplane.data.local_copy import FOLDER as SEQUENCES
from trainplane.data.local_copy import local_copy, packed_length
from trainplane.model.build import build, n_parameters, save_model, weights_digest
from trainplane.params import ModelParams, PretrainParams
from trainplane.pretrain import evidence
from trainplane.pretrain.defaults import read
from trainplane.pretrain.engine import Engine, start_processes, stop_processes
from trainplane.pretrain.export import check_export, whole_weights
from trainplane.pretrain.held_out import HeldOut
from trainplane.pretrain.host_copy import file_hash
from trainplane.pretrain.loop import Trainer, Watched, flat
from trainplane.pretrain.metrics import write_curve
from trainplane.pretrain.ranks import barrier, broadcast, die_with_parent, local_rank, rank, started
from trainplane.pretrain.samples import Sampler
from trainplane.pretrain.watch import SAMPLES
from trainplane.tokenizer import load_tokenizer

FOLDER = Path("models/pretrain")
TOKENIZER = Path("models/tokenizer")
PLOT = Path("plots/pretrain.csv")
ENTRIES_AT_ONCE = 256
LAYOUT_PARAMS = ("zero_stage", "micro_batch", "parallel", "activation_checkpointing", "compile")  # they change rounding alone


@dataclass(frozen=True)
class Plan:
    """What every rank has to know."""

    model: ModelParams
    params: PretrainParams
    settings: TrainingSettings
    packed: Snapshot
    documents: Snapshot | None
    held_out: HeldOut | None
    folder: Path

    def trainer(self) -> tuple[Any, Trainer]:
        """The model, and the trainer of it."""
        tokenizer, sequences = load_tokenizer(TOKENIZER), self._sequences()
        model = build(
            self.model, vocab_size=len(tokenizer), sequence_length=sequences.sequence_length, eos_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id, seed=self.params.seed, objective=self.params.head,
            tokenizer=tokenizer,
        )  # fmt: skip
        groups = SpanGroups.of(sequences, self.documents) if self.documents is not None and rank() == 0 else None
        writes = self.params.objective == "causal"
        sampler = Sampler(self.params.samples, tokenizer, sequences.sequence_length, self.params.seed) if writes else None
        watched = Watched(self.held_out, groups, sampler)
        return model, Trainer(Engine(model, self.params), sequences, self.params, self.folder, watched, self.settings)

    def _sequences(self) -> FlatPacked:
        """This machine's copy, which its first rank makes."""
        folder, vocabulary = Path(self.settings.sequences or SEQUENCES), len(load_tokenizer(TOKENIZER))
        if local_rank() == 0:
            local_copy(self.packed, vocabulary, folder)
        barrier()
        return local_copy(self.packed, vocabulary, folder)


def _held_out(run: StageRun, params: PretrainParams, documents: Snapshot | None) -> HeldOut | None:
    """The first held-out documents by doc_id."""
    about = run.inputs["held_out"].to_table(columns=["doc_id", "source"]).sort_by("doc_id").slice(0, params.held_out_documents)
    ids = about.column("doc_id").to_pylist()
    if not ids:
        return None
    tokenizer, length = load_tokenizer(TOKENIZER), packed_length(run.inputs["packed"])
    rows = run.inputs["tokens"].to_table(columns=["doc_id", "input_ids"], among={"doc_id": ids}).sort_by("doc_id")
    names = {"source": about.column("source").to_pylist()}
    if documents is not None and LANGUAGE in documents.schema.names:
        spoken = documents.to_table(columns=["doc_id", LANGUAGE], among={"doc_id": ids}).to_pylist()
        by_id = {row["doc_id"]: row[LANGUAGE] for row in spoken}
        names["lang"] = [by_id.get(doc_id) for doc_id in ids]
    return HeldOut.of(rows.column("input_ids").to_pylist(), length, tokenizer.eos_token_id, tokenizer.pad_token_id, names)


def _documents(root: Path) -> Snapshot | None:
    """The documents, for their sources and languages: to watch by, so they are no input that has the model trained again."""
    return Snapshot.load("documents", root) if snapshot_path("documents", root).exists() else None


def _save(model: Any, record: dict[str, Any], trainer: Trainer) -> None:
    """Replaces models/pretrain in one rename, once it is proven to load; evidence of spikes goes with it."""
    partial = FOLDER.with_name(f"{FOLDER.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    save_model(model, partial)
    for path in TOKENIZER.iterdir():
        shutil.copyfile(path, partial / path.name)
    check_export(trainer.engine, partial, trainer.packed.batch(np.arange(1)))
    if (trainer.folder / SAMPLES).exists():
        shutil.copyfile(trainer.folder / SAMPLES, partial / SAMPLES)
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


def _curve(entries: Iterable[Mapping[str, Any]], trainer: Trainer) -> list[dict[str, Any]]:
    """Rows of the plot, with a column for each source and language. Times are known for the steps of this process alone, and are no part of
    any digest.
    """
    rows, length = list[dict[str, Any]](), trainer.packed.sequence_length
    for entry in entries:
        taken = trainer.seconds.get(entry["step"])
        speed = "" if taken is None else round(len(entry["seq_ids"]) * length / taken)
        shown = {name: entry[name] for name in ("step", "loss", "learning_rate", "grad_norm")}
        rows.append(shown | {"held_out_loss": "", "tokens_per_s": speed} | flat(entry))
    columns = dict.fromkeys(name for row in rows for name in row)
    return [dict.fromkeys(columns, "") | row for row in rows]


def _params(run: StageRun) -> PretrainParams:
    """The params, with a number for each `auto`."""
    model, length = ModelParams.parse(run.params["model"], where="model"), packed_length(run.inputs["packed"])
    return read(run.params["pretrain"], model, len(load_tokenizer(TOKENIZER)), length)


def _train(run: StageRun, params: PretrainParams) -> tuple[Any, Trainer]:
    """Trains, on this rank and those that follow it."""
    start_processes()
    documents = _documents(run.root)
    plan = Plan(
        ModelParams.parse(run.params["model"], where="model"), params, run.settings.training, run.inputs["packed"], documents,
        _held_out(run, params, documents), run.root / "journal" / "pretrain" / _identity(run),
    )  # fmt: skip
    model, trainer = broadcast(plan).trainer()
    trainer.run()
    return model, trainer


def _identity(run: StageRun) -> str:
    """What a run that is gone on with has to agree in: the code, the params and what it reads; not how it lies over its ranks."""
    inputs = {table: snapshot.digest for table, snapshot in run.inputs.items()}
    kept = {name: value for name, value in (run.params["pretrain"] or {}).items() if name not in LAYOUT_PARAMS}
    return run.identity(
        params={"model": run.params["model"], "pretrain": kept}, inputs=inputs, tokenizer=file_hash(TOKENIZER / "tokenizer.json")
    )


def _follow() -> None:
    """What a rank other than the first does."""
    die_with_parent()
    start_processes()
    plan: Plan = broadcast(None)
    _, trainer = plan.trainer()
    trainer.run()
    with whole_weights(trainer.engine):
        pass
    stop_processes()


def main() -> None:
    """Runs the stage in the current project."""
    if rank() > 0:
        _follow()
        return
    with StageRun("pretrain", inputs=("packed", "held_out", "tokens"), params=("model", "pretrain")) as run:
        params = _params(run)
        settings = run.settings.training
        with started(settings.processes, [sys.executable, "-m", "trainplane.stages.pretrain"], settings.rank_exit_seconds):
            model, trainer = _train(run, params)
            with whole_weights(trainer.engine):
                _write(run, params, model, trainer)
            stop_processes()


def _write(run: StageRun, params: PretrainParams, model: Any, trainer: Trainer) -> None:
    """What the stage leaves."""
    ledger = trainer.ledger
    if ledger is None:
        raise RuntimeError("rank 0 has no ledger")
    packed = trainer.packed
    record = {
        "stage": "pretrain", "digest": weights_digest(model), "parent": None, "data_digest": run.inputs["packed"].digest,
        "step": params.steps, "chain_hash": ledger.head, "seed": params.seed, "global_batch": params.global_batch,
        "batch_schedule": [[stage.from_step, stage.sequences] for stage in params.batch_schedule],
        "interventions": trainer.interventions.to_json(),
    }  # fmt: skip
    _save(model, record, trainer)
    run.write("consumed", schema.CONSUMED, _consumed(ledger.entries(), run.run_id))
    checkpoint = {name: record.get(name) for name in schema.CHECKPOINTS.names} | {"path": FOLDER.as_posix(), "run_id": run.run_id}
    run.write("checkpoints", schema.CHECKPOINTS, [pa.RecordBatch.from_pylist([checkpoint], schema=schema.CHECKPOINTS)])
    curve = _curve(ledger.entries(), trainer)
    write_curve(run.root / PLOT, curve)
    run.metrics({
        "parameters": n_parameters(model), "digest": record["digest"], "steps": params.steps,
        "epochs": trainer.place / packed.n_sequences, "tokens": params.batches().before(params.steps + 1) * packed.sequence_length,
        "first_loss": curve[0]["loss"], "ln_vocabulary": math.log(model.config.vocab_size), "last_loss": curve[-1]["loss"],
        "held_out_loss": {str(row["step"]): row["held_out_loss"] for row in curve if row["held_out_loss"] != ""},
        "held_out": {name.removeprefix("held_out/"): curve[-1][name] for name in curve[-1] if name.startswith("held_out/")},
        "rollbacks": trainer.interventions.to_json(),
    })  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
