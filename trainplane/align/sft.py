"""Supervised fine-tuning: a LoRA adapter learns the assistant's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import DataError
from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, lora_config, probe
from trainplane.align.params import SFTParams
from trainplane.data.chat import ChatEncoder, Encoded, Example
from trainplane.data.packed import IGNORED


@dataclass(frozen=True)
class Tokenised:
    """Examples ready to train on.

    Attributes:
        ids: Id of each.
        encoded: Tokens of each, cut to the longest allowed.
        n_truncated: Examples whose answer was cut.
        n_too_long: Examples left out, since their prompt alone is too long.
    """

    ids: list[str]
    encoded: list[Encoded]
    n_truncated: int
    n_too_long: int


def tokenise(examples: Sequence[Example], encoder: ChatEncoder, max_length: int, split: str) -> Tokenised:
    """Tokens of the examples.

    Raises:
        DataError: None is left.
    """
    ids, encoded, n_truncated, n_too_long = [], [], 0, 0
    for example in examples:
        whole = encoder.encode(example.messages)
        cut = whole.cut(max_length)
        if not cut.n_labels():
            n_too_long += 1
            continue
        n_truncated += cut.n_labels() < whole.n_labels()
        ids.append(example.id)
        encoded.append(cut)
    if not ids:
        raise DataError(f"no {split} example is left of {len(examples)}", where="sft", fix="raise sft.max_length, or add data")
    return Tokenised(ids, encoded, n_truncated, n_too_long)


def pick(examples: Sequence[Example], split: str, most: int, seed: int) -> list[Example]:
    """A sample of one split."""
    ours = [example for example in examples if example.split == split]
    return [ours[place] for place in session.choose([example.id for example in ours], most, seed)]


def answer_loss(model: Any, encoded: Sequence[Encoded], pad_id: int, batch_size: int) -> float:
    """Mean loss over the answers' tokens, in nats, each token counted once."""
    import torch
    from torch.nn.functional import cross_entropy

    model.eval()
    total, n_labels = 0.0, 0
    ordered = sorted(encoded, key=lambda one: len(one.input_ids))
    with torch.no_grad():
        for start in range(0, len(ordered), batch_size):
            ids_BT, labels_BT, mask_BT = (tensor.to(model.device) for tensor in _padded(ordered[start : start + batch_size], pad_id))
            logits_BTV = model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits
            targets = labels_BT[:, 1:].flatten()
            total += float(cross_entropy(logits_BTV[:, :-1].flatten(0, 1).float(), targets, ignore_index=IGNORED, reduction="sum"))
            n_labels += int((targets != IGNORED).sum())
    return total / n_labels


def _padded(encoded: Sequence[Encoded], pad_id: int) -> tuple[Any, Any, Any]:
    import torch

    length = max(len(one.input_ids) for one in encoded)
    ids = [one.input_ids + [pad_id] * (length - len(one.input_ids)) for one in encoded]
    labels = [one.labels + [IGNORED] * (length - len(one.labels)) for one in encoded]
    mask = [[1] * len(one.input_ids) + [0] * (length - len(one.input_ids)) for one in encoded]
    return torch.tensor(ids), torch.tensor(labels), torch.tensor(mask)


def train(model: Any, tokenizer: Any, data: Tokenised, params: SFTParams, folder: Path) -> tuple[Any, session.Book]:
    """Trains; returns the model with its adapter, and the book of the run.

    Args:
        model: The base, which stays as it is below the adapter.
        tokenizer: Of the model.
        data: To train on.
        params: Of the stage.
        folder: For the ledger.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: The fresh adapter changes the model.
    """
    import datasets
    from trl import SFTConfig, SFTTrainer

    steps = session.schedule(params, len(data.ids))
    rows = [data.encoded[place] for step in steps for place in step]
    dataset = datasets.Dataset.from_dict({"input_ids": [row.input_ids for row in rows], "labels": [row.labels for row in rows]})
    base_logits = probe(model)
    args = SFTConfig(
        **session.trainer_args(params, folder), packing=False, shuffle_dataset=False, dataset_kwargs={"skip_prepare_dataset": True}
    )
    trainer = session.booked(SFTTrainer)(
        model=model, args=args, train_dataset=dataset, processing_class=tokenizer, peft_config=lora_config(params)
    )
    check_starts_at_base(trainer.model, base_logits)
    columns = {"loss": "loss", "learning_rate": "learning_rate"}
    book = session.Book(folder / "consumed.jsonl", data.ids, steps, "sft", columns)
    session.run(trainer, book)
    return trainer.model, book
