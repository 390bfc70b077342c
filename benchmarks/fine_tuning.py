"""What LoRA SFT and DPO do to a small model on public data, from the raw files on: ingest to decontaminate, then sft or dpo, under
`dvc repro`.

python -m benchmarks.fine_tuning --model FOLDER [--task zh|en|refusals|hh] [--corpus SHARED_DATA] [--quick] [--keep FOLDER]

FOLDER is a model with a chat template and a run.json. Each task begins at it, in a project of its own: `zh` and `en` learn Chinese or
English instructions (LLaMA-Factory's demo sets), and their old task is answers to the self-instruct seed tasks, which are not trained on;
`hh` learns HH-RLHF's harmless pairs as people judged them, and `refusals` pairs that a rule makes of its texts (see `refusal_pairs`), whose
preference can be learnt in minutes. A row's peer is the model before; `low` and `high` bound 95 % of the difference by the paired
bootstrap over held-out examples. `--quick` takes few steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import gzip
import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks import tuning_project
from benchmarks.tuning_project import row

ROOT = Path(__file__).parents[1]
DATA_STAGES = ("ingest", "clean", "select", "dedup", "decontaminate")
DEMOS = "llamafactory_demos"
SEEDS_HELD = 60
REFUSAL_CHARS, PAIR_CHARS = 160, 240  # a refusal, and a question with the answer to it, at most
TASKS = {
    "zh": ("sft", "alpaca_zh", "instruct", "alpaca_zh.json", "alpaca"),
    "en": ("sft", "alpaca_en", "instruct", "alpaca_en.json", "alpaca"),
    "refusals": ("dpo", "refusals", "preference", "refusals.jsonl", "pairs"),
    "hh": ("dpo", "hh", "preference", "hh.jsonl", "hh"),
}  # fmt: skip
TUNING = {
    "zh": {"learning_rate": 4e-4, "max_steps": 16}, "en": {"learning_rate": 2e-4, "max_steps": 16},
    "refusals": {"max_steps": 24, "learning_rate": 2e-4, "max_length": 96, "held_out_pairs": 100},
    "hh": {"max_steps": 100, "learning_rate": 1e-4, "max_length": 128, "held_out_pairs": 200},
}  # fmt: skip
COMMON = {
    "sft": {
        "retain": ["old.jsonl"], "batch_size": 8, "max_length": 160, "overlong": "leave_out", "held_out_examples": 50,
        "held_out_share": 0.25, "pack": True, "warmup_steps": 3, "threads": 2,
    },
    "dpo": {"batch_size": 4, "held_out_share": 0.25, "warmup_steps": 4, "threads": 2},
}  # fmt: skip
SHORT = {
    "sft": {"max_steps": 3, "batch_size": 2, "held_out_examples": 30, "max_length": 256},  # a tiny tokenizer makes long rows
    "dpo": {"max_steps": 3, "batch_size": 2, "held_out_pairs": 30, "max_length": 256},
}  # fmt: skip


def params(task: str, quick: bool) -> dict[str, Any]:
    """The project's params.yaml."""
    stage, name, kind, path, layout = TASKS[task]
    held = {"name": "old", "paths": ["old_items.jsonl"], "fields": ["question"], "id_field": "id"}
    return {
        "sources": [{"name": name, "kind": kind, "paths": [path], "format": "chat", "options": {"layout": layout}}],
        "clean": {"pipeline": [{"use": "encoding_repair"}, {"use": "scrub_pii"}, {"use": "language"}, {"use": "text_signals"}]},
        "select": {"rules": []}, "dedup": {}, "decontaminate": {"benchmarks": [held]},
        stage: {"sources": [name]} | COMMON[stage] | TUNING[task] | (SHORT[stage] if quick else {}),
    }  # fmt: skip


def old_task(path: Path) -> Iterator[dict[str, Any]]:
    """Seed tasks of self-instruct as held-out examples."""
    for line in path.read_text(encoding="utf-8").splitlines()[:SEEDS_HELD]:
        seed = json.loads(line)
        asked = "\n".join(part for part in (seed["instruction"], seed["instances"][0]["input"]) if part)
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": seed["instances"][0]["output"]}]
        yield {"id": seed["id"], "messages": messages, "split": "held_out"}


def held(text: str, share: float) -> bool:
    """Whether a text is on the side that is not trained on: by its hash."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) < share * 16**8


def refusal_pairs(hh: Iterable[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Pairs whose preference is known, of the texts of HH-RLHF: a refusal is better than the answer that people liked less.

    The question is a pair's last one, of pairs in which neither answer refuses (by trainplane/evaluate/refusals.yaml); the rejected answer
    is that pair's, the chosen one a refusal that the set holds elsewhere. Held-out questions have held-out refusals.
    """
    from trainplane.evaluate.safety import refuses

    parted = [{name: each[name].rpartition("\n\nAssistant:") for name in ("chosen", "rejected")} for each in hh]
    answers = {found[2].strip() for each in parted for found in each.values()}
    refusals = sorted(answer for answer in answers if len(answer) <= REFUSAL_CHARS and refuses(answer))
    sides = {side: [one for one in refusals if held(one, 0.5) == side] for side in (True, False)}
    for each in parted:
        question = each["rejected"][0].rpartition("\n\nHuman:")[2].strip()
        rejected = each["rejected"][2].strip()
        if not (question and rejected) or len(question) + len(rejected) > PAIR_CHARS or any(refuses(found[2]) for found in each.values()):
            continue
        side = held(question, 0.25)
        chosen = sides[side][int(hashlib.sha256(f"{question} {rejected}".encode()).hexdigest(), 16) % len(sides[side])]
        yield {"prompt": question, "chosen": chosen, "rejected": rejected, "split": "held_out" if side else "train"}


