"""Held-out examples that are also trained on: what is learnt by heart would be measured as what is learnt."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from trainplane.errors import TrainingError

SHOWN = 3


def check_overlap(asked: Iterable[tuple[str, str, str]], stage: str) -> None:
    """No question stands in both splits.

    Args:
        asked: Id, split and question of each example. Questions that differ in case, width or white space alone are one.
        stage: For the message.

    Raises:
        TrainingError: Some do.
    """
    ids: dict[str, dict[str, str]] = {"train": {}, "held_out": {}}
    for name, split, question in asked:
        ids[split].setdefault(plain_question(question), name)
    both = sorted(ids["train"].keys() & ids["held_out"].keys())
    if both:
        shown = ", ".join(f"{ids['held_out'][question]} = {ids['train'][question]}" for question in both[:SHOWN])
        raise TrainingError(
            f"{len(both)} held-out questions are trained on too: {shown}",
            where=stage,
            fix="take them out of one split, or run dedup on the data",
        )


def plain_question(text: str) -> str:
    """A question without the differences of case, width and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
