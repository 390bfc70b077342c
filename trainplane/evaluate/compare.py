"""Whether one model is better than another on the items that both answered: a paired bootstrap for each task and metric."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dataplane.errors import UsageError, did_you_mean
from trainplane.evaluate.scores import Score
from trainplane.evaluate.uncertainty import paired_bootstrap

ITEM_SCORES = Path("metrics/item_scores.json")


def item_rows(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Of the scores that are means, what each item had."""
    return [
        {
            "model": score.stage, "checkpoint": score.checkpoint, "task": score.task, "task_version": score.task_version,
            "template_hash": score.template_hash, "metric": score.metric, "contamination": score.contamination, "items": dict(score.items),
        }
        for score in scores if score.items is not None
    ]  # fmt: skip


def read_item_rows(path: Path = ITEM_SCORES) -> list[dict[str, Any]]:
    """What the evaluate stage left.

    Raises:
        UsageError: It left nothing yet.
    """
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{path} holds no scores of items", fix="dvc repro evaluate") from None
    return rows


def compare(rows: Sequence[Mapping[str, Any]], first: str, second: str, seed: int = 0) -> list[dict[str, Any]]:
    """Second less first, for each task and metric that both have.

    Args:
        rows: As `item_rows` makes them.
        first: Name of a model.
        second: Name of the other.
        seed: Of the bootstrap.

    Returns:
        task, metric, items, first, second, the difference with its interval and p-value; `same_template` says whether both were asked
        in the same words, and the contamination of both is told.
    """
    by_key = {(row["model"], row["task"], row["task_version"], row["metric"]): row for row in rows}
    found = []
    for (model, task, version, metric), ours in by_key.items():
        theirs = by_key.get((second, task, version, metric))
        shared = [item for item in ours["items"] if theirs and item in theirs["items"]]
        if model != first or theirs is None or not shared:
            continue
        values = [[row["items"][item] for item in shared] for row in (ours, theirs)]
        means = {name: sum(column) / len(shared) for name, column in zip(("first_mean", "second_mean"), values, strict=True)}
        found.append(
            {"first": first, "second": second, "task": task, "metric": metric, "items": len(shared)}
            | means
            | asdict(paired_bootstrap(values[0], values[1], seed=seed))
            | {
                "same_template": ours["template_hash"] == theirs["template_hash"],
                "contamination": [ours["contamination"], theirs["contamination"]],
            }
        )  # fmt: skip
    return found


def compare_models(first: str, second: str) -> list[dict[str, Any]]:
    """`compare` over the project's scores.

    Raises:
        UsageError: There are no scores, or none of such a model.
    """
    rows = read_item_rows()
    names = sorted({row["model"] for row in rows})
    for name in (first, second):
        if name not in names:
            raise UsageError(f"no scores of a model {name!r}, {did_you_mean(name, names)}", fix="add it to evaluate.models")
    return compare(rows, first, second)
