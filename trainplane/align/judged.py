"""What learning from judged answers needs beside learning from pairs: both labels, and how well they are told apart.

Source: KTO, Ethayarajh et al. 2024, arXiv:2402.01306.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dataplane.errors import DataError
from trainplane.align.params import DPOParams
from trainplane.align.preference import Tokenised
from trainplane.data.judged import EncodedAnswer
from trainplane.evaluate.uncertainty import superiority


def check_labels(answers: Sequence[EncodedAnswer], split: str) -> None:
    """There are good and bad answers.

    Raises:
        DataError: All labels of a split are the same.
    """
    good = sum(one.desirable for one in answers)
    if good in (0, len(answers)):
        raise DataError(
            f"all {len(answers)} {split} answers are {'desirable' if good else 'undesirable'}: there is nothing to tell apart",
            where="dpo",
            fix="add answers of the other label, or take loss and data of pairs",
        )


def judged_metrics(data: Tokenised[EncodedAnswer], held_out: Tokenised[EncodedAnswer], gains: Any, params: DPOParams) -> dict[str, Any]:
    """What to tell of a run.

    Args:
        data: Trained on.
        held_out: Not trained on.
        gains: float64 tensor [n], by how much each held-out answer became likelier, nats.
        params: Of the stage.

    Returns:
        Among others `weight_ratio` (desirable answers times their weight, over the same of the undesirable: between 1 and 4/3 by the
        paper), and `held_out_reward_auc`, the chance that a desirable answer's reward is above an undesirable one's (an untrained
        policy is at 1/2), with its 95 % interval.
    """
    good = sum(one.desirable for one in data.encoded)
    bad = len(data.encoded) - good
    labels = Counter(answer for answer, _ in {((*one.prompt_ids, -1, *one.answer_ids), one.desirable) for one in data.encoded})
    better, worse = (gains[[one.desirable == label for one in held_out.encoded]].tolist() for label in (True, False))
    auc = superiority(better, worse, seed=params.seed)
    return {
        "answers": len(data.encoded), "answers_too_long": data.n_too_long, "desirable": good, "undesirable": bad,
        "judged_both_ways": sum(count > 1 for count in labels.values()),
        "weight_ratio": good * params.desirable_weight / (bad * params.undesirable_weight),
        "held_out_answers": len(held_out.encoded), "held_out_answers_too_long": held_out.n_too_long,
        "held_out_reward_auc": auc.value, "held_out_reward_auc_low": auc.low, "held_out_reward_auc_high": auc.high,
        "held_out_desirable_gain_nats": sum(better) / len(better), "held_out_undesirable_gain_nats": sum(worse) / len(worse),
    }  # fmt: skip
