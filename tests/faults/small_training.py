"""A tiny pretraining run at several ranks, forked from a process that has imported torch and DeepSpeed: it takes a second or two."""

import hashlib
import json
import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dataplane.settings import TrainingSettings
from trainplane.data.packed import Batch, Packed, make_batch
from trainplane.params import ModelParams, PretrainParams

LENGTH, N_SEQUENCES, VOCABULARY = 16, 20, 64
DROPOUT = 0.1  # so that random numbers matter
MODEL = ModelParams(hidden_size=32, n_layers=2, n_heads=2, n_kv_heads=2, intermediate_size=48)
# Two ranks, two micro-batches each; an epoch is 2.5 steps.
PARAMS = PretrainParams(
    steps=12, global_batch=8, micro_batch=2, warmup_steps=2, checkpoint_every=3, held_out_every=6, learning_rate=1e-2, threads=1
)
RANKS = 2
RESULT, SAVED = "result.json", "model"


class InMemory(Packed):
    """Sequences of two documents each, without a lake.

    Args:
        input_ids: int64 [n, t]
    """

    def __init__(self, input_ids: npt.NDArray[np.int64]) -> None:
        self.input_ids = input_ids
        self.n_sequences, self.sequence_length = input_ids.shape

    def batch(self, seq_ids: npt.NDArray[np.int64]) -> Batch:
        return make_batch(seq_ids, self.input_ids[seq_ids], self.spans(seq_ids))

    def spans(self, seq_ids: npt.NDArray[np.int64]) -> list[list[dict[str, Any]]]:
        half = self.sequence_length // 2
        return [
            [{"doc_id": f"{2 * i + part:032x}", "seq_start": part * half, "doc_start": 0, "length": half} for part in (0, 1)]
            for i in seq_ids.tolist()
        ]


def sequences(n: int = N_SEQUENCES, length: int = LENGTH) -> InMemory:
    """Text that can be learnt: each document counts up from some token."""
    starts = np.random.default_rng(0).integers(2, VOCABULARY, (n, 2, 1))
    ids = (starts + np.arange(length // 2)) % (VOCABULARY - 2) + 2
    return InMemory(ids.reshape(n, length).astype(np.int64))


def preload() -> None:
    """Imports what a run needs, before any fork."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed  # noqa: F401
    import transformers  # noqa: F401

    from trainplane.model.build import outline

    # Not `build`: its check of the model takes threads, and a forked rank that inherits them waits for ever.
    outline(MODEL, vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1)


def train(folder: Path, packed: Packed, params: PretrainParams, settings: TrainingSettings) -> None:
    """What a rank does: the run, and on rank 0 a file of what came of it and the model, checked as the stage checks it."""
    from trainplane.model.build import build, save_model, weights_digest
    from trainplane.pretrain.engine import Engine
    from trainplane.pretrain.export import check_export, whole_weights
    from trainplane.pretrain.held_out import HeldOut
    from trainplane.pretrain.loop import Trainer, Watched

    model = build(MODEL, vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=params.seed)
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = DROPOUT
    held_out = HeldOut.of([list(range(5, 12)), list(range(30, 40))], LENGTH, 0, 1, {"source": ["a", "b"]})
    trainer = Trainer(Engine(model, params), packed, params, folder, Watched(held_out), settings)
    (folder / f"started_{os.environ['RANK']}").touch()
    trainer.run()
    with whole_weights(trainer.engine):
        digest = weights_digest(model)
        if trainer.ledger is not None:
            save_model(model, folder / SAVED)
            check_export(trainer.engine, folder / SAVED, packed.batch(np.arange(2)))
    if trainer.ledger is not None:
        ledger = hashlib.sha256(trainer.ledger.path.read_bytes()).hexdigest()
        found = {"weights": digest, "ledger": ledger, "chain": trainer.ledger.head}
        (folder / RESULT).write_text(json.dumps(found | {"interventions": trainer.interventions.to_json()}))


@dataclass
class Run:
    """Ranks that are at work.

    Attributes:
        pids: Of the ranks.
        log: Folder of what they said.
    """

    pids: list[int]
    log: Path

    def kill(self, ranks: list[int]) -> None:
        """kill -9."""
        for number in ranks:
            os.kill(self.pids[number], signal.SIGKILL)

    def alive(self) -> bool:
        """Whether a rank still runs; one that has ended is not waited for here."""
        return any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for pid in self.pids)

    def wait(self) -> list[int]:
        """Exit codes, by rank; minus the signal where one ended it."""
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in self.pids]

    def said(self) -> str:
        """The ends of the logs."""
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.log.glob("log_*")))


def start(
    folder: Path,
    ranks: int = RANKS,
    packed: Packed | None = None,
    params: PretrainParams = PARAMS,
    settings: TrainingSettings | None = None,
    before: Any = None,
) -> Run:
    """Forks the ranks of a run.

    Args:
        folder: Of the run.
        ranks: How many.
        packed: The sequences.
        params: Of the run.
        settings: Of the run.
        before: Called in each rank before it starts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pids = []
    for number in range(ranks):
        group = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        pid = os.fork()
        if not pid:
            os.environ.update({name: str(value) for name, value in group.items()})
            _child(folder, number, lambda: train(folder, packed or sequences(), params, settings or TrainingSettings()), before)
        pids.append(pid)
    return Run(pids, folder)


def _child(folder: Path, number: int, work: Any, before: Any) -> None:
    """The life of a rank; never returns."""
    code = 1
    try:
        log = os.open(folder / f"log_{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if before is not None:
            before()
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the log tells
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def finish(folder: Path, **how: Any) -> dict[str, Any]:
    """Runs to the end; what came of it.

    Raises:
        RuntimeError: A rank failed.
    """
    run = start(folder, **how)
    codes = run.wait()
    if any(codes):
        raise RuntimeError(f"exit codes {codes}\n{run.said()}")
    return result(folder)


def result(folder: Path) -> dict[str, Any]:
    """What a run came to."""
    return dict(json.loads((folder / RESULT).read_text()))
