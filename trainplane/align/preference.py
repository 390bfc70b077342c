"""Preference optimisation: a fresh adapter learns to prefer one answer to another, by the loss that params name.

At the first step policy and reference are one model, so that the loss is known beforehand (DPO: ln 2): a free check of masks, reference
and dropout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from dataplane.errors import DataError
from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, lora_config, probe
from trainplane.align.losses import Answers, JudgedAnswers
from trainplane.align.params import AlignParams, DPOParams
from trainplane.align.preference_trainers import make
from trainplane.align.preference_watch import PreferenceWatch
from trainplane.data.answer_batch import right_padded
from trainplane.data.chat import ChatEncoder
from trainplane.data.judged import EncodedAnswer, Judged
from trainplane.data.preference import EncodedPair, Pair

Item = TypeVar("Item", Pair, Judged)
E = TypeVar("E", EncodedPair, EncodedAnswer)
CURVE = {
    "loss": "loss", "margin": "rewards/margins", "accuracy": "rewards/accuracies", "chosen": "rewards/chosen",
    "rejected": "rewards/rejected", "learning_rate": "learning_rate",
}  # fmt: skip


@dataclass(frozen=True)
class Tokenised(Generic[E]):
    """Pairs or judged answers ready to train on.

    Attributes:
        ids: Id of each.
        encoded: Tokens of each, whole.
        n_too_long: Those passed over: an answer that is cut says nothing of which is better.
    """

    ids: list[str]
    encoded: list[E]
    n_too_long: int


def of_split(
    items: Sequence[Item],
    split: str,
    most: int,
    encode: Callable[[Item, ChatEncoder], E],
    encoder: ChatEncoder,
    params: AlignParams,
    stage: str,
) -> Tokenised[E]:
    """A sample of one split, as tokens; what does not fit is passed over, so that as many as asked for are found where there are.

    Args:
        items: Pairs or judged answers of both splits.
        split: train | held_out
        most: Of them at most.
        encode: Makes the tokens: encode_pair or encode_judged.
        encoder: By which it makes them.
        params: Of the stage.
        stage: For the message.

    Raises:
        DataError: None fits.
    """

    def fitting(item: Item) -> E | None:
        encoded = encode(item, encoder)
        return encoded if encoded.longest() <= params.max_length else None

    found, n_too_long = session.sample_fitting([item for item in items if item.split == split], most, params.seed, fitting)
    if not found:
        what = "pair" if not getattr(params, "unpaired", False) else "judged answer"
        raise DataError(f"no {split} {what} is left of {n_too_long}", where=stage, fix=f"raise {stage}.max_length, or add data")
    return Tokenised([item.id for item, _ in found], [encoded for _, encoded in found], n_too_long)


def answer_logps(model: Any, encoded: Sequence[EncodedPair], pad_id: int, batch_size: int) -> Any:
    """Log-probability of each answer as a whole, given its prompt.

    Returns:
        float64 tensor [n, 2], nats: chosen, rejected.
    """
    rows = [(pair.prompt_ids, answer) for pair in encoded for answer in (pair.chosen_ids, pair.rejected_ids)]
    return row_logps(model, rows, pad_id, batch_size).reshape(-1, 2)


def row_logps(model: Any, rows: Sequence[tuple[list[int], list[int]]], pad_id: int, batch_size: int) -> Any:
    """As `answer_logps`, of prompts with one answer each: float64 tensor [n], nats."""
    import torch

    order = sorted(range(len(rows)), key=lambda place: len(rows[place][0]) + len(rows[place][1]))
    out = torch.empty(len(rows), dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            out[places] = _batch_logps(model, [rows[place] for place in places], pad_id)
    return out


def _batch_logps(model: Any, rows: list[tuple[list[int], list[int]]], pad_id: int) -> Any:
    import torch

    ids_BT, mask_BT = (tensor.to(model.device) for tensor in right_padded([prompt + answer for prompt, answer in rows], pad_id))
    spans = [(len(prompt), len(prompt) + len(answer)) for prompt, answer in rows]
    logits_BTV = model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits
    sums = []
    for row, (start, stop) in enumerate(spans):
        logps_TV = logits_BTV[row, start - 1 : stop - 1].float().log_softmax(-1)
        sums.append(logps_TV.gather(-1, ids_BT[row, start:stop, None]).double().sum())
    return torch.stack(sums).cpu()


def correct(logps: Any, reference: Any | None = None) -> list[float]:
    """For each pair 1 where the chosen answer is the likelier one, 0 elsewhere; with a reference, where its chances grew more than the
    other's."""
    gains = logps if reference is None else logps - reference
    found: list[float] = (gains[:, 0] > gains[:, 1]).double().tolist()
    return found


def first_answers(model: Any, pairs: Sequence[EncodedPair], pad_id: int) -> Answers:
    """Pairs as the losses see them where policy and reference are still one model."""
    import torch

    logps = answer_logps(model, pairs, pad_id, len(pairs))
    lengths = torch.tensor([[len(pair.chosen_ids), len(pair.rejected_ids)] for pair in pairs])
    return Answers(logps, logps, lengths)


def judged_logps(model: Any, answers: Sequence[EncodedAnswer], pad_id: int, batch_size: int) -> Any:
    """Log-probability of each answer as a whole, given its prompt: float64 tensor [n], nats."""
    return row_logps(model, [(one.prompt_ids, one.answer_ids) for one in answers], pad_id, batch_size)


def first_judged(model: Any, answers: Sequence[EncodedAnswer], pad_id: int, params: DPOParams) -> JudgedAnswers:
    """Judged answers as the loss sees them where policy and reference are still one model."""
    import torch

    logps = judged_logps(model, answers, pad_id, len(answers))
    weights = (params.desirable_weight, params.undesirable_weight)
    return JudgedAnswers(logps, logps, torch.tensor([one.desirable for one in answers]), weights=weights)


def train(
    model: Any, tokenizer: Any, data: Tokenised[Any], params: DPOParams, folder: Path
) -> tuple[Any, session.Book, list[dict[str, object]]]:
    """Trains; returns the model with its adapter, the book of the run, and the alarms that were raised.

    Args:
        model: The base. The reference is this model with the adapter switched off.
        tokenizer: Of the model.
        data: To train on.
        params: Of the stage.
        folder: For the ledger.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: The first loss is not the paper's, the loss does not move, or the margin runs away.
    """
    steps = session.schedule(params, len(data.ids))
    rows = [[data.encoded[place] for place in step] for step in steps]
    base_logits = probe(model)
    pad_id = tokenizer.pad_token_id
    watch = PreferenceWatch(
        params, first_judged(model, rows[0], pad_id, params) if params.unpaired else first_answers(model, rows[0], pad_id)
    )
    trainer = make(
        model, tokenizer, rows, params, args=session.trainer_args(params, folder), peft_config=lora_config(params)
    )  # fmt: skip
    check_starts_at_base(trainer.model, base_logits)
    book = session.Book(folder / "consumed.jsonl", data.ids, steps, params.loss, curve_columns(params))

    def see(step: int, log: dict[str, float]) -> None:
        watch.see(step, log)
        for name in ("rewards/chosen", "rewards/rejected", "rewards/margins"):
            log.setdefault(name, math.nan)  # a step of judged answers may hold none of one label

    session.run(trainer, book, see)
    return trainer.model, book, watch.alarms


def curve_columns(params: DPOParams) -> dict[str, str]:
    """Column of the curve -> name in the trainer's log; KTO counts no accuracy, since its answers are no pairs."""
    return {column: name for column, name in CURVE.items() if not (params.loss == "kto" and column == "accuracy")}
