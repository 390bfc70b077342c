"""A known loss curve through our own stage: Shakespeare's characters, nanoGPT's recipe for a CPU.

4 layers, 4 heads, 128 wide, blocks of 64, batches of 12, 2,000 steps. The public figure is a loss of 1.88 on the last tenth of the text
(nanoGPT's README). The stage trains; the loss is then taken of the saved model, over every block of the held-out tenth, by transformers
alone. Source of the recipe: https://github.com/karpathy/nanoGPT, README and config/train_shakespeare_char.py.
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

import numpy as np

from benchmarks.training_project import write_character_tokenizer, write_held_out, write_packed, write_params

PUBLIC_LOSS = 1.88
BLOCK, BATCH = 64, 12
GPT = {
    "model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": BLOCK + 1, "activation_function": "gelu",
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip


def recipe(steps: int) -> dict[str, object]:
    return {
        "steps": steps, "global_batch": BATCH, "micro_batch": BATCH, "learning_rate": 1e-3, "min_lr_ratio": 0.1,
        "warmup_steps": steps // 20, "beta2": 0.99, "weight_decay": 0.1, "clip": 1.0, "seed": 1337, "checkpoint_every": 1000,
        "held_out_every": 500, "held_out_documents": 64, "threads": int(os.environ.get("OMP_NUM_THREADS", "2")),
    }  # fmt: skip


def blocks(ids: np.ndarray) -> np.ndarray:
    """Blocks of 65 tokens, of which 64 are predicted; neighbours share one, so that every token is predicted once."""
    starts = np.arange(0, len(ids) - BLOCK, BLOCK)
    return np.stack([ids[start : start + BLOCK + 1] for start in starts])


def make(root: Path, text: str, steps: int) -> np.ndarray:
    """The project; returns the held-out blocks."""
    vocabulary = write_character_tokenizer(root / "models" / "tokenizer", sorted(set(text)))
    ids = np.array([vocabulary[character] for character in text])
    cut = int(len(ids) * 0.9)
    train, held_out = blocks(ids[:cut]), blocks(ids[cut:])
    write_packed(root, train, [[(0, BLOCK + 1)]] * len(train))
    write_held_out(root, held_out[:64, :BLOCK].tolist())
    write_params(root, {"model": {"config": GPT}, "pretrain": recipe(steps)})
    return held_out


def loss_of(folder: Path, held_out: np.ndarray) -> float:
    """Mean loss over every predicted token, by transformers' own loss."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        sums = [float(model(input_ids=ids, labels=ids).loss) * len(ids) for ids in torch.from_numpy(held_out).split(256)]
    return sum(sums) / len(held_out)


def measure(text: str, steps: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        held_out = make(root, text, steps)
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "trainplane.stages.pretrain"], cwd=root, check=True, env=os.environ | {"TERRAPLANE_WORKERS": "1"}
        )
        seconds = time.monotonic() - started
        loss = loss_of(root / "models" / "pretrain", held_out)
    return {
        "name": f"held-out loss of Shakespeare's characters after {steps} steps", "ours": round(loss, 4), "peer": PUBLIC_LOSS,
        "peer_name": "nanoGPT README, CPU recipe", "peer_version": "2,000 steps", "ratio": round(loss / PUBLIC_LOSS, 4),
        "unit": "nats a character", "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parents[2] / "shared/data/shakespeare/input.txt")
    parser.add_argument("--quick", action="store_true", help="200 steps: shows that it runs, and says nothing about the figure.")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.corpus.read_text(encoding="utf-8"), 200 if arguments.quick else 2000)))


if __name__ == "__main__":
    main()
