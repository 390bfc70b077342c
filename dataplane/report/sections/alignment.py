"""The stages that a project may add: the reward model and reinforcement learning. What was not run is not shown."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import Block, Column, Heading, Note, Table
from dataplane.report.charts import Series
from dataplane.report.project import Project
from dataplane.report.sections.curves import charts, points
from dataplane.report.writing import number

POLICIES = {"ppo": "Reinforcement learning (PPO)", "grpo": "Reinforcement learning (GRPO, RLOO)"}
NATS = "nats of an answer"


def alignment(project: Project) -> list[Block]:
    """Curves, held-out figures and alarms of each of these stages."""
    blocks = _reward(project)
    for stage, title in POLICIES.items():
        if shown := _policy(project, stage):
            blocks += [Heading(title), *shown]
    return blocks


def _reward(project: Project) -> list[Block]:
    rows, held_out = project.plot("reward"), project.metrics("reward").get("held_out") or {}
    drawn = charts([
        ([Series("", points(rows, "loss"))], "loss", "Loss of the reward model (a guess costs ln 2 = 0.693)"),
        ([Series("", points(rows, "accuracy"))], "accuracy", "Share of a step's pairs that it ranks as people did"),
    ])  # fmt: skip
    return [Heading("Reward model"), *drawn, *_calibration(held_out)] if drawn or held_out else []


def _calibration(held_out: dict[str, Any]) -> list[Block]:
    if not held_out:
        return []
    text = (
        f"Of {number(held_out['pairs'])} held-out pairs it ranks {_with_interval(held_out, 'accuracy')} as people did; "
        f"its confidence is off by {_with_interval(held_out, 'calibration_error')} on average."
    )
    columns = [
        Column("Confidence from", "decimal"), Column("to", "decimal"), Column("Pairs", "int"), Column("Mean confidence", "decimal"),
        Column("Right", "decimal"), Column("95 % from", "decimal"), Column("to", "decimal"),
    ]  # fmt: skip
    names = ("low", "high", "n", "confidence", "accuracy", "accuracy_low", "accuracy_high")
    bins = [[one.get(name) for name in names] for one in held_out.get("reliability") or [] if one.get("n")]
    return [Note(text), Table(columns, bins, "How far its confidence can be believed, on held-out pairs.")]


def _with_interval(values: dict[str, Any], name: str) -> str:
    return f"{number(values[name], 3)} (95 %: {number(values[f'{name}_low'], 3)} to {number(values[f'{name}_high'], 3)})"


def _policy(project: Project, stage: str) -> list[Block]:
    rows, metrics = project.plot(stage), project.metrics(stage)
    held_out = metrics.get("held_out") or []
    looks = [{name: value for name, value in look.items() if isinstance(value, int | float)} for look in held_out]
    return charts([
        ([Series("training", points(rows, "score")), Series("held out", points(looks, "score"), dots=True)], "score", "Mean score"),
        ([Series("training", points(rows, "kl")), Series("held out", points(looks, "kl"), dots=True)], NATS, "KL to the reference"),
        ([Series("", points(rows, "entropy"))], "nats a token", "Entropy of the policy"),
        ([Series("", points(rows, "length"))], "tokens", "Mean length of an answer"),
        ([Series("", points(looks, "judged"), dots=True)], "judged", "What a judge says that it was not trained on"),
    ]) + _alarms(metrics)  # fmt: skip


def _alarms(metrics: dict[str, Any]) -> list[Block]:
    rows = [[alarm.get(name) for name in ("step", "name", "value", "limit")] for alarm in metrics.get("alarms") or []]
    columns = [Column("Step", "int"), Column("Alarm", "code"), Column("Value", "decimal"), Column("Limit", "decimal")]
    return [Table(columns, rows, "Alarms.")] if rows else []
