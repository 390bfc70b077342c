"""What our training costs above a bare PyTorch loop: the same model, data and optimizer, step by step in turn, in one process.

Ours is the whole loop of the pretrain stage (reading sequences, DeepSpeed, losses by document, ledger, heartbeat); the bare loop
has its batches in memory already. Processor time is compared, since other work on the machine disturbs it least. The median step counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import copy
import json
import statistics
import tempfile
import time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.training_project import write_packed
from trainplane.data.packed import IGNORED, Batch, Packed
from trainplane.params import ModelParams, PretrainParams
from trainplane.pretrain.engine import Engine

VOCABULARY, LENGTH, DOCUMENT = 8192, 512, 128
WARM_UP = 3


class Bare:
    """A plain training step."""

    def __init__(self, model: Any, params: PretrainParams) -> None:
        import torch

        self.model, self.params = model, params
        embedding = model.get_input_embeddings().weight
        decayed = [p for p in model.parameters() if p.ndim >= 2 and p is not embedding]
        others = [p for p in model.parameters() if p.ndim < 2 or p is embedding]
        groups = [{"params": decayed, "weight_decay": params.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=params.learning_rate, betas=(params.beta1, params.beta2))

    def step(self, batch: Batch) -> float:
        import torch

        ids, positions, documents, labels = map(torch.from_numpy, (batch.input_ids, batch.position_ids, batch.documents, batch.labels))
        mask = ((documents[:, :, None] == documents[:, None, :])[:, None]).tril()
        logits = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.params.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


class Beside(Engine):
    """Our engine, which lets the bare loop make the same step first and takes the times of both."""

    def __init__(self, model: Any, params: PretrainParams) -> None:
        self.bare = Bare(copy.deepcopy(model), params)
        super().__init__(model, params)
        self.bare_seconds: list[float] = []
        self.began: list[float] = []
        self.losses: list[tuple[float, float]] = []

    def step(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        self.began.append(time.process_time())
        bare_loss = self.bare.step(batch)
        self.bare_seconds.append(time.process_time() - self.began[-1])
        result = super().step(batch, *args, **kwargs)
        self.losses.append((result.loss, bare_loss))
        return result

    def our_seconds(self) -> list[float]:
        """From one step's begin to the next's, less the bare step between."""
        return [after - before - bare for before, after, bare in zip(self.began, self.began[1:], self.bare_seconds, strict=False)]


def tokens(n: int, corpus: Path | None) -> np.ndarray:
    """Sequences of random tokens, or of the bytes of a file."""
    if corpus is None:
        return np.random.default_rng(0).integers(2, VOCABULARY, (n, LENGTH))
    data = np.frombuffer(corpus.read_bytes(), np.uint8)[: n * LENGTH].astype(np.int64)
    return np.resize(data + 2, (n, LENGTH))


def measure(steps: int, batch: int, corpus: Path | None) -> dict[str, Any]:
    import torch

    from dataplane.settings import TrainingSettings
    from trainplane.model.build import build
    from trainplane.pretrain.loop import Trainer, Watched

    given = {"steps": steps + WARM_UP, "global_batch": batch, "micro_batch": batch, "warmup_steps": 0, "threads": torch.get_num_threads()}
    params = PretrainParams.parse(given | {"learning_rate": 1e-3, "min_lr_ratio": 1.0, "checkpoint_every": 10**6}, where="pretrain")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spans = [(at, DOCUMENT) for at in range(0, LENGTH, DOCUMENT)]
        packed = Packed(write_packed(root, tokens(64, corpus), [spans] * 64))
        model = ModelParams.parse(None, where="model")
        built = build(model, vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=0)
        engine = Beside(built, params)
        Trainer(engine, packed, params, root / "run", Watched(), TrainingSettings.parse(None, where="training")).run()
    ours, bare = (statistics.median(seconds[WARM_UP:]) for seconds in (engine.our_seconds(), engine.bare_seconds[:-1]))
    return {
        "name": f"processor time of a training step, {batch} x {LENGTH} tokens", "ours": round(ours, 4), "peer": round(bare, 4),
        "peer_name": "bare PyTorch loop", "peer_version": torch.__version__, "ratio": round(ours / bare, 4), "unit": "s",
        "steps": steps, "loss_difference": round(max(abs(a - b) for a, b in engine.losses), 6),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="A text file whose bytes are the tokens; without it they are random.")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(measure(10 if arguments.quick else 40, 4, arguments.corpus)))


if __name__ == "__main__":
    main()
