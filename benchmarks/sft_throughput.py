"""Tokens/s of LoRA fine-tuning, ours against trl's own script: the same model, the same conversations in the same order, side by side.

python -m benchmarks.sft_throughput [--model FOLDER] [--corpus SHARED_DATA] [--quick]

Tokens are those of the examples, padding left out. trl tokenises before the clock starts, as we do. The row `packed` is against trl without
packing, since trl's packing lets examples attend to each other unless FlashAttention is there. Without --model a small one with random
weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import os
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.fine_tuning import DEMOS, tiny_model

ROOT = Path(__file__).parents[1]
MAX_TOKENS = 256
BATCH = 8


def conversations(shared: Path, encoder: Any, n: int) -> list[Any]:
    """The first examples of the English demo set that fit."""
    from dataplane.sources.chat_layouts import alpaca

    with tarfile.open(shared / "instruct" / f"{DEMOS}.tar.xz") as archive:
        found = archive.extractfile(f"{DEMOS}/alpaca_en_demo.json")
        values = json.loads(found.read()) if found else []
    talks = [alpaca(value, {}).turns for value in values]
    return [talk for talk in talks if len(encoder.encode(talk).input_ids) <= MAX_TOKENS][:n]


def ours(model: Path, tokenizer: Any, talks: list[Any], folder: Path, pack: bool) -> Any:
    """Our trainer."""
    from trainplane.align.params import SFTParams
    from trainplane.align.sft import make_trainer
    from trainplane.data.chat import ChatEncoder
    from trainplane.model.build import load

    params = SFTParams(data=["x"], max_steps=len(talks) // BATCH, batch_size=BATCH, max_length=MAX_TOKENS, pack=pack)
    encoder = ChatEncoder(tokenizer)
    return Unbooked(make_trainer(load(model), tokenizer, [encoder.encode(talk) for talk in talks], params, folder))


class Unbooked:
    """Our trainer under a ledger that is thrown away."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def train(self) -> None:
        """Trains, the hash of each batch included."""
        from transformers import PrinterCallback

        from trainplane.align.session import Book

        n_steps = int(self.trainer.args.max_steps)
        places = [list(range(step * BATCH, (step + 1) * BATCH)) for step in range(n_steps)]
        self.trainer.book = Book(Path(self.trainer.args.output_dir) / "ledger", [str(n) for n in range(n_steps * BATCH)], places, "sft", {})
        self.trainer.remove_callback(PrinterCallback)
        self.trainer.train()


def theirs(model: Path, tokenizer: Any, talks: list[Any], folder: Path) -> Any:
    """trl as its documentation starts it: messages in, LoRA on."""
    import datasets
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    from trainplane.align.adapter import lora_config
    from trainplane.align.params import SFTParams
    from trainplane.model.build import load

    rows = [{"messages": [{"role": turn.role, "content": turn.content} for turn in talk]} for talk in talks]
    args = SFTConfig(
        output_dir=str(folder), use_cpu=True, max_steps=len(talks) // BATCH, per_device_train_batch_size=BATCH, max_length=MAX_TOKENS,
        report_to=[], save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, bf16=False, logging_steps=1, learning_rate=2e-4,
        train_sampling_strategy="sequential", shuffle_dataset=False, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = SFTTrainer(
        model=load(model), args=args, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer,
        peft_config=lora_config(SFTParams(data=["x"])),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure(makers: dict[str, Callable[[], Any]], n_tokens: int, rounds: int) -> dict[str, float]:
    """Median tokens/s of each, taken in turns so that all feel the same machine."""
    speeds: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(rounds):
        for name, make in makers.items():
            trainer = make()
            begin = time.perf_counter()
            trainer.train()
            speeds[name].append(n_tokens / (time.perf_counter() - begin))
    return {name: statistics.median(found) for name, found in speeds.items()}


def main() -> None:
    """Prints a row for padded batches and one for packed ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="Folder of a model with a chat template.")
    shared = os.environ.get("TERRAPLANE_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    parser.add_argument("--corpus", type=Path, default=Path(shared), help="Folder of the public data.")
    parser.add_argument("--quick", action="store_true", help="Few steps, in under two minutes.")
    options = parser.parse_args()
    from trainplane.align import session

    with tempfile.TemporaryDirectory() as temporary, session.quiet():
        folder = Path(temporary)
        for line in compare(options.model or tiny_model(folder / "tiny"), options.corpus, folder, options.quick):
            print(json.dumps(line))


def compare(model: Path, corpus: Path, folder: Path, quick: bool) -> list[dict[str, Any]]:
    """The rows."""
    import trl

    from trainplane.align import session
    from trainplane.data.chat import ChatEncoder
    from trainplane.tokenizer import load_tokenizer

    session.prepare_torch(0, 1)
    tokenizer = load_tokenizer(model)
    encoder = ChatEncoder(tokenizer)
    talks = conversations(corpus, encoder, BATCH * (6 if quick else 24))
    talks = talks[: len(talks) // BATCH * BATCH]
    n_tokens = sum(len(encoder.encode(talk).input_ids) for talk in talks)
    speeds = measure(
        {
            "trl": lambda: theirs(model, tokenizer, talks, folder),
            "padded": lambda: ours(model, tokenizer, talks, folder, pack=False),
            "packed": lambda: ours(model, tokenizer, talks, folder, pack=True),
        },
        n_tokens,
        rounds=2 if quick else 3,
    )
    return [
        {
            "name": f"sft_{name}", "ours": speeds[name], "peer": speeds["trl"], "peer_name": "trl", "peer_version": trl.__version__,
            "ratio": speeds[name] / speeds["trl"], "unit": "tokens/s", "tokens": n_tokens, "examples": len(talks),
        }
        for name in ("padded", "packed")
    ]  # fmt: skip


if __name__ == "__main__":
    main()
