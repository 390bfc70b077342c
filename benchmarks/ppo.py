"""How far PPO raises a programmatic reward on prompts that it was not trained on, and at what KL: the stage `ppo` under `dvc repro`.

The reward is the share of two wanted words (`you`, `your`) that an answer of at most 20 tokens holds. The row's peer is the model before;
the judge, which is not trained on, is the chance of held-out answers. `--quick` takes a tiny model with random weights, for letters.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import tempfile
from typing import Any

from benchmarks import tuning_project

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
    from dataplane.stage_graph import PPO

    base = tuning_project.begin(root, model, "sft")
    for name, rows in ((root / "prompts.jsonl", questions()), (base / "held_out.jsonl", held_out_answers())):
        name.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    stage = PPO.definition()
    files = [dep for dep in stage["deps"] if not dep.startswith("lake/")]  # the prompts are of a file, and there is no lake
    stages = {"ppo": stage | {"deps": [*files, "prompts.jsonl"]}}
    tuning_project.write(root, {"ppo": {"data": ["prompts.jsonl"]} | params}, stages)


def measure(root: Path) -> dict[str, Any]:
    """Runs the pipeline."""
    seconds = tuning_project.repro(root)
    found = tuning_project.metrics(root, "ppo")
    return tuning_project.row("ppo_held_out_score", found["held_out_score_after"], found["held_out_score_before"], "mean score") | {
        "gain_low": found["held_out_gain"]["low"], "gain_high": found["held_out_gain"]["high"],
        "kl_nats": found["held_out_kl"], "judged": [look["judged"] for look in found["held_out"]], "alarms": found["alarms"],
        "steps": found["steps"], "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Prints one row."""
    options = tuning_project.parsed(tuning_project.options(__doc__))
    with tempfile.TemporaryDirectory() as temporary:
        model = options.model or tiny_model(Path(temporary) / "tiny")
        root = options.keep or Path(temporary) / "project"
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
