"""Guards of reinforcement learning: alarms where a run gains its reward by going wrong, and samples for people to read.

Each alarm has a name, the value that raised it and its limit. It is written to alarms.jsonl at once; by `guards.on_alarm` it then ends the
run, or is only told in the metrics.

Source: reward up while quality falls, Gao et al. 2022, arXiv:2210.10760; KL, length and entropy are what axolotl's
docs/training_stability.qmd tells to watch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainplane.align.rewards import Answer
from trainplane.align.rl_params import GuardParams
from trainplane.errors import NotFinite, TrainingError

ALARMS, SAMPLES = "alarms.jsonl", "samples.jsonl"
MASK = "[masked]"
# What a model may have learnt by heart and no log should hold: addresses of mail, and long runs of letters and digits such as keys.
_SECRETS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+|(?=[A-Za-z_\-/+=]*\d)[A-Za-z0-9_\-/+=]{20,}")


@dataclass(frozen=True)
class Alarm:
    """Something went wrong.

    Attributes:
        step: Optimizer step, or round of answers.
        name: kl | length | entropy | quality.
        value: What was measured.
        limit: What it should not pass.
    """

    step: int
    name: str
    value: float
    limit: float


@dataclass(frozen=True)
class State:
    """What the guards look at after a step.

    Attributes:
        score: Mean score of the answers.
        kl: Mean KL of an answer to the reference, nats; None where nobody measured it.
        length: Mean tokens of an answer.
        entropy: Mean entropy of a token, nats.
    """

    score: float
    kl: float | None
    length: float
    entropy: float


class Guards:
    """Of one run.

    Args:
        params: Their limits.
        folder: For alarms.jsonl and samples.jsonl, which are begun anew.
        title: Of the stage, for errors.
    """

    def __init__(self, params: GuardParams, folder: Path, title: str) -> None:
        self.params, self.folder, self.title = params, folder, title
        self.alarms: list[Alarm] = []
        self._first: State | None = None
        self._first_judged: float | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for name in (ALARMS, SAMPLES):
            (folder / name).write_text("", encoding="utf-8")

    def check(self, step: int, state: State) -> None:
        """Looks at a step.

        Raises:
            NotFinite: A value is NaN or infinite.
            TrainingError: There is an alarm, and alarms stop the run.
        """
        for name, value in asdict(state).items():
            if value is not None and not math.isfinite(value):
                raise NotFinite(f"step {step}: {name} is {value}", where=self.title, fix="lower the learning rate, or mend the reward")
        self._first = self._first or state
        longest = self._first.length * self.params.max_length_growth
        if state.kl is not None:
            self.check_kl(step, state.kl)
        self._raise(step, "length", state.length, longest, wrong=state.length > longest)
        self._raise(step, "entropy", state.entropy, self.params.min_entropy, wrong=state.entropy < self.params.min_entropy)

    def check_kl(self, step: int, kl: float) -> None:
        """Looks at the mean KL of an answer, nats.

        Raises:
            TrainingError: It is too far, and alarms stop the run.
        """
        self._raise(step, "kl", kl, self.params.max_kl, wrong=not kl <= self.params.max_kl)

    def judge(self, step: int, score: float, judged: float) -> None:
        """Looks at the held-out judge: the first look is what later ones are held against.

        Args:
            step: 0 before the first.
            score: Mean held-out score by the rewards that are trained on.
            judged: What a judge that is not trained on says; more is better.

        Raises:
            NotFinite: A value is NaN or infinite.
            TrainingError: The score rose while the judged quality fell too far, and alarms stop the run.
        """
        if not (math.isfinite(score) and math.isfinite(judged)):
            raise NotFinite(f"step {step}: score {score}, judged {judged}", where=self.title, fix="lower the learning rate")
        if self._first_judged is None:
            self._first_judged, self._first_score = judged, score
        limit = self._first_judged - self.params.max_quality_drop
        self._raise(step, "quality", judged, limit, wrong=score > self._first_score and judged < limit)

    def _raise(self, step: int, name: str, value: float, limit: float, *, wrong: bool) -> None:
        if not wrong:
            return
        alarm = Alarm(step, name, value, limit)
        self.alarms.append(alarm)
        _append(self.folder / ALARMS, asdict(alarm))
        if self.params.on_alarm == "stop":
            raise TrainingError(
                f"alarm at step {step}: {name} is {value:.4g}, its limit is {limit:.4g}",
                where=self.title,
                fix=f"read {self.folder / SAMPLES}; lower the learning rate, raise the KL's weight, or set guards.on_alarm: record",
            )

    def keep(self, step: int, answers: Sequence[Answer], scores: Sequence[float]) -> None:
        """Writes some answers down, every `samples_every` steps, with what may be a secret masked."""
        if (step - 1) % self.params.samples_every:
            return
        for answer, score in list(zip(answers, scores, strict=True))[: self.params.samples]:
            text = _SECRETS.sub(MASK, answer.text)
            told = {"step": step, "id": answer.record.get("id"), "text": text, "score": score, "tokens": len(answer.ids)}
            _append(self.folder / SAMPLES, told)

    def told(self) -> dict[str, Any]:
        """For the metrics."""
        return {"alarms": [asdict(alarm) for alarm in self.alarms]}


def _append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
