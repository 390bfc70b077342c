"""What LoRA SFT and DPO do to a small model on public data, from the raw files on: ingest to decontaminate, sft and dpo under `dvc repro`.

python -m benchmarks.fine_tuning --model FOLDER [--corpus SHARED_DATA] [--quick] [--keep FOLDER]

FOLDER is a model with a chat template and a run.json. New tasks: Chinese and English instructions (LLaMA-Factory's demo sets). Old task:
answers to the self-instruct seed tasks, which are not trained on. Pairs: HH-RLHF. A row's peer is the model before. `--quick` takes few
steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import gzip
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks import tuning_project
from benchmarks.tuning_project import row

ROOT = Path(__file__).parents[1]
DATA_STAGES = ("ingest", "clean", "select", "dedup", "decontaminate")
DEMOS = "llamafactory_demos"
SEEDS_HELD = 60
SFT = {
    "sources": ["alpaca_zh", "alpaca_en"], "retain": ["old.jsonl"], "max_steps": 30, "batch_size": 8, "learning_rate": 2e-4,
    "max_length": 192,
    "overlong": "leave_out", "held_out_examples": 80, "held_out_share": 0.15, "pack": True, "warmup_steps": 4,
}  # fmt: skip
DPO = {
    "sources": ["hh"], "max_steps": 40, "batch_size": 4, "learning_rate": 2e-4, "max_length": 96, "held_out_pairs": 100,
    "held_out_share": 0.25, "warmup_steps": 4,
}  # fmt: skip
SHORT = {"max_steps": 3, "batch_size": 2, "held_out_examples": 30, "max_length": 256}  # a tiny tokenizer makes long rows


def params(quick: bool) -> dict[str, Any]:
    """The project's params.yaml."""
    sources = [
        {"name": name, "kind": kind, "paths": [path], "format": "chat", "options": {"layout": layout}}
        for name, kind, path, layout in (
            ("alpaca_zh", "instruct", "alpaca_zh.json", "alpaca"), ("alpaca_en", "instruct", "alpaca_en.json", "alpaca"),
            ("hh", "preference", "hh.jsonl", "hh"),
        )
    ]  # fmt: skip
    held = {"name": "old", "paths": ["old_items.jsonl"], "fields": ["question"], "id_field": "id"}
    pairs = {name: value for name, value in SHORT.items() if name != "held_out_examples"} | {"held_out_pairs": 30}
    return {
        "sources": sources,
        "clean": {"pipeline": [{"use": "encoding_repair"}, {"use": "scrub_pii"}, {"use": "language"}, {"use": "text_signals"}]},
        "select": {"rules": []}, "dedup": {}, "decontaminate": {"benchmarks": [held]},
        "sft": SFT | (SHORT if quick else {}), "dpo": DPO | (pairs if quick else {}),
    }  # fmt: skip


def old_task(path: Path) -> Iterator[dict[str, Any]]:
    """Seed tasks of self-instruct as held-out examples."""
    for line in path.read_text(encoding="utf-8").splitlines()[:SEEDS_HELD]:
        seed = json.loads(line)
        asked = "\n".join(part for part in (seed["instruction"], seed["instances"][0]["input"]) if part)
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": seed["instances"][0]["output"]}]
        yield {"id": seed["id"], "messages": messages, "split": "held_out"}


def put_data(root: Path, shared: Path) -> None:
    """The raw files as they were published, and the old task."""
    with tarfile.open(shared / "instruct" / f"{DEMOS}.tar.xz") as archive:
        for name in ("alpaca_zh", "alpaca_en"):
            found = archive.extractfile(f"{DEMOS}/{name}_demo.json")
            if found is None:
                raise SystemExit(f"{DEMOS} holds no {name}")
            (root / f"{name}.json").write_bytes(found.read())
    (root / "hh.jsonl").write_bytes(gzip.decompress((shared / "instruct" / "hh_rlhf" / "harmless_first2000.jsonl.gz").read_bytes()))
    old = list(old_task(shared / "instruct" / "self_instruct" / "seed_tasks.jsonl"))
    items = [{"id": one["id"], "question": one["messages"][0]["content"]} for one in old]
    for name, rows in (("old.jsonl", old), ("old_items.jsonl", items)):
        (root / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_project(root: Path, model: Path, shared: Path, quick: bool) -> None:
    """A project that begins at a model instead of training one."""
    from dataplane import tombstones
    from dataplane.stage_graph import Inputs, dvc_yaml

    tuning_project.begin(root, model, "pretrain")
    put_data(root, shared)
    raw = ["alpaca_zh.json", "alpaca_en.json", "hh.jsonl"]
    stages = dvc_yaml(Inputs(raw, ["old_items.jsonl"], ["old.jsonl"], ["hh.jsonl"]))["stages"]
    stages = {name: stages[name] for name in (*DATA_STAGES, "sft", "dpo")}
    stages["clean"]["deps"] = [dep for dep in stages["clean"]["deps"] if not dep.startswith("models/")]
    (root / tombstones.FILE).write_text("\n", encoding="utf-8")
    tuning_project.write(root, params(quick), stages)


def rows(root: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """What the two stages say of themselves."""
    sft, dpo = (tuning_project.metrics(root, name) for name in ("sft", "dpo"))
    for name in ("held_out_answer_loss", "retained_answer_loss"):
        yield row(f"sft_{name}", sft[f"{name}_after"], sft[f"{name}_before"], "nats a token") | {
            "steps": sft["steps"], "examples": sft["examples"], "held_out": sft["held_out_examples"],
        }  # fmt: skip
    yield row("dpo_held_out_accuracy", dpo["held_out_accuracy_after"], dpo["held_out_accuracy_before"], "share of pairs") | {
        "steps": dpo["steps"], "pairs": dpo["pairs"], "held_out": dpo["held_out_pairs"],
        "reward_accuracy": dpo["held_out_reward_accuracy"], "alarms": dpo["alarms"], "seconds_of_the_whole_run": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Prints three rows."""
    parser = tuning_project.options(__doc__)
    shared = os.environ.get("TERRAPLANE_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    parser.add_argument("--corpus", type=Path, default=Path(shared), help="Folder of the public data.")
    options = tuning_project.parsed(parser)
    with tempfile.TemporaryDirectory() as temporary:
        model = options.model or tiny_model(Path(temporary) / "tiny")
        root = options.keep or Path(temporary) / "project"
        make_project(root, model, options.corpus, options.quick)
        for line in rows(root, tuning_project.repro(root)):
            print(json.dumps(line))


def tiny_model(folder: Path) -> Path:
    """A model with random weights, and a tokenizer of bytes and a few merges."""
    import pyarrow as pa

    from dataplane.corpus.tokenizer import TokenizerParams, save, train
    from trainplane.model.build import build, save_model, weights_digest
    from trainplane.params import ModelParams
    from trainplane.tokenizer import load_tokenizer

    save(train([pa.array(["What is this? 这是什么？"] * 4)], TokenizerParams(vocab_size=320)), folder)
    sizes = ModelParams(hidden_size=32, n_layers=2, n_heads=2, n_kv_heads=2, intermediate_size=64)
    model = build(sizes, vocab_size=len(load_tokenizer(folder)), sequence_length=256, eos_id=0, pad_id=1, seed=3)
    save_model(model, folder)
    (folder / "run.json").write_text(json.dumps({"stage": "pretrain", "digest": weights_digest(model)}), encoding="utf-8")
    return folder


if __name__ == "__main__":
    main()
