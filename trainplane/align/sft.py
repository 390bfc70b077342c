"""Supervised fine-tuning: an adapter, or the whole model, learns the assistant's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import DataError, ParamsError
from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, probe
from trainplane.align.methods import MAX_START_DELTA, adapter_config
from trainplane.align.params import SFTParams
from trainplane.data.answer_batch import collator, padded
from trainplane.data.chat import ChatEncoder, Encoded, Example
from trainplane.data.packed import IGNORED
from trainplane.model.build import check_packing


@dataclass(frozen=True)
class Tokenised:
    """Examples ready to train on.

    Attributes:
        ids: Id of each.
        encoded: Tokens of each, at most as many as are allowed.
        n_truncated: Examples whose answer was cut.
        n_too_long: Examples left out as too long.
    """

    ids: list[str]
    encoded: list[Encoded]
    n_truncated: int
    n_too_long: int


def tokenise(examples: Sequence[Example], encoder: ChatEncoder, params: SFTParams, split: str) -> Tokenised:
    """Tokens of the examples.

    Raises:
        DataError: One is too long and params refuse that, or none is left.
    """
    ids, encoded, n_truncated, n_too_long = [], [], 0, 0
    for example in examples:
        whole = encoder.encode(example.messages)
        cut = whole.cut(params.max_length)
        if (len(whole.input_ids) > params.max_length and params.overlong != "cut") or not cut.n_labels():
            n_too_long += 1
            continue
        n_truncated += cut.n_labels() < whole.n_labels()
        ids.append(example.id)
        encoded.append(cut)
    if n_too_long and params.overlong == "refuse":
        raise DataError(
            f"{n_too_long} of {len(examples)} {split} examples have more than {params.max_length} tokens: cut, their answers would not end",
            where="sft",
            fix="raise sft.max_length, or set sft.overlong to leave_out or cut",
        )
    if not ids:
        raise DataError(f"no {split} example is left of {len(examples)}", where="sft", fix="raise sft.max_length, or add data")
    return Tokenised(ids, encoded, n_truncated, n_too_long)


def short_enough(examples: Sequence[Example], encoder: ChatEncoder, params: SFTParams) -> tuple[list[Example], Counter[str]]:
    """The examples to choose from, and how many of each split were left out as too long, where params say to leave such out.

    They have to go before the choice: else a sample of 100 would end up with as many as happen to be short.

    Raises:
        DataError: None of a split is left.
    """
    if params.overlong != "leave_out":
        return list(examples), Counter()
    fit = [example for example in examples if len(encoder.encode(example.messages).input_ids) <= params.max_length]
    left_out = Counter(example.split for example in examples) - Counter(example.split for example in fit)
    for split in left_out:
        if not any(example.split == split for example in fit):
            raise DataError(f"no {split} example is left of {left_out[split]}", where="sft", fix="raise sft.max_length, or add data")
    return fit, left_out


def pick(examples: Sequence[Example], split: str, most: int, seed: int, shares: Mapping[str, float] | None = None) -> list[Example]:
    """A sample of one split.

    Args:
        examples: Of both splits.
        split: train | held_out
        most: Examples at most.
        seed: Of the choice.
        shares: Share of each source; the one that is shortest of examples bounds the whole. Empty takes them as they come.

    Raises:
        ParamsError: A source of the shares has no example.
    """
    ours = [example for example in examples if example.split == split]
    if not shares:
        return session.sample(ours, most, seed)
    by_source = {name: [example for example in ours if example.source == name] for name in shares}
    if absent := sorted(name for name, found in by_source.items() if not found):
        known = ", ".join(sorted({example.source for example in ours}))
        raise ParamsError(f"no {split} example of {', '.join(absent)}", where="sft.shares", fix=f"name sources that there are: {known}")
    whole = min([most, *(len(by_source[name]) / share for name, share in shares.items())])
    parts = [session.sample(by_source[name], max(1, round(whole * share)), seed) for name, share in sorted(shares.items())]
    return [example for part in parts for example in part]


def answer_losses(model: Any, encoded: Sequence[Encoded], pad_id: int, batch_size: int) -> Any:
    """Loss of each example's answers.

    Returns:
        float64 tensor [n, 2]: sum over the tokens that are learnt, in nats, and how many they are.
    """
    import torch
    from torch.nn.functional import cross_entropy

    model.eval()
    found = torch.empty(len(encoded), 2, dtype=torch.float64)
    order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].input_ids))
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            batch = {name: tensor.to(model.device) for name, tensor in padded([encoded[place] for place in places], pad_id).items()}
            targets_BT = batch.pop("labels")[:, 1:]
            logits_BTV = model(**batch, use_cache=False).logits[:, -batch["input_ids"].shape[1] :]  # behind a prompt's virtual tokens
            losses_BT = cross_entropy(logits_BTV[:, :-1].transpose(1, 2).float(), targets_BT, ignore_index=IGNORED, reduction="none")
            found[places, 0] = losses_BT.double().sum(-1).cpu()
            found[places, 1] = (targets_BT != IGNORED).sum(-1).double().cpu()
    return found


def answer_loss(model: Any, encoded: Sequence[Encoded], pad_id: int, batch_size: int) -> float:
    """Mean loss over the answers' tokens, in nats, each token counted once."""
    nats, n_labels = answer_losses(model, encoded, pad_id, batch_size).sum(0).tolist()
    return float(nats / n_labels)


