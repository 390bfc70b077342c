"""Checks of PPO, GRPO and RLOO."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import yaml

from tests.alignment.reference import Lab, Outcome, check
from trainplane.align.rl_params import GRPOParams, PPOParams

REWARD = {"use": "regex", "params": {"pattern": "[a-z]", "matches": 12}}
PROMPTS = "".join(f'{{"id": "p{i}", "prompt": "Who assists students {i}?", "split": "{split}"}}\n' for i, split in enumerate(
    ["train"] * 4 + ["held_out"] * 2
))  # fmt: skip
SMALL = {
    "data": ["prompts.jsonl"], "max_steps": 1, "batch_size": 8, "warmup_steps": 0, "lora_rank": 2, "max_new_tokens": 8, "judge": "none",
    "max_length": 60, "rewards": [REWARD], "learning_rate": 0.01, "guards": {"on_alarm": "record"},
}  # fmt: skip


def prepared(lab: Lab, stage: str, params: Any) -> Any:
    """A run in a project of its own, the lab's model in the place of models/sft."""
    from trainplane.align.rl_run import prepare

    root = lab.work / stage
    (root / "models").mkdir(parents=True, exist_ok=True)
    (root / "prompts.jsonl").write_text(PROMPTS, encoding="utf-8")
    (root / "params.yaml").write_text(yaml.safe_dump({stage: SMALL}), encoding="utf-8")
    if not (root / "models" / "sft").is_symlink():
        (root / "models" / "sft").symlink_to(lab.pretrained)
    os.chdir(root)
    return prepare(stage, params, root)


def grouped(lab: Lab, loss: str) -> dict[str, float]:
    """The ledger's entry of the first step."""
    from trainplane.align import session
    from trainplane.align.grpo import train

    params = GRPOParams.parse(SMALL | {"loss": loss, "group_size": 4}, where="grpo")
    with session.quiet():
        _, book = train(prepared(lab, "grpo", params), params)
    return next(iter(book.ledger.entries()))


@check(source="GRPO, Shao et al. 2024, arXiv:2402.03300; trl #2995: ratios of 1 and advantages that sum to 0, beta 0")
def grpo_begins_at_0(lab: Lab) -> Outcome:
    return Outcome(0.0, grouped(lab, "grpo")["loss"], 1e-6)


@check(source="trl #2995: a loss of 0 still has a gradient; its norm")
def grpo_has_a_gradient_where_its_loss_is_0(lab: Lab) -> Outcome:
    return Outcome(1e-3, grouped(lab, "grpo")["grad_norm"], 0.0, at_least=True)


@check(source="RLOO, Ahmadian et al. 2024, arXiv:2402.14740: ratios of 1 and advantages that sum to 0, beta 0")
def rloo_begins_at_0(lab: Lab) -> Outcome:
    return Outcome(0.0, grouped(lab, "rloo")["loss"], 1e-6)


def first_round(lab: Lab) -> tuple[Any, Any, Any]:
    """A fresh learner, one round of answers and what they teach."""
    from trainplane.align import session
    from trainplane.align.held_out import answers_of
    from trainplane.align.ppo import experience, fresh_learner
    from trainplane.align.rollout import draw

    params = PPOParams.parse(SMALL, where="ppo")
    with session.quiet():
        run = prepared(lab, "ppo", params)
        learner = fresh_learner(run.model, params)
        asked = run.questions * 2
        rollout = draw(
            learner.model, [question.ids for question in asked], stop_ids=run.stop_ids, pad_id=1, max_new_tokens=8, temperature=1.0, seed=0
        )
        scores = run.held_out.scorer.score(answers_of(rollout, asked, run.encoder.tokenizer))
        return learner, *experience(learner, rollout, scores, params)


@check(source="PPO, Schulman et al. 2017, arXiv:1707.06347, section 3: r = 1 before the first update; max |r - 1|, by updates of 3 answers")
def the_first_ratio_of_ppo_is_1(lab: Lab) -> Outcome:
    import torch

    from trainplane.align.rollout import say

    learner, made, _ = first_round(lab)
    with torch.no_grad():
        part = made.rollout.rows([0, 3, 5])
        moved_BT = (say(learner.model, part, 1.0).logps_BT - made.old_BT[[0, 3, 5]]).exp() - 1
    return Outcome(0.0, float((moved_BT.abs() * part.mask_BT).max()), 1e-4)


@check(source="PPO at its start: the policy is its reference, so that the KL of a round is 0")
def the_first_kl_of_ppo_is_0(lab: Lab) -> Outcome:
    return Outcome(0.0, first_round(lab)[2]["kl"], 1e-5)


@check(source="GAE, Schulman et al. 2015, arXiv:1506.02438, equation 16, as its double sum; max |delta| of 9 advantages")
def gae_is_its_definition(lab: Lab) -> Outcome:
    import torch

    from trainplane.align.advantages import gae

    draw, gamma, lam = random.Random(0), 0.9, 0.8
    rewards, values = [draw.gauss(0, 1) for _ in range(9)], [draw.gauss(0, 1) for _ in range(9)]
    after = [*values[1:], 0.0]
    deltas = [r + gamma * ahead - v for r, ahead, v in zip(rewards, after, values, strict=True)]
    expected = [sum((gamma * lam) ** (j - i) * deltas[j] for j in range(i, 9)) for i in range(9)]
    ones_1T = torch.ones(1, 9, dtype=torch.float64)
    rewards_1T, values_1T = (torch.tensor([row], dtype=torch.float64) for row in (rewards, values))
    got = gae(rewards_1T, values_1T, ones_1T, gamma, lam)[0][0].tolist()
    return Outcome(0.0, max(abs(a - b) for a, b in zip(got, expected, strict=True)), 1e-12)


@check(source="Ziegler et al. 2019, arXiv:1909.08593, section 2.2: 0.2 (1 + 0.1 clip((9 - 6) / 6, -0.2, 0.2))")
def the_kl_controller_follows_its_rule(lab: Lab) -> Outcome:
    from trainplane.align.advantages import KLController

    controller = KLController(0.2, target=6.0, gain=0.1)
    controller.update(9.0)
    return Outcome(0.2 * 1.02, controller.coefficient, 1e-12)


@check(source="Schulman 2020, joschu.net/blog/kl-approx.html: k3 has the mean of KL((.5 .3 .2) || (.2 .3 .5))")
def k3_has_the_mean_of_the_divergence(lab: Lab) -> Outcome:
    import torch

    from trainplane.align.advantages import kl_estimate

    policy, base = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    logs, base_logs = (torch.tensor([[math.log(p) for p in ps]], dtype=torch.float64) for ps in (policy, base))
    mean = float((kl_estimate(logs, base_logs, "k3")[0] * torch.tensor(policy, dtype=torch.float64)).sum())
    return Outcome(sum(p * math.log(p / q) for p, q in zip(policy, base, strict=True)), mean, 1e-12)
