"""GRPO and RLOO by trl: answers to one prompt are held against each other, so that there is no critic.

trl's trainers draw and learn; the prompts' tokens, the rewards, the order, the ledger and the guards are ours.

Source: GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1; RLOO, Ahmadian et al. 2024, arXiv:2402.14740, section 3; the losses
`dapo` and `dr_grpo`, Yu et al. 2025, arXiv:2503.14476, and Liu et al. 2025, arXiv:2503.20783.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dataplane.errors import ParamsError
from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, lora_config, probe
from trainplane.align.guards import State
from trainplane.align.prompts import Question
from trainplane.align.rewards import Answer
from trainplane.align.rl_params import GRPOParams
from trainplane.align.rl_run import RLRun
from trainplane.data.order import sequences_of_step
from trainplane.errors import TrainingError

MAX_FIRST_LOSS = 1e-4
# Losses that weigh each answer alike: at the first step every ratio is 1 and a group's advantages sum to 0, so that the loss is 0.
ZERO_AT_FIRST = frozenset({"grpo", "rloo"})
CURVE = {
    "loss": "loss", "score": "reward", "spread": "reward_std", "groups_alike": "frac_reward_zero_std", "entropy": "entropy",
    "length": "completions/mean_length", "unfinished": "completions/clipped_ratio", "learning_rate": "learning_rate",
}  # fmt: skip


def schedule(params: GRPOParams, n_questions: int) -> list[list[int]]:
    """Places of the prompts of each step.

    Raises:
        ParamsError: The answers of a step are no whole groups.
    """
    if params.batch_size % params.group_size:
        raise ParamsError(
            f"batch_size {params.batch_size} is no multiple of group_size {params.group_size}", where="grpo", fix="change one of them"
        )
    n = params.batch_size // params.group_size
    return [sequences_of_step(params.seed, step, n, n_questions).tolist() for step in range(1, params.max_steps + 1)]


def check_first_loss(step: int, loss: float, params: GRPOParams) -> None:
    """The first loss is 0 where it must be.

    Raises:
        TrainingError: It is not.
    """
    if step == 1 and params.loss in ZERO_AT_FIRST and params.beta == 0 and not abs(loss) <= MAX_FIRST_LOSS:
        raise TrainingError(
            f"the first loss is {loss:.6f}, expected 0",
            where="grpo",
            fix="report it: the answers' probabilities changed between drawing and learning",
        )


def train(run: RLRun, params: GRPOParams) -> tuple[Any, session.Book]:
    """Trains; returns the model with its adapter, and the book of the run.

    Args:
        run: With model, prompts, rewards and guards.
        params: Of the stage.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: The first loss is wrong, or an alarm stops the run.
    """
    steps = schedule(params, len(run.questions))
    book = session.Book(run.work / "consumed.jsonl", [question.id for question in run.questions], steps, "grpo", CURVE)
    trainer = make_trainer(run, params, steps, book)

    def each_step(step: int, log: dict[str, float]) -> None:
        check_first_loss(step, float(log["loss"]), params)
        run.guards.check(step, State(log["reward"], None, log["completions/mean_length"], log["entropy"]))
        run.look(step, trainer.model)

    run.look(0, trainer.model)
    session.run(trainer, book, each_step)
    return trainer.model, book


def make_trainer(run: RLRun, params: GRPOParams, steps: Sequence[Sequence[int]], book: session.Book) -> Any:
    """trl's trainer over our prompts, which have their order already.

    Raises:
        TrainingError: The fresh adapter changes the model.
    """
    import datasets
    from trl import GRPOTrainer, RLOOTrainer

    dataset = datasets.Dataset.from_dict({"prompt": [run.questions[place].id for step in steps for place in step]})
    base_logits = probe(run.model)
    run.model.generation_config.eos_token_id = run.stop_ids
    trainer = asking(RLOOTrainer if params.loss == "rloo" else GRPOTrainer, run.questions, book)(
        model=run.model, args=_config(params, run), train_dataset=dataset, processing_class=run.encoder.tokenizer,
        reward_funcs=reward_function(run, book), peft_config=lora_config(params),
    )  # fmt: skip
    check_starts_at_base(trainer.model, base_logits)
    return trainer


def _config(params: GRPOParams, run: RLRun) -> Any:
    from trl import GRPOConfig, RLOOConfig

    shared = {name: value for name, value in session.trainer_args(params, run.work).items() if name != "max_length"} | {
        "num_generations": params.group_size, "max_completion_length": params.max_new_tokens, "temperature": params.temperature,
        "beta": params.beta, "epsilon": params.clip_ratio, "shuffle_dataset": False, "top_p": 1.0, "top_k": 0,
    }  # fmt: skip
    return RLOOConfig(**shared) if params.loss == "rloo" else GRPOConfig(**shared, loss_type=params.loss)


def asking(trainer_class: Any, questions: Sequence[Question], book: session.Book) -> Any:
    """trl's trainer, on prompts that are tokens already; each batch is shown to the book before it is trained on."""
    import torch

    ids = {question.id: list(question.ids) for question in questions}

    class Asking(trainer_class):  # type: ignore[misc]
        book: session.Book

        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            return [ids[name] for name in prompts], None, {}

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            out: dict[str, Any] = super()._generate_and_score_completions(inputs)
            book.see({"input_ids": torch.cat([out["prompt_ids"], out["completion_ids"]], -1)})
            return out

    return Asking


def reward_function(run: RLRun, book: session.Book) -> Callable[..., list[float]]:
    """The rewards as trl calls them; the guards keep samples of what they see."""
    by_id = {question.id: question for question in run.questions}

    def score(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **more: Any) -> list[float]:
        del more
        answers = [
            Answer(by_id[name].ids, ids, text, bool(ids) and ids[-1] in run.stop_ids, by_id[name].record)
            for name, text, ids in zip(prompts, completions, completion_ids, strict=True)
        ]
        scores = run.held_out.scorer.score(answers)
        run.guards.keep(len(book.curve) + 1, answers, scores)
        return scores

    return score
