"""A tiny training job on several processes: `python -m tests.training.on_ranks SPEC.json OUT.json` is one rank of it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, VOCABULARY = 16, 64
MODEL = {"hidden_size": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "intermediate_size": 64, "initializer_range": 0.2}
# Ranks, and the params that lay the model over them: all give the numbers of one rank.
LAYOUTS: list[tuple[int, dict[str, Any]]] = [
    (4, {}), (2, {"zero_stage": 1}), (2, {"zero_stage": 2}), (2, {"zero_stage": 3}), (4, {"zero_stage": 2}),
    (4, {"zero_stage": 3}), (2, {"parallel": {"tensor": 2}}), (4, {"parallel": {"tensor": 2}}),
    (2, {"zero_stage": 1, "parallel": {"tensor": 2}}), (4, {"zero_stage": 2, "parallel": {"tensor": 2}}),
    (2, {"zero_stage": 2, "parallel": {"offload_optimizer": True}}),
    (2, {"zero_stage": 3, "parallel": {"offload_optimizer": True, "offload_params": True}}),
    (2, {"parallel": {"sequence": 2}}), (4, {"parallel": {"sequence": 2}}), (4, {"parallel": {"sequence": 4}}),
    (2, {"zero_stage": 1, "parallel": {"sequence": 2}}), (4, {"zero_stage": 2, "parallel": {"sequence": 2}}),
    (4, {"zero_stage": 3, "parallel": {"sequence": 2}}),
    (2, {"activation_checkpointing": True, "parallel": {"sequence": 2}}),
    (2, {"parallel": {"pipeline": 2}}), (4, {"parallel": {"pipeline": 2}}), (4, {"zero_stage": 1, "parallel": {"pipeline": 2}}),
    (2, {"activation_checkpointing": True, "parallel": {"pipeline": 2}}),
    (2, {"activation_checkpointing": True}), (2, {"activation_checkpointing": True, "zero_stage": 3}),
]  # fmt: skip


def batches(steps: int, sizes: int | Callable[[int], int], seed: int = 0) -> list[Any]:
    """Global batches of packed documents, of one size or of each step's; the rows differ in how many tokens they predict."""
    from trainplane.data.packed import make_batch

    draw = np.random.default_rng(seed)
    out = []
    for step in range(steps):
        size = sizes if isinstance(sizes, int) else sizes(step + 1)
        ids, spans = draw.integers(2, VOCABULARY, (size, LENGTH)), []
        for _ in range(size):
            cut, end = int(draw.integers(1, 8)), int(draw.integers(8, LENGTH + 1))
            spans.append([{"seq_start": 0, "length": cut}, {"seq_start": cut, "length": end - cut}])
        out.append(make_batch(np.arange(step * size, (step + 1) * size), ids, spans))
    return out


def job(spec: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns losses and norms of the steps, the losses of each sequence, and the held-out loss after."""
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.engine import Engine

    params = PretrainParams.model_validate({"threads": 1, "learning_rate": 1e-3, "global_batch": 8, "micro_batch": 2} | spec["params"])
    model = ModelParams.model_validate(MODEL | spec.get("model", {}))
    built = build(model, vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=3, objective=params.head)
    engine = Engine(built, params, mask_id=1 if params.objective == "masked" else None)
    data = batches(spec["steps"], params.batches().size)
    if spec.get("one_batch"):
        data = data[:1] * spec["steps"]
    mine = [batch.part(engine.layout.rows(len(batch.seq_ids))) for batch in data]
    results = [engine.step(batch, params.learning_rate, step=step, ratios=spec.get("ratios", False)) for step, batch in enumerate(mine, 1)]
    (held_out,) = batches(1, 5, seed=9)
    sums = engine.sequence_losses(held_out)
    return {
        "loss": [result.loss for result in results],
        "losses": [result.losses for result in results],
        "grad_norm": [result.grad_norm for result in results],
        "applied": [result.applied for result in results],
        "pair_loss": [result.pair_loss for result in results],
        "ratios": [result.update_ratios for result in results],
        "held_out": float(sums.sum() / held_out.n_labels()),
    }


def run(tmp: Path, ranks: int, spec: dict[str, Any]) -> dict[str, Any]:
    """The job on so many processes, over gloo or on as many GPUs; every rank must say the same."""
    import torch

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    (tmp / "spec.json").write_text(json.dumps(spec))
    world = {"WORLD_SIZE": str(ranks), "LOCAL_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    common = os.environ | world | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    if not torch.cuda.is_available():
        common["DS_ACCELERATOR"] = "cpu"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.on_ranks", str(tmp / "spec.json"), str(tmp / f"{rank}.json")],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    said = [process.communicate(timeout=280)[1] for process in started]
    assert [process.returncode for process in started] == [0] * ranks, "\n".join(said)[-4000:]
    found_by_rank = [json.loads((tmp / f"{rank}.json").read_text()) for rank in range(ranks)]
    for other in found_by_rank[1:]:
        assert other["losses"] == found_by_rank[0]["losses"]
        assert other["held_out"] == found_by_rank[0]["held_out"]
    return found_by_rank[0]


if __name__ == "__main__":
    from trainplane.pretrain.engine import stop_processes

    Path(sys.argv[2]).write_text(json.dumps(job(json.loads(Path(sys.argv[1]).read_text()))))
    stop_processes()
