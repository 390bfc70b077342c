"""Proximal policy optimisation: small, and each of its steps is checked by hand in the tests.

The actor is the policy with a LoRA adapter; the reference is the same model with the adapter off. The critic is a network of its own over
the reference's last hidden states, which the reference's pass gives anyway: it costs no second model, and cannot disturb the actor.

Source: PPO, Schulman et al. 2017, arXiv:1707.06347; for language models, Ziegler et al. 2019, arXiv:1909.08593, and Ouyang et al. 2022,
arXiv:2203.02155, section 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainplane.align import session
from trainplane.align.adapter import check_starts_at_base, lora_config, probe
from trainplane.align.advantages import KLController, gae, kl_estimate, masked_mean, token_rewards, whiten
from trainplane.align.clipping import policy_loss, value_loss
from trainplane.align.guards import State
from trainplane.align.held_out import answers_of
from trainplane.align.prompts import Question
from trainplane.align.rl_params import PPOParams
from trainplane.align.rl_run import RLRun
from trainplane.align.rollout import Rollout, draw, reference, say
from trainplane.data.order import permute
from trainplane.errors import NotFinite, TrainingError
from trainplane.pretrain.metrics import progress_bar

MAX_FIRST_RATIO_DELTA = 1e-3  # of a probability's ratio, fp32
CURVE = {
    "loss": "loss", "score": "score", "kl": "kl", "kl_coefficient": "kl_coefficient", "entropy": "entropy", "length": "length",
    "finished": "finished", "clipped": "clipped", "value_loss": "value_loss", "learning_rate": "learning_rate",
}  # fmt: skip


@dataclass(frozen=True)
class Experience:
    """A round of answers, with all that an update needs.

    Attributes:
        rollout: The answers.
        old_BT: Log-probabilities by the policy that drew them.
        hidden_BTD: What the critic sees.
        values_BT: By the critic as it was.
        advantages_BT: Whitened.
        returns_BT: What the critic should have said.
    """

    rollout: Rollout
    old_BT: Any
    hidden_BTD: Any
    values_BT: Any
    advantages_BT: Any
    returns_BT: Any


@dataclass
class Learner:
    """What learns.

    Attributes:
        model: The policy with its adapter.
        critic: The value of a hidden state.
        controller: What a nat of KL costs.
        optimizer: Of the adapter.
        critic_optimizer: Of the critic.
    """

    model: Any
    critic: Any
    controller: KLController
    optimizer: Any
    critic_optimizer: Any


def fresh_critic(hidden_size: int, device: Any) -> Any:
    """One hidden layer, and an output that says 0."""
    import torch

    last = torch.nn.Linear(hidden_size, 1)
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    return torch.nn.Sequential(torch.nn.Linear(hidden_size, hidden_size), torch.nn.Tanh(), last).to(device)


def fresh_learner(model: Any, params: PPOParams) -> Learner:
    """A learner whose policy is the model, exactly.

    Raises:
        TrainingError: The fresh adapter changes the model.
    """
    import torch
    from peft import get_peft_model

    base_logits = probe(model)
    adapted = get_peft_model(model, lora_config(params)).eval()
    check_starts_at_base(adapted, base_logits)
    critic = fresh_critic(model.config.hidden_size, model.device)
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    return Learner(
        adapted,
        critic,
        KLController(params.kl_coefficient, params.kl_target, params.kl_gain),
        torch.optim.AdamW(trained, lr=params.learning_rate, weight_decay=0.0),
        torch.optim.AdamW(critic.parameters(), lr=params.value_learning_rate, weight_decay=0.0),
    )


def experience(learner: Learner, rollout: Rollout, scores: Sequence[float], params: PPOParams) -> tuple[Experience, dict[str, float]]:
    """What the answers teach, and the means to tell of them.

    Args:
        learner: Its policy drew the answers.
        rollout: The answers.
        scores: Of the answers, by the rewards.
        params: Of the stage.
    """
    import torch

    mask_BT = rollout.mask_BT
    scores_B = torch.tensor(scores, device=mask_BT.device) - params.missing_eos_penalty * (~rollout.finished_B).float()
    with torch.no_grad():
        policy = say(learner.model, rollout, params.temperature)
        with reference(learner.model):
            base = say(learner.model, rollout, params.temperature)
        values_BT = learner.critic(base.hidden_BTD)[..., 0] * mask_BT
    kl_BT = kl_estimate(policy.logps_BT, base.logps_BT, params.kl_estimator) * mask_BT
    rewards_BT = token_rewards(scores_B, kl_BT, mask_BT, learner.controller.coefficient)
    if params.whiten_rewards:
        rewards_BT = whiten(rewards_BT, mask_BT, centre=False)
    advantages_BT, returns_BT = gae(rewards_BT, values_BT, mask_BT, params.gamma, params.lam)
    made = Experience(rollout, policy.logps_BT, base.hidden_BTD, values_BT, whiten(advantages_BT, mask_BT), returns_BT)
    return made, {
        "score": math.fsum(scores) / len(scores), "kl": float(kl_BT.sum(-1).mean()), "length": float(mask_BT.sum(-1).mean()),
        "entropy": float(masked_mean(policy.entropy_BT, mask_BT)), "finished": float(rollout.finished_B.float().mean()),
    }  # fmt: skip


def update(learner: Learner, made: Experience, params: PPOParams, step: int) -> dict[str, float]:
    """Some passes over the answers of a round; the means of what happened.

    Raises:
        NotFinite: A loss or a gradient is NaN or infinite; nothing was learnt from it.
        TrainingError: The very first ratio is not 1.
    """
    n, told = len(made.old_BT), []
    for epoch in range(params.epochs):
        order = permute(np.arange(n, dtype=np.int64), n, params.seed + step, epoch).tolist()
        for start in range(0, n, params.mini_batch):
            told.append(_update_once(learner, made, order[start : start + params.mini_batch], params, step))
            if step == 1 and len(told) == 1:
                check_first_ratio(told[0]["ratio_delta"])
    return {name: math.fsum(one[name] for one in told) / len(told) for name in told[0]}


def _update_once(learner: Learner, made: Experience, places: list[int], params: PPOParams, step: int) -> dict[str, float]:
    part = made.rollout.rows(places)
    said = say(learner.model, part, params.temperature)
    values_BT = learner.critic(made.hidden_BTD[places])[..., 0]
    actor, clipped = policy_loss(said.logps_BT, made.old_BT[places], made.advantages_BT[places], part.mask_BT, params.clip_ratio)
    critic = value_loss(values_BT, made.values_BT[places], made.returns_BT[places], part.mask_BT, params.clip_value)
    norm = _descend(learner, actor + critic, params.clip, step)
    moved_BT = ((said.logps_BT.detach() - made.old_BT[places]).exp() - 1).abs() * part.mask_BT
    return {
        "loss": float(actor.detach()), "value_loss": float(critic.detach()), "clipped": clipped, "grad_norm": norm,
        "ratio_delta": float(moved_BT.max()),
    }  # fmt: skip


def _descend(learner: Learner, loss: Any, clip: float, step: int) -> float:
    """One step of both optimizers, whose parameters share no gradient; the norm of the actor's gradient before clipping."""
    import torch

    learner.optimizer.zero_grad()
    learner.critic_optimizer.zero_grad()
    loss.backward()
    trained = [parameter for group in learner.optimizer.param_groups for parameter in group["params"]]
    norm = float(torch.nn.utils.clip_grad_norm_(trained, clip))
    critic_norm = float(torch.nn.utils.clip_grad_norm_(learner.critic.parameters(), clip))
    if not (math.isfinite(float(loss.detach())) and math.isfinite(norm) and math.isfinite(critic_norm)):
        raise NotFinite(f"step {step}: loss {float(loss.detach())}, gradient norm {norm}", where="ppo", fix="lower the learning rate")
    learner.optimizer.step()
    learner.critic_optimizer.step()
    return norm


