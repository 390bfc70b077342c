"""How far PPO raises a programmatic reward on prompts that it was not trained on, and at what KL: the stage `ppo` under `dvc repro`.

The reward is the share of two wanted words (`you`, `your`) that an answer of at most 20 tokens holds. The row's peer is the model before;
the judge, which is not trained on, is the chance of held-out answers. `--quick` takes a tiny model with random weights, for letters.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import os
import subprocess
import tempfile
import time
from typing import Any

ROOT = Path(__file__).parents[1]
FORMS = [
    "How do I {}?", "What is the best way to {}?", "Why is it hard to {}?", "Is it expensive to {}?", "Can a child {}?",
    "Tell me how people {}.", "When is a good time to {}?", "Who taught people to {}?",
]  # fmt: skip
THINGS = [
    "boil an egg", "learn to swim", "save money", "grow tomatoes", "clean a window", "draw a horse", "mend a bicycle", "write a letter",
    "bake bread", "sleep well", "read a map", "keep bees", "fly a kite", "make tea", "build a wall", "play chess",
]  # fmt: skip
ANSWERS = [
    ("What is the capital of France?", "The capital of France is Paris."),
    ("How many days are in a week?", "There are seven days in a week."),
    ("What colour is snow?", "Snow is white."), ("What do bees make?", "Bees make honey."),
    ("What is two plus three?", "Two plus three is five."), ("Where do fish live?", "Fish live in water."),
    ("What is the opposite of hot?", "The opposite of hot is cold."), ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet."),
]  # fmt: skip
REAL = {
    "max_steps": 16, "batch_size": 16, "mini_batch": 8, "epochs": 1, "learning_rate": 6e-4, "warmup_steps": 2, "max_new_tokens": 20,
    "max_length": 80, "held_out_prompts": 48, "rewards": [{"use": "regex", "params": {"pattern": "(?i)\\b(you|your)\\b", "matches": 2}}],
    "kl_coefficient": 0.05, "kl_target": 4.0, "missing_eos_penalty": 0.0, "threads": 1, "judge": "answers",
    "guards": {"max_kl": 20.0, "max_quality_drop": 0.5, "judge_every": 8},
}  # fmt: skip
QUICK = REAL | {
    "max_steps": 40, "batch_size": 32, "mini_batch": 16, "epochs": 2, "learning_rate": 0.03, "max_new_tokens": 12,
    "held_out_prompts": 32, "rewards": [{"use": "regex", "params": {"pattern": "[a-z]", "matches": 12}}],
}  # fmt: skip


def questions() -> list[dict[str, str]]:
    """Prompts; a thing is either trained on or held out, in every form."""
    return [
        {"id": f"{form}-{thing}", "prompt": FORMS[form].format(THINGS[thing]), "split": "train" if thing % 2 else "held_out"}
        for form in range(len(FORMS)) for thing in range(len(THINGS))
    ]  # fmt: skip


def held_out_answers() -> list[dict[str, Any]]:
    """What the judge goes by."""
    return [
        {
            "id": str(n), "split": "held_out", "source": "", "lang": "en",
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        }
        for n, (question, answer) in enumerate(ANSWERS)
    ]  # fmt: skip


def make_project(root: Path, model: Path, params: dict[str, Any]) -> None:
    """A project whose pipeline is the stage `ppo` alone; the model stands in the place of models/sft."""
    from dataplane import lockfile
    from dataplane.stage_graph import PPO, dump

    base = root / "models" / "sft"
    base.mkdir(parents=True)
    for path in model.iterdir():
        (base / path.name).symlink_to(path.resolve())
    for name, rows in ((root / "prompts.jsonl", questions()), (base / "held_out.jsonl", held_out_answers())):
        name.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (root / "params.yaml").write_text(dump({"ppo": {"data": ["prompts.jsonl"]} | params}), encoding="utf-8")
    stage = PPO.definition()
    (root / "dvc.yaml").write_text(dump({"stages": {"ppo": stage | {"deps": [*stage["deps"], "prompts.jsonl"]}}}), encoding="utf-8")
    lockfile.write(root)
    (root / ".gitignore").write_text("/models/\n/metrics/\n/plots/\n/journal/\n", encoding="utf-8")
    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=root, check=True, capture_output=True)


def measure(root: Path) -> dict[str, Any]:
    """Runs the pipeline."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "dvc", "repro"], cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    found = json.loads((root / "metrics/ppo.json").read_text(encoding="utf-8"))
    before, after = found["held_out_score_before"], found["held_out_score_after"]
    return {
        "name": "ppo_held_out_score", "ours": after, "peer": before, "peer_name": "the model before", "peer_version": "",
        "ratio": after / before, "unit": "mean score", "gain_low": found["held_out_gain"]["low"],
        "gain_high": found["held_out_gain"]["high"],
        "kl_nats": found["held_out_kl"], "judged": [look["judged"] for look in found["held_out"]], "alarms": found["alarms"],
        "steps": found["steps"], "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip


def main() -> None:
    """Prints one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="Folder of a model with a chat template and a run.json; needed without --quick.")
    parser.add_argument("--quick", action="store_true", help="A tiny model, in under two minutes.")
    parser.add_argument("--keep", type=Path, help="Folder for the project, which then stays.")
    options = parser.parse_args()
    if not (options.quick or options.model):
        parser.error("give --model FOLDER, or --quick")
    with tempfile.TemporaryDirectory() as temporary:
        model = options.model or tiny_model(Path(temporary) / "tiny")
        root = options.keep or Path(temporary) / "project"
        root.mkdir(parents=True, exist_ok=True)
        make_project(root, model, REAL if options.model else QUICK)
        print(json.dumps(measure(root)))


def tiny_model(folder: Path) -> Path:
    """The model of the tests."""
    from tests.training.conftest import make_pretrained, make_tokenizer

    for name in ("tokenizer", "model"):
        (folder / name).mkdir(parents=True)
    return make_pretrained(folder / "model", make_tokenizer(folder / "tokenizer"))


if __name__ == "__main__":
    main()
