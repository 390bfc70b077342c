"""What a policy does on prompts that it was not trained on, and what a judge that it was not trained to please says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import ParamsError
from trainplane.align.prompts import Question
from trainplane.align.rewards import Answer, Scorer
from trainplane.align.rl_params import RewardUse, RLParams
from trainplane.align.rollout import Rollout, draw, reference, say
from trainplane.align.sft import answer_loss
from trainplane.data.chat import ChatEncoder, read_examples

Judge = Callable[[Any, Sequence[Answer]], float]
"""Model and its held-out answers -> how good it is; more is better."""


@dataclass(frozen=True)
class Measured:
    """Of a policy, on held-out prompts.

    Attributes:
        answers: What it wrote.
        scores: Of the answers.
        kl: Mean KL of an answer to the reference, nats.
        length: Mean tokens of an answer.
        finished: Share of the answers that ended by themselves.
        judged: What the judge says; None without one.
    """

    answers: list[Answer]
    scores: list[float]
    kl: float
    length: float
    finished: float
    judged: float | None

    @property
    def score(self) -> float:
        """Mean score."""
        return math.fsum(self.scores) / len(self.scores)

    def told(self, step: int) -> dict[str, float | int | None]:
        """For the metrics."""
        return {
            "step": step, "score": self.score, "kl": self.kl, "length": self.length, "finished": self.finished, "judged": self.judged,
        }  # fmt: skip


def answers_of(rollout: Rollout, questions: Sequence[Question], tokenizer: Any) -> list[Answer]:
    """The answers as rewards see them."""
    rows = zip(questions, rollout.answer_ids, rollout.finished_B.tolist(), strict=True)
    return [Answer(q.ids, ids, tokenizer.decode(ids, skip_special_tokens=True), done, q.record) for q, ids, done in rows]


@dataclass(frozen=True)
class HeldOut:
    """The prompts and who looks at the answers.

    Attributes:
        questions: Held-out prompts.
        scorer: The rewards that are trained on.
        judge: Who is not; None for nobody.
        tokenizer: Of the model.
        stop_ids: Tokens that end an answer.
        params: Of the stage.
    """

    questions: Sequence[Question]
    scorer: Scorer
    judge: Judge | None
    tokenizer: Any
    stop_ids: list[int]
    params: RLParams

    def measure(self, model: Any) -> Measured:
        """One answer to each prompt, drawn by the stage's seed, so that two looks at one model are equal.

        Args:
            model: The policy with its adapter.
        """
        answers: list[Answer] = []
        kl, was_training = 0.0, model.training
        for start in range(0, len(self.questions), self.params.batch_size):
            asked = self.questions[start : start + self.params.batch_size]
            rollout = draw(
                model, [question.ids for question in asked], stop_ids=self.stop_ids, pad_id=self.tokenizer.pad_token_id,
                max_new_tokens=self.params.max_new_tokens, temperature=self.params.temperature, seed=self.params.seed + start,
            )  # fmt: skip
            answers += answers_of(rollout, asked, self.tokenizer)
            kl += _kl(model, rollout, self.params.temperature)
        lengths, done = [len(answer.ids) for answer in answers], [answer.finished for answer in answers]
        n, judged = len(answers), self.judge(model, answers) if self.judge else None
        model.train(was_training)
        return Measured(answers, self.scorer.score(answers), kl / n, sum(lengths) / n, sum(done) / n, judged)


def _kl(model: Any, rollout: Rollout, temperature: float) -> float:
    """Sum over the answers of log policy - log reference, nats."""
    import torch

    with torch.no_grad():
        policy = say(model, rollout, temperature).logps_BT
        with reference(model):
            base = say(model, rollout, temperature).logps_BT
    return float(((policy - base) * rollout.mask_BT).sum())


def find_judge(name: str, folder: str, parent: Path, encoder: ChatEncoder, params: RLParams) -> Judge | None:
    """The judge that `judge` names.

    Args:
        name: none | answers | model.
        folder: Of the judge's reward model, for `model`.
        parent: Folder of the policy's base, whose held-out answers `answers` goes by.
        encoder: Of the policy.
        params: Of the stage.

    Raises:
        ParamsError: The base has no held-out answers.
        ModelMissing: There is no such reward model.
    """
    if name == "none":
        return None
    if name == "model":
        scorer = Scorer([RewardUse(use="model", params={"folder": folder}, weight=1.0)])
        return lambda model, answers: math.fsum(scorer.score(answers)) / len(answers)
    path = parent / "held_out.jsonl"
    if not path.is_file():
        raise ParamsError(f"{path} is not there", where="judge", fix="take `judge: none`, or `model` with a judge_model")
    encoded = [encoder.encode(example.messages).cut(params.max_length) for example in read_examples([path.as_posix()], Path())]
    fit = [one for one in encoded if one.n_labels()]
    return lambda model, answers: -answer_loss(model, fit, encoder.tokenizer.pad_token_id, params.batch_size)