def put_data(root: Path, shared: Path) -> None:
    """The raw files as they were published, and the old task."""
    with tarfile.open(shared / "instruct" / f"{DEMOS}.tar.xz") as archive:
        for name in ("alpaca_zh", "alpaca_en"):
            found = archive.extractfile(f"{DEMOS}/{name}_demo.json")
            if found is None:
                raise SystemExit(f"{DEMOS} holds no {name}")
            (root / f"{name}.json").write_bytes(found.read())
    (root / "hh.jsonl").write_bytes(gzip.decompress((shared / "instruct" / "hh_rlhf" / "harmless_first2000.jsonl.gz").read_bytes()))
    pairs = [json.loads(line) for line in (root / "hh.jsonl").read_text(encoding="utf-8").splitlines()]
    old = list(old_task(shared / "instruct" / "self_instruct" / "seed_tasks.jsonl"))
    items = [{"id": one["id"], "question": one["messages"][0]["content"]} for one in old]
    for name, rows in (("old.jsonl", old), ("old_items.jsonl", items), ("refusals.jsonl", list(refusal_pairs(pairs)))):
        (root / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_project(root: Path, model: Path, shared: Path, task: str, quick: bool) -> None:
    """A project that begins at a model instead of training one."""
    from dataplane import tombstones
    from dataplane.stage_graph import Inputs, dvc_yaml

    stage, _, _, raw, _ = TASKS[task]
    tuning_project.begin(root, model, "pretrain" if stage == "sft" else "sft")
    put_data(root, shared)
    stages = dvc_yaml(Inputs([raw], ["old_items.jsonl"], ["old.jsonl"], ["hh.jsonl"]))["stages"]
    stages = {name: stages[name] for name in (*DATA_STAGES, stage)}
    stages["clean"]["deps"] = [dep for dep in stages["clean"]["deps"] if not dep.startswith("models/")]
    (root / tombstones.FILE).write_text("\n", encoding="utf-8")
    tuning_project.write(root, params(task, quick), stages)


def sft_rows(root: Path, task: str) -> Iterator[dict[str, Any]]:
    """Loss of held-out answers of the new task and of the old one."""
    found = tuning_project.metrics(root, "sft")
    for name in ("held_out_answer_loss", "retained_answer_loss"):
        gain = found[f"{name}_gain"]
        yield row(f"sft_{task}_{name}", found[f"{name}_after"], found[f"{name}_before"], "nats a token") | {
            "low": gain["low"], "high": gain["high"], "held_out": gain["n"], "steps": found["steps"], "examples": found["examples"],
        }  # fmt: skip


def dpo_rows(root: Path, task: str) -> Iterator[dict[str, Any]]:
    """Share of the held-out pairs whose chosen answer is the likelier one; the implicit rewards of an untrained policy are at 1/2."""
    found = tuning_project.metrics(root, "dpo")
    shown = {"held_out": found["held_out_pairs"], "steps": found["steps"], "pairs": found["pairs"], "alarms": found["alarms"]}
    gain, margin = found["held_out_accuracy_gain"], found["held_out_margin_gain"]
    yield row(f"dpo_{task}_held_out_accuracy", found["held_out_accuracy_after"], found["held_out_accuracy_before"], "share of pairs") | {
        "low": gain["low"], "high": gain["high"], "margin_nats": found["held_out_margin_nats"], "margin_low": margin["low"],
        "margin_high": margin["high"],
    } | shown  # fmt: skip
    yield row(f"dpo_{task}_held_out_reward_accuracy", found["held_out_reward_accuracy"], 0.5, "share of pairs") | {
        "low": found["held_out_reward_accuracy_low"] - 0.5, "high": found["held_out_reward_accuracy_high"] - 0.5,
    } | shown  # fmt: skip


def main() -> None:
    """Prints two rows for each task."""
    parser = tuning_project.options(__doc__)
    shared = os.environ.get("TERRAPLANE_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    parser.add_argument("--corpus", type=Path, default=Path(shared), help="Folder of the public data.")
    parser.add_argument("--task", choices=TASKS, help="One of them; all, one after the other, where it is not given.")
    options = tuning_project.parsed(parser)
    with tempfile.TemporaryDirectory() as temporary:
        model = options.model or tiny_model(Path(temporary) / "tiny")
        for task in [options.task] if options.task else list(TASKS):
            root = (options.keep or Path(temporary) / "projects") / task
            make_project(root, model, options.corpus, task, options.quick)
            seconds = tuning_project.repro(root)
            for line in {"sft": sft_rows, "dpo": dpo_rows}[TASKS[task][0]](root, task):
                print(json.dumps(line | {"seconds_of_the_whole_run": round(seconds, 1)}), flush=True)


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
