"""What both trainers share: the order of the examples, the ledger of what was consumed, the curve, and a quiet stderr."""

from __future__ import annotations

import contextlib
import hashlib
import logging as python_logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dataplane.params import digest
from trainplane.align.params import AlignParams
from trainplane.data.order import epoch_of_step, sequences_of_step
from trainplane.errors import NotFinite
from trainplane.lineage.ledger import Ledger
from trainplane.pretrain.metrics import progress_bar

T = TypeVar("T")
E = TypeVar("E")


def sample(items: Sequence[T], most: int, seed: int, *, name: Callable[[T], str] = attrgetter("id")) -> list[T]:
    """At most so many of the items, chosen by their names and the seed alone, in the order of a hash."""
    ranked = sorted(items, key=lambda item: (hashlib.sha256(f"{seed} {name(item)}".encode()).digest(), name(item)))
    return ranked[:most]


def sample_fitting(
    items: Sequence[T], most: int, seed: int, encode: Callable[[T], E | None], *, name: Callable[[T], str] = attrgetter("id")
) -> tuple[list[tuple[T, E]], int]:
    """As `sample`, of the items that fit: those that do not are passed over, and the next takes their place.

    Args:
        items: To choose from.
        most: Items at most.
        seed: Of the order.
        encode: The item as it is learnt from; None where it is too long.
        name: Of an item.

    Returns:
        Items with what they were encoded to, and how many were passed over.
    """
    found: list[tuple[T, E]] = []
    n_passed_over = 0
    for item in sample(items, len(items), seed, name=name):
        if len(found) == most:
            break
        if (encoded := encode(item)) is None:
            n_passed_over += 1
        else:
            found.append((item, encoded))
    return found, n_passed_over


def schedule(params: AlignParams, n_examples: int) -> list[list[int]]:
    """Places of the examples of each step: an epoch is a permutation."""
    return [sequences_of_step(params.seed, step, params.batch_size, n_examples).tolist() for step in range(1, params.max_steps + 1)]


def prepare_torch(seed: int, threads: int) -> None:
    """Seeds and threads: on CPU, equal settings give equal bits."""
    import torch
    from transformers import set_seed

    torch.set_num_threads(threads)
    set_seed(seed)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the libraries' hints and bars from stderr; what matters is raised, not logged."""
    import datasets
    import torch
    from transformers.utils import logging

    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # trl imports DeepSpeed, which warns where it has to find this out
    python_logging.getLogger("bitsandbytes").setLevel(python_logging.ERROR)
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.set_verbosity(before)
            logging.enable_progress_bar()
            datasets.enable_progress_bars()


def trainer_args(params: AlignParams, folder: Path) -> dict[str, Any]:
    """Arguments of transformers' trainer that both configs take."""
    import torch

    return {
        "output_dir": str(folder), "use_cpu": not torch.cuda.is_available(), "max_steps": params.max_steps,
        "per_device_train_batch_size": params.micro(), "gradient_accumulation_steps": params.batch_size // params.micro(),
        "learning_rate": params.learning_rate,
        "lr_scheduler_type": "cosine", "warmup_steps": min(params.warmup_steps, params.max_steps // 2), "weight_decay": 0.0,
        "max_grad_norm": params.clip, "optim": "adamw_torch", "seed": params.seed, "data_seed": params.seed, "logging_steps": 1,
        "logging_nan_inf_filter": False, "report_to": [], "save_strategy": "no", "disable_tqdm": True, "dataloader_num_workers": 0,
        "dataloader_pin_memory": False, "gradient_checkpointing": False, "bf16": False, "fp16": False, "max_length": None,
        "train_sampling_strategy": "sequential", "remove_unused_columns": False,
    }  # fmt: skip


class Book:
    """Keeps the ledger and the curve while a trainer runs.

    Args:
        ledger: File of the ledger; replaced.
        ids: Id of each example.
        steps: Places of the examples of each step.
        title: Of the progress bar.
        columns: Column of the curve -> name in the trainer's log.
    """

    def __init__(self, ledger: Path, ids: Sequence[str], steps: list[list[int]], title: str, columns: dict[str, str]) -> None:
        ledger.unlink(missing_ok=True)
        self.ledger, self.ids, self.steps, self.title, self.columns = Ledger(ledger), ids, steps, title, columns
        self.curve: list[dict[str, Any]] = []
        self._seen: list[str] = []

    def see(self, inputs: dict[str, Any]) -> None:
        """Takes note of the tensors that a step is about to train on, one micro-batch after the other."""
        whole = hashlib.sha256()
        for name in sorted(name for name in inputs if name.endswith("input_ids")):
            whole.update(np.ascontiguousarray(inputs[name].detach().cpu().numpy().astype("<i4")).tobytes())
        self._seen.append(whole.hexdigest()[:32])

    def close(self, log: dict[str, float]) -> None:
        """Writes a step down, with what the trainer logged of it.

        Raises:
            NotFinite: The loss or the gradient is NaN or infinite.
        """
        step = len(self.curve) + 1
        loss, norm = float(log["loss"]), float(log["grad_norm"])
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise NotFinite(f"step {step}: loss {loss}, gradient norm {norm}", where=self.title, fix="lower the learning rate")
        places = self.steps[step - 1]
        named = [self.ids[place] for place in places]
        self.ledger.append({
            "step": step, "epoch": epoch_of_step(step, len(places), len(self.ids)), "seq_ids": places, "ids": named,
            "token_hash": digest([named, *self._seen]), "loss": loss, "learning_rate": log["learning_rate"], "grad_norm": norm,
        })  # fmt: skip
        self._seen.clear()
        self.curve.append({"step": step} | {column: log[name] for column, name in self.columns.items()})

    def head(self) -> str:
        """Brings the ledger to disk; its chain hash."""
        self.ledger.sync()
        return self.ledger.head


def booked(trainer_class: Any) -> Any:
    """The trainer's class, which shows each batch to a `book` before it trains on it."""

    class Booked(trainer_class):  # type: ignore[misc]
        book: Book

        def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            self.book.see(inputs)
            return super().training_step(model, inputs, *args, **kwargs)

    return Booked


def run(trainer: Any, book: Book, each_step: Callable[[int, dict[str, float]], None] = lambda step, log: None) -> None:
    """Trains to the end under one progress bar."""
    from transformers import PrinterCallback, TrainerCallback

    with progress_bar() as progress:
        bar = progress.add_task(book.title, total=len(book.steps), said="")

        class Keep(TrainerCallback):  # type: ignore[misc]
            def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **more: Any) -> None:
                if logs and "grad_norm" in logs:  # the trainer's closing summary has none
                    each_step(len(book.curve) + 1, logs)
                    book.close(logs)
                    progress.update(bar, advance=1, said=f"loss {logs['loss']:.3f}")

        trainer.book = book
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Keep())
        trainer.train()
