"""Turns params.yaml into one for a quick run: a twentieth of the sample, a few steps of training, and the example plugin."""

import sys
from pathlib import Path

import yaml

CHANGES = {
    "sample.fraction": 0.05,
    "pretrain.steps": 20,
    "pretrain.warmup_steps": 5,
    "pretrain.checkpoint_every": 10,
    "sft.max_steps": 5,
    "dpo.max_steps": 5,
}


def main(path: Path) -> None:
    """Edits the file in place."""
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    for dotted, value in CHANGES.items():
        *parents, key = dotted.split(".")
        node = params
        for parent in parents:
            node = node[parent]
        if key not in node:
            raise SystemExit(f"params.yaml has no {dotted}")
        node[key] = value
    params["clean"]["pipeline"].append({"use": "emoji_ratio"})
    path.write_text(yaml.safe_dump(params, sort_keys=False, allow_unicode=True), encoding="utf-8")


main(Path(sys.argv[1]))
