"""Direct preference optimisation: a fresh adapter learns to prefer one answer to another, held to the model it starts from.

Source: DPO, Rafailov et al. 2023, arXiv:2305.18290, equation 7. At the first step policy and reference are one model, so that the
loss is -log sigmoid(0) = ln 2 whatever the data: a free check of masks, reference and dropout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import DataError
from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, lora_config, probe
from trainplane.align.params import DPOParams
from trainplane.data.chat import ChatEncoder
from trainplane.data.preference import EncodedPair, Pair, encode_pair
from trainplane.errors import TrainingError

MAX_FIRST_LOSS_DELTA = 1e-3
CURVE = {
    "loss": "loss", "margin": "rewards/margins", "accuracy": "rewards/accuracies", "chosen": "rewards/chosen",
    "rejected": "rewards/rejected", "learning_rate": "learning_rate",
}  # fmt: skip


@dataclass(frozen=True)
class Tokenised:
    """Pairs ready to train on.

    Attributes:
        ids: Id of each.
        encoded: Tokens of each, whole.
        n_too_long: Pairs left out: an answer that is cut says nothing of which is better.
    """

    ids: list[str]
    encoded: list[EncodedPair]
    n_too_long: int


def tokenise(pairs: Sequence[Pair], encoder: ChatEncoder, max_length: int) -> Tokenised:
    """Tokens of the pairs that fit.

    Raises:
        DataError: None does.
    """
    both = [(pair.id, encode_pair(pair, encoder)) for pair in pairs]
    fit = [(name, encoded) for name, encoded in both if encoded.longest() <= max_length]
    if not fit:
        raise DataError(f"no pair is left of {len(pairs)}", where="dpo", fix="raise dpo.max_length, or add data")
    return Tokenised([name for name, _ in fit], [encoded for _, encoded in fit], len(both) - len(fit))


def pick(pairs: Sequence[Pair], split: str, most: int, seed: int) -> list[Pair]:
    """A sample of one split."""
    ours = [pair for pair in pairs if pair.split == split]
    return [ours[place] for place in session.choose([pair.id for pair in ours], most, seed)]


def answer_logps(model: Any, encoded: Sequence[EncodedPair], pad_id: int, batch_size: int) -> Any:
    """Log-probability of each answer as a whole, given its prompt.

    Returns:
        float64 tensor [n, 2], nats: chosen, rejected.
    """
    import torch

    rows = [(pair.prompt_ids, answer) for pair in encoded for answer in (pair.chosen_ids, pair.rejected_ids)]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place][0]) + len(rows[place][1]))
    out = torch.empty(len(rows), dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            out[places] = _batch_logps(model, [rows[place] for place in places], pad_id)
    return out.reshape(-1, 2)


def _batch_logps(model: Any, rows: list[tuple[list[int], list[int]]], pad_id: int) -> Any:
    import torch

    length = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids_BT = torch.tensor(
        [prompt + answer + [pad_id] * (length - len(prompt) - len(answer)) for prompt, answer in rows], device=model.device
    )
    spans = [(len(prompt), len(prompt) + len(answer)) for prompt, answer in rows]
    mask_BT = torch.tensor([[int(place < stop) for place in range(length)] for _, stop in spans], device=model.device)
    logits_BTV = model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits
    sums = []
    for row, (start, stop) in enumerate(spans):
        logps_TV = logits_BTV[row, start - 1 : stop - 1].float().log_softmax(-1)
        sums.append(logps_TV.gather(-1, ids_BT[row, start:stop, None]).double().sum())
    return torch.stack(sums).cpu()


def accuracy(logps: Any, reference: Any | None = None) -> float:
    """Share of the pairs whose chosen answer is the likelier one; with a reference, whose chances grew more than the other's."""
    gains = logps if reference is None else logps - reference
    return float((gains[:, 0] > gains[:, 1]).double().mean())


def preferring(trainer_class: Any) -> Any:
    """trl's trainer, on pairs that are tokens already: it would tokenise texts, and take `<|end|>` in them for the end."""

    class Preferring(trainer_class):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            return dataset

    return Preferring


def check_first_loss(step: int, log: dict[str, float]) -> None:
    """The first loss is ln 2.

    Raises:
        TrainingError: It is not.
    """
    if step == 1 and not abs(float(log["loss"]) - math.log(2)) <= MAX_FIRST_LOSS_DELTA:
        raise TrainingError(
            f"the first loss is {float(log['loss']):.6f}, expected ln 2 = {math.log(2):.6f}",
            where="dpo",
            fix="report it: policy and reference are not one model at the start",
        )


def train(model: Any, tokenizer: Any, data: Tokenised, params: DPOParams, folder: Path) -> tuple[Any, session.Book]:
    """Trains; returns the model with its adapter, and the book of the run.

    Args:
        model: The base. The reference is this model with the adapter switched off.
        tokenizer: Of the model.
        data: To train on.
        params: Of the stage.
        folder: For the ledger.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: The first loss is not ln 2.
    """
    import datasets
    from trl import DPOConfig, DPOTrainer

    steps = session.schedule(params, len(data.ids))
    dataset = datasets.Dataset.from_list([asdict(data.encoded[place]) for step in steps for place in step])
    base_logits = probe(model)
    args = DPOConfig(**session.trainer_args(params, folder), beta=params.beta, loss_type=["sigmoid"], disable_dropout=True)
    trainer = session.booked(preferring(DPOTrainer))(
        model=model, args=args, train_dataset=dataset, processing_class=tokenizer, peft_config=lora_config(params)
    )
    check_starts_at_base(trainer.model, base_logits)
    book = session.Book(folder / "consumed.jsonl", data.ids, steps, "dpo", CURVE)
    session.run(trainer, book, check_first_loss)
    return trainer.model, book
