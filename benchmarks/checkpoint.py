"""What a checkpoint costs a training run: how long it stops for one, written in the background or waited for, beside DeepSpeed's own save.

    python -m benchmarks.checkpoint [--quick] [--corpus IGNORED]

One JSON line a row; `ours` and `peer` are seconds that training stands still for a checkpoint, alternated in one run. Ours reads each file
back and hashes it, which DeepSpeed's does not.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import statistics
import tempfile
import time
from importlib.metadata import version
from typing import Any


def engine(hidden: int, layers: int) -> Any:
    """A model under DeepSpeed whose optimizer has moments."""
    import numpy as np

    from trainplane.data.packed import make_batch
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.engine import Engine

    sizes = ModelParams(hidden_size=hidden, n_layers=layers, n_heads=4, n_kv_heads=4, intermediate_size=3 * hidden)
    model = build(sizes, vocab_size=8192, sequence_length=32, eos_id=0, pad_id=1, seed=0)
    made = Engine(model, PretrainParams(global_batch=1, micro_batch=1, threads=1))
    made.step(make_batch(np.arange(1), np.full((1, 32), 7), [[{"seq_start": 0, "length": 32}]]), 1e-3)
    return made


def stalls(made: Any, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of each way to save, in turn."""
    from dataplane.settings import TrainingSettings
    from trainplane.pretrain.checkpoint import Checkpoints

    plain = made.deepspeed.checkpoint_engine
    taken: dict[str, list[float]] = {"background": [], "waited": [], "deepspeed": [], "written": []}
    for number in range(rounds):
        for name, background in (("background", True), ("waited", False)):
            checkpoints = Checkpoints(folder / name, made, TrainingSettings(checkpoint_in_background=background))
            began = time.monotonic()
            checkpoints.save({"step": number})
            taken[name].append(time.monotonic() - began)
            checkpoints.wait()
            taken["written"].append(time.monotonic() - began)
        made.deepspeed.checkpoint_engine = plain
        began = time.monotonic()
        made.deepspeed.save_checkpoint(str(folder / "plain"), tag=str(number))
        taken["deepspeed"].append(time.monotonic() - began)
    return taken


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model")
    parser.add_argument("--corpus", type=Path, help="taken for uniformity; no corpus is needed")
    options = parser.parse_args()
    made = engine(*((192, 4) if options.quick else (768, 8)))
    with tempfile.TemporaryDirectory() as folder:
        taken = {name: statistics.median(of) for name, of in stalls(made, Path(folder), 3 if options.quick else 5).items()}
        size = sum(path.stat().st_size for path in Path(folder, "waited").rglob("*.pt")) / len(list(Path(folder, "waited").glob("step_*")))
    for name, what in (("background", "save stall, written in the background"), ("waited", "save stall, waited for")):
        row = {
            "name": f"{what} ({size / 1e6:.0f} MB)",
            "ours": round(taken[name], 4),
            "peer": round(taken["deepspeed"], 4),
            "peer_name": "deepspeed",
            "peer_version": version("deepspeed"),
            "ratio": round(taken[name] / taken["deepspeed"], 3),
            "unit": "s",
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