def check_first_ratio(delta: float) -> None:
    """Before the first update, the policy is the one that drew the answers: every ratio is 1.

    Raises:
        TrainingError: One is not.
    """
    if not delta <= MAX_FIRST_RATIO_DELTA:
        raise TrainingError(
            f"a ratio of the first update is off 1 by {delta:.3g}, at most {MAX_FIRST_RATIO_DELTA} is allowed",
            where="ppo",
            fix="report it: the answers' probabilities depend on their batch or on dropout",
        )


def train(learner: Learner, run: RLRun, params: PPOParams) -> session.Book:
    """Rounds of drawing, scoring and learning; returns the book of the run.

    Args:
        learner: As `fresh_learner` makes it.
        run: With prompts, rewards and guards.
        params: Of the stage.

    Raises:
        NotFinite: A loss is not a number.
        TrainingError: A check failed, or an alarm stops the run.
    """
    from transformers import get_cosine_schedule_with_warmup

    steps = session.schedule(params, len(run.questions))
    book = session.Book(run.work / "consumed.jsonl", [question.id for question in run.questions], steps, "ppo", CURVE)
    warmup = min(params.warmup_steps, params.max_steps // 2)
    schedule = get_cosine_schedule_with_warmup(learner.optimizer, warmup, params.max_steps)
    with progress_bar() as progress:
        bar = progress.add_task("ppo", total=len(steps), said="")
        for step, places in enumerate(steps, 1):
            rate = {"learning_rate": schedule.get_last_lr()[0], "kl_coefficient": learner.controller.coefficient}
            rollout, means = _round(learner, run, [run.questions[place] for place in places], params, step)
            book.see({"input_ids": rollout.ids_BL})
            book.close(means | rate)
            schedule.step()
            run.guards.check(step, State(means["score"], means["kl"], means["length"], means["entropy"]))
            run.look(step, learner.model)
            progress.update(bar, advance=1, said=f"score {means['score']:.3f}")
    return book


def _round(learner: Learner, run: RLRun, asked: list[Question], params: PPOParams, step: int) -> tuple[Rollout, dict[str, float]]:
    """Draws, scores and learns from one answer to each prompt."""
    tokenizer = run.encoder.tokenizer
    rollout = draw(
        learner.model, [question.ids for question in asked], stop_ids=run.stop_ids, pad_id=tokenizer.pad_token_id,
        max_new_tokens=params.max_new_tokens, temperature=params.temperature, seed=round_seed(params.seed, step),
    )  # fmt: skip
    answers = answers_of(rollout, asked, tokenizer)
    scores = run.held_out.scorer.score(answers)
    run.guards.keep(step, answers, scores)
    made, means = experience(learner, rollout, scores, params)
    means |= update(learner, made, params, step)
    learner.controller.update(means["kl"])
    return rollout, means


def round_seed(seed: int, step: int) -> int:
    """Seed of the drawing of a round: another for each seed and step."""
    return (seed << 32) + step
