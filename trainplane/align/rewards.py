"""Rewards of written answers, by name. An outsider's is registered in the entry-point group `trainplane.rewards`, as these are.

A reward is a class: its params, and `score`, which gives a number for each answer. The `record` of an answer is the prompt's line in
its file, so that references and tests come with the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from dataplane import params
from dataplane.errors import ParamsError
from dataplane.registry import load
from trainplane.align.rl_params import RewardUse
from trainplane.data.jsonl import text_field
from trainplane.evaluate.pass_at_k import Problem, solves
from trainplane.evaluate.sandbox import Limits, require_sandbox
from trainplane.evaluate.text_metrics import exact_match

GROUP = "trainplane.rewards"
MEND = "add it to the prompt's record"


@dataclass(frozen=True)
class Answer:
    """What a reward sees.

    Attributes:
        prompt_ids: Tokens of the prompt.
        ids: Tokens of the answer, the one that ends it included.
        text: The answer as people read it.
        finished: Whether it ended by itself.
        record: The prompt's record.
    """

    prompt_ids: Sequence[int]
    ids: Sequence[int]
    text: str
    finished: bool
    record: Mapping[str, Any]


class Reward:
    """Base of every reward."""

    name: ClassVar[str]

    class Params(params.Params):
        """None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.params: Any = self.Params.parse(values, where=f"rewards.{self.name}")

    def open(self) -> None:
        """Loads what it needs, once a run."""

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """A number for each answer; more is better."""
        raise NotImplementedError


class Length(Reward):
    """1 for an answer of `target` tokens, less by its distance, 0 from twice as many on."""

    name = "length"

    class Params(params.Params):
        """Of the length."""

        target: int = Field(..., ge=1, description="Tokens of an answer, the one that ends it included.")

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """1 - distance / target, at least 0."""
        target = self.params.target
        return [max(0.0, 1 - abs(len(answer.ids) - target) / target) for answer in answers]


class ExactMatch(Reward):
    """1 where the answer is the record's `reference` (or one of its `references`), words compared."""

    name = "exact_match"

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """1 or 0.

        Raises:
            SourceError: A record has no reference.
        """
        return [exact_match(answer.text, _references(answer.record)) for answer in answers]


def _references(record: Mapping[str, Any]) -> list[str]:
    if isinstance(record.get("references"), list):
        return [str(reference) for reference in record["references"]]
    return [text_field(dict(record), "reference", f"prompt {record.get('id')!r}")]


class Regex(Reward):
    """The share of `pattern`'s wanted matches that an answer holds."""

    name = "regex"

    class Params(params.Params):
        """Of the pattern."""

        pattern: str = Field(..., min_length=1, description="Python regular expression, searched in the answer.")
        matches: int = Field(1, ge=1, description="Matches that earn the whole reward.")

        @field_validator("pattern")
        @classmethod
        def _compiles(cls, pattern: str) -> str:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"no regular expression: {error}") from None
            return pattern

    def open(self) -> None:
        """Compiles the pattern."""
        self._pattern = re.compile(self.params.pattern)

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """Matches over those wanted, 1 at most."""
        found = [sum(1 for _ in self._pattern.finditer(answer.text)) for answer in answers]
        return [min(1.0, n / self.params.matches) for n in found]


class Program(Reward):
    """1 where the answer, behind the record's `prompt`, passes the record's `test` in the sandbox."""

    name = "program"

    class Params(params.Params):
        """Limits of a program."""

        seconds: float = Field(5.0, gt=0, description="Seconds that a program may take.")
        memory_mb: int = Field(512, ge=64, description="MB of memory that a program may take.")

    def open(self) -> None:
        """Tries the sandbox.

        Raises:
            SandboxUnavailable: This machine cannot shut a program in.
        """
        require_sandbox()

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """1 or 0.

        Raises:
            SourceError: A record has no test or entry_point.
        """
        limits = Limits(seconds=self.params.seconds, memory_mb=self.params.memory_mb)
        return [float(solves(_problem(answer.record), answer.text, limits)) for answer in answers]


def _problem(record: Mapping[str, Any]) -> Problem:
    return Problem(*(text_field(dict(record), name, f"prompt {record.get('id')!r}") for name in ("id", "prompt", "test", "entry_point")))


class Model(Reward):
    """What a reward model says."""

    name = "model"

    class Params(params.Params):
        """Of the model."""

        folder: str = Field("models/reward", min_length=1, description="Folder of the reward model; its tokenizer is the policy's.")
        batch_size: int = Field(16, ge=1, description="Answers that it reads at once.")

    def open(self) -> None:
        """Loads the model.

        Raises:
            ModelMissing: There is none.
        """
        from trainplane.align.adapter import read_run
        from trainplane.align.reward import load_scorer

        folder = Path(self.params.folder)
        read_run(folder, "rewards.model")
        self._model = load_scorer(folder)

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """Its reward."""
        from trainplane.align.reward import score_rows

        rows = [[*answer.prompt_ids, *answer.ids] for answer in answers]
        return [float(value) for value in score_rows(self._model, rows, self._model.config.pad_token_id, self.params.batch_size)]


class Scorer:
    """The weighted sum of some rewards.

    Args:
        uses: Which, as params.yaml names them.

    Raises:
        PluginError: No reward has such a name.
        ParamsError: Params are wrong, or one reward comes twice.
    """

    def __init__(self, uses: Sequence[RewardUse]) -> None:
        names = [use.use for use in uses]
        if len(set(names)) < len(names):
            raise ParamsError(f"a reward comes twice in {names}", where="rewards", fix="name each once")
        self.rewards: list[tuple[float, Reward]] = [(use.weight, load(GROUP, use.use, where="rewards")(use.params)) for use in uses]
        for _, reward in self.rewards:
            reward.open()

    def score(self, answers: Sequence[Answer]) -> list[float]:
        """The sum, for each answer."""
        columns = [[weight * value for value in reward.score(answers)] for weight, reward in self.rewards]
        return [sum(values) for values in zip(*columns, strict=True)]