def train(model: Any, tokenizer: Any, data: Tokenised, params: SFTParams, folder: Path) -> tuple[Any, session.Book]:
    """Trains; returns the model with its adapter (or the whole model), and the book of the run.

    Args:
        model: The base, which stays as it is below an adapter.
        tokenizer: Of the model.
        data: To train on.
        params: Of the stage.
        folder: For the ledger.

    Raises:
        NotFinite: A loss is not a number.
        ParamsError: The examples are to be packed, and this model would let them feel each other.
        TrainingError: The fresh adapter changes the model.
    """
    steps = session.schedule(params, len(data.ids))
    if params.pack:
        check_packing(model)
    base_logits = probe(model)
    trainer = make_trainer(model, tokenizer, [data.encoded[place] for step in steps for place in step], params, folder)
    if params.method in MAX_START_DELTA:
        check_starts_at_base(trainer.model, base_logits, allowed=MAX_START_DELTA[params.method])
    columns = {"loss": "loss", "learning_rate": "learning_rate"}
    book = session.Book(folder / "consumed.jsonl", data.ids, steps, "sft", columns)
    session.run(trainer, book)
    return trainer.model, book


def make_trainer(model: Any, tokenizer: Any, rows: Sequence[Encoded], params: SFTParams, folder: Path) -> Any:
    """trl's trainer over the examples of all steps in order; its loss is the sum over a step's answer tokens, over their number."""
    import datasets
    from trl import SFTConfig, SFTTrainer

    dataset = datasets.Dataset.from_dict({"input_ids": [row.input_ids for row in rows], "labels": [row.labels for row in rows]})
    args = SFTConfig(
        **session.trainer_args(params, folder), packing=False, shuffle_dataset=False, dataset_kwargs={"skip_prepare_dataset": True}
    )
    trainer = session.booked(SFTTrainer)(
        model=model, args=args, train_dataset=dataset, processing_class=tokenizer, peft_config=adapter_config(params),
        data_collator=collator(tokenizer.pad_token_id, params.max_length if params.pack else None),
    )  # fmt: skip
    if params.method == "qlora":
        _train_in_fp32(trainer.model)
    return trainer


def _train_in_fp32(model: Any) -> None:
    """trl turns the adapter of a 4-bit base to bfloat16; merged in fp32, it would be another one than was trained."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
