"""What the stages `ppo` and `grpo` share: what they start from, their looks at held-out prompts, and what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.guards import ALARMS, SAMPLES, Guards
from trainplane.align.held_out import HeldOut, Measured, find_judge
from trainplane.align.prompts import Question, pick, questions_of
from trainplane.align.rewards import Scorer
from trainplane.align.rl_params import RLParams
from trainplane.align.training_data import provenance
from trainplane.data.chat import ChatEncoder
from trainplane.evaluate.uncertainty import paired_bootstrap
from trainplane.model.build import load, weights_digest
from trainplane.tokenizer import load_tokenizer

PARENT = Path("models/sft")


@dataclass
class RLRun:
    """One run.

    Attributes:
        stage: Its name.
        params: Of the stage.
        root: Of the project.
        work: Folder for what the run writes as it goes.
        parent: Record of the model that it starts from.
        model: That model.
        encoder: With its tokenizer.
        stop_ids: Tokens that end an answer.
        questions: To train on.
        held_out: To look at.
        guards: They raise alarms.
        looks: What was seen at each look, by step.
    """

    stage: str
    params: RLParams
    root: Path
    work: Path
    parent: dict[str, Any]
    model: Any
    encoder: ChatEncoder
    stop_ids: list[int]
    questions: list[Question]
    held_out: HeldOut
    guards: Guards
    looks: dict[int, Measured] = field(default_factory=dict)

    def look(self, step: int, model: Any) -> None:
        """Measures the policy on held-out prompts: before the first step, every `judge_every` steps, and after the last.

        Raises:
            NotFinite: What was measured is not finite.
            TrainingError: There is an alarm, and alarms stop the run.
        """
        if step % self.params.guards.judge_every and step != self.params.max_steps:
            return
        seen = self.looks[step] = self.held_out.measure(model)
        self.guards.check_kl(step, seen.kl)
        if seen.judged is not None:
            self.guards.judge(step, seen.score, seen.judged)

    def finish(self, adapted: Any, book: session.Book) -> dict[str, Any]:
        """Saves the model, and tells what to write into the metrics."""
        merged, delta = merge(adapted, PARENT)
        record = {
            "stage": self.stage,
            "digest": weights_digest(merged),
            "parent": self.parent["digest"],
            "steps": self.params.max_steps,
            "seed": self.params.seed,
            "rewards": [use.model_dump(mode="json") for use in self.params.rewards],
            "chain_hash": book.head(),
        } | provenance(self.params, self.root)
        folder = Path("models") / self.stage
        save(
            folder, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=self.work / "consumed.jsonl",
            stop_ids=self.stop_ids, beside=[self.work / ALARMS, self.work / SAMPLES],
        )  # fmt: skip
        return self._metrics(book.curve) | {"digest": record["digest"], "merge_max_logit_delta": delta}

    def _metrics(self, curve: Sequence[dict[str, Any]]) -> dict[str, Any]:
        before, after = self.looks[0], self.looks[self.params.max_steps]
        return {
            "steps": self.params.max_steps, "prompts": len(self.questions), "held_out_prompts": len(self.held_out.questions),
            "held_out_score_before": before.score, "held_out_score_after": after.score,
            "held_out_gain": asdict(paired_bootstrap(before.scores, after.scores, seed=self.params.seed)),
            "held_out_kl": after.kl, "held_out": [seen.told(step) for step, seen in sorted(self.looks.items())],
            "first_score": curve[0]["score"], "last_score": curve[-1]["score"],
        } | self.guards.told()  # fmt: skip


def prepare(stage: str, params: RLParams, root: Path) -> RLRun:
    """Reads and loads everything that a run needs; the faults of params and data come up here.

    Raises:
        ModelMissing: There is no model to start from.
        DataError: There are no prompts.
        ParamsError: A reward's params are wrong.
        PluginError: No reward has such a name.
    """
    parent, work = read_run(PARENT, stage), Path("journal") / stage
    questions = questions_of(params, root)
    scorer = Scorer(params.rewards)
    session.prepare_torch(params.seed, params.threads)
    tokenizer, model = load_tokenizer(PARENT), load(PARENT)
    encoder = ChatEncoder(tokenizer)
    stop_ids = encoder.stop_ids()
    train, held_out = (
        pick(questions, split, most, params.seed, encoder, params.max_length)
        for split, most in (("train", params.max_prompts), ("held_out", params.held_out_prompts))
    )
    judge = find_judge(params.judge, params.judge_model, PARENT, encoder, params)
    looked_at = HeldOut(held_out, scorer, judge, tokenizer, stop_ids, params)
    guards = Guards(params.guards, work, stage)
    return RLRun(stage, params, root, work, parent, model, encoder, stop_ids, train, looked_at, guards)
