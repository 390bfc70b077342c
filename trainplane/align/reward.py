"""The reward model: a policy whose output layer is one number, trained so that of two answers the better has the higher one.

trl's RewardTrainer trains it: it takes pairs that are tokens already, so that masks, order and ledger are those of the other stages,
and nothing of it is worth a second loop. The head begins at 0, so that the first loss is ln 2 whatever the data.

Source: Bradley and Terry 1952, doi:10.2307/2334029; reward models on pairs, Ouyang et al. 2022, arXiv:2203.02155, equation 1; rewards
held around 0, Eisenstein et al. 2023, arXiv:2312.09244, section 2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainplane.align import session
from trainplane.align.adapter import lora_config
from trainplane.align.preference import Tokenised
from trainplane.align.rl_params import RewardModelParams
from trainplane.data.answer_batch import right_padded
from trainplane.data.preference import EncodedPair
from trainplane.errors import TrainingError

HEAD = "score"
MAX_FIRST_LOSS_DELTA = 1e-3
MAX_MERGE_DELTA = 1e-4  # of a reward, in fp32
CURVE = {
    "loss": "loss", "accuracy": "accuracy", "margin": "margin", "mean_reward": "mean_reward", "learning_rate": "learning_rate",
}  # fmt: skip


def load_scorer(folder: Path) -> Any:
    """A reward model (fp32); from a language model, one whose head says 0."""
    import torch
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
    )


def fresh_scorer(parent: Path) -> Any:
    """A reward model over the weights of a language model, whose head says 0."""
    import torch

    model = load_scorer(parent)
    torch.nn.init.zeros_(getattr(model, HEAD).weight)
    return model


def score_rows(model: Any, rows: Sequence[list[int]], pad_id: int, batch_size: int) -> Any:
    """Reward of each row of tokens, a prompt with its answer.

    Returns:
        float64 tensor [n].
    """
    import torch

    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    out = torch.empty(len(rows), dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            ids_BT, mask_BT = (tensor.to(model.device) for tensor in right_padded([rows[place] for place in places], pad_id))
            out[places] = model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits[:, 0].double().cpu()
    return out


def pair_rewards(model: Any, encoded: Sequence[EncodedPair], pad_id: int, batch_size: int) -> Any:
    """Rewards of both answers, float64 tensor [n, 2]: chosen, rejected."""
    rows = [pair.prompt_ids + answer for pair in encoded for answer in (pair.chosen_ids, pair.rejected_ids)]
    return score_rows(model, rows, pad_id, batch_size).reshape(-1, 2)


def check_first_loss(step: int, log: dict[str, float]) -> None:
    """The first loss is ln 2, since the head says 0 of everything.

    Raises:
        TrainingError: It is not.
    """
    if step == 1 and not abs(float(log["loss"]) - math.log(2)) <= MAX_FIRST_LOSS_DELTA:
        raise TrainingError(
            f"the first loss is {float(log['loss']):.6f}, expected ln 2 = {math.log(2):.6f}",
            where="reward",
            fix="report it: the head of a fresh reward model says something",
        )


def train(model: Any, tokenizer: Any, data: Tokenised[EncodedPair], params: RewardModelParams, folder: Path) -> tuple[Any, session.Book]:
    """Trains; returns the model with its adapter, and the book of the run.

    Args:
        model: As `fresh_scorer` makes it.
        tokenizer: Of the model.
        data: To train on.
        params: Of the stage.
        folder: For the ledger.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: The first loss is not ln 2.
    """
    import datasets
    from trl import RewardConfig, RewardTrainer

    steps = session.schedule(params, len(data.ids))
    pairs = [data.encoded[place] for step in steps for place in step]
    dataset = datasets.Dataset.from_dict({
        "chosen_ids": [pair.prompt_ids + pair.chosen_ids for pair in pairs],
        "rejected_ids": [pair.prompt_ids + pair.rejected_ids for pair in pairs],
    })  # fmt: skip
    args = RewardConfig(**session.trainer_args(params, folder), center_rewards_coefficient=params.centering, disable_dropout=True)
    trainer = session.booked(RewardTrainer)(
        model=model, args=args, train_dataset=dataset, processing_class=tokenizer, peft_config=adapter_config(params)
    )
    book = session.Book(folder / "consumed.jsonl", data.ids, steps, "reward", CURVE)
    session.run(trainer, book, check_first_loss)
    return trainer.model, book


def adapter_config(params: RewardModelParams) -> Any:
    """The adapter of the other stages; the head is trained whole and saved with it."""
    config = copy.deepcopy(lora_config(params))
    config.task_type, config.modules_to_save = "SEQ_CLS", [HEAD]
    return config


def merge(adapted: Any, parent: Path, expected_N2: Any, encoded: Sequence[EncodedPair], pad_id: int, batch_size: int) -> tuple[Any, float]:
    """The reward model with adapter and head in its weights, and the largest difference of a reward.

    The weights go into a model that is loaded afresh, so that nothing of the trainer is compared with itself.

    Args:
        adapted: The base with adapter and head.
        parent: Folder of the base.
        expected_N2: Rewards by `adapted`, float64 [n, 2].
        encoded: The pairs that it was asked about.
        pad_id: Padding token.
        batch_size: Rows at once.

    Raises:
        TrainingError: The merged model says something else, as where the head is lost (peft issue 2502).
    """
    merged = load_scorer(parent)
    merged.load_state_dict(copy.deepcopy(adapted).merge_and_unload().state_dict())
    delta = float((pair_rewards(merged, encoded, pad_id, batch_size) - expected_N2).abs().max())
    if not delta <= MAX_MERGE_DELTA * max(1.0, float(expected_N2.abs().max())):
        raise TrainingError(
            f"merging the adapter moves a reward by {delta:.3g}, at most {MAX_MERGE_DELTA} is allowed",
            where="reward",
            fix="lower the learning rate",
        )
    return merged, delta
