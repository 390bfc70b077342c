"""The steps of PPO against numbers worked out in plain Python, and against definitions written out."""

import math
import random

import pytest

from trainplane.align.advantages import KLController, gae, kl_estimate, token_rewards, whiten
from trainplane.align.clipping import policy_loss, value_loss
from trainplane.align.ppo import check_first_ratio, round_seed
from trainplane.errors import TrainingError

torch = pytest.importorskip("torch")


def tensor(rows):  # type: ignore[no-untyped-def]
    return torch.tensor(rows, dtype=torch.float64)


def gae_by_definition(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """Schulman et al. 2015, equation 16, as its double sum: A_t = sum_l (gamma lam)^l (r_(t+l) + gamma V_(t+l+1) - V_(t+l))."""
    padded = [*values, 0.0]
    deltas = [rewards[i] + gamma * padded[i + 1] - padded[i] for i in range(len(rewards))]
    return [sum((gamma * lam) ** (j - i) * deltas[j] for j in range(i, len(deltas))) for i in range(len(deltas))]


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (0.99, 0.0), (1.0, 1.0)])
def test_advantages_are_the_double_sum_of_the_definition_for_answers_of_any_length(gamma: float, lam: float) -> None:
    draw, longest = random.Random(0), 7
    rows = [[draw.gauss(0, 1) for _ in range(2 * length)] for length in (1, 3, 7)]
    halves = [(row[: len(row) // 2], row[len(row) // 2 :]) for row in rows]
    pad = [[9.0] * (longest - len(rewards)) for rewards, _ in halves]  # what is behind an answer must not count
    mask = tensor([[1.0] * len(rewards) + [0.0] * len(more) for (rewards, _), more in zip(halves, pad, strict=True)])
    rewards_BT = tensor([rewards + [0.0] * len(more) for (rewards, _), more in zip(halves, pad, strict=True)])
    values_BT = tensor([values + more for (_, values), more in zip(halves, pad, strict=True)])
    advantages, returns = gae(rewards_BT, values_BT, mask, gamma, lam)
    for i, (rewards, values) in enumerate(halves):
        expected = gae_by_definition(rewards, values, gamma, lam)
        assert advantages[i].tolist() == pytest.approx(expected + [0.0] * len(pad[i]), abs=1e-12)
        summed = [a + v for a, v in zip(expected, values, strict=True)]
        assert returns[i].tolist() == pytest.approx(summed + [0.0] * len(pad[i]), abs=1e-12)


def test_without_a_critic_and_with_lambda_1_the_advantage_is_what_is_still_to_come() -> None:
    advantages, _ = gae(tensor([[1.0, 2.0, 4.0]]), tensor([[0.0, 0.0, 0.0]]), tensor([[1.0, 1.0, 1.0]]), 0.5, 1.0)
    assert advantages.tolist() == [[1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4.0]]


def test_each_token_costs_its_kl_and_the_last_one_earns_the_score() -> None:
    kl, mask = tensor([[0.1, 0.2, 0.3], [0.4, 9.0, 9.0]]), tensor([[1, 1, 1], [1, 0, 0]])
    rewards = token_rewards(tensor([5.0, -1.0]), kl, mask, 0.5)
    assert rewards.tolist() == [pytest.approx(row) for row in ([-0.05, -0.1, 5 - 0.15], [-1 - 0.2, 0.0, 0.0])]
    with pytest.raises(ValueError, match="no token"):
        token_rewards(tensor([1.0, 1.0]), kl, tensor([[1, 1, 1], [0, 0, 0]]), 0.5)


def test_both_estimators_have_the_mean_of_the_divergence_and_k3_is_never_negative() -> None:
    policy, base = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    exact = sum(p * math.log(p / q) for p, q in zip(policy, base, strict=True))
    logs, base_logs = tensor([[math.log(p) for p in policy]]), tensor([[math.log(q) for q in base]])
    for estimator in ("k1", "k3"):
        values = kl_estimate(logs, base_logs, estimator)[0]
        assert float((values * tensor(policy)).sum()) == pytest.approx(exact, abs=1e-12)
    assert kl_estimate(logs, base_logs, "k1")[0].tolist() == pytest.approx([math.log(2.5), 0, math.log(0.4)])
    assert kl_estimate(logs, base_logs, "k3")[0].tolist() == pytest.approx([0.4 - 1 - math.log(0.4), 0, 2.5 - 1 - math.log(2.5)])


def test_whitened_values_have_mean_0_and_deviation_1_over_the_tokens_alone() -> None:
    values, mask = tensor([[1.0, 2.0, 100.0], [6.0, 100.0, 100.0]]), tensor([[1, 1, 0], [1, 0, 0]])
    spread = math.sqrt(((1 - 3) ** 2 + (2 - 3) ** 2 + (6 - 3) ** 2) / 3)
    assert whiten(values, mask).flatten().tolist() == pytest.approx([-2 / spread, -1 / spread, 0, 3 / spread, 0, 0], abs=1e-6)
    assert whiten(values, mask, centre=False).flatten().tolist() == pytest.approx([1 / spread, 2 / spread, 0, 6 / spread, 0, 0], abs=1e-6)


def test_the_clipped_loss_is_that_of_the_paper_in_all_its_four_cases() -> None:
    ratios, advantages = [1.5, 0.5, 1.5, 0.5, 1.1], [1.0, 1.0, -1.0, -1.0, 2.0]
    # min(r A, clip(r) A): bounded where the move is already too good, free where it made things worse.
    gains = [1.2, 0.5, -1.5, -0.8, 2.2]
    mask = tensor([[1.0] * 5 + [0.0]])
    logps, old = tensor([[math.log(ratio) for ratio in ratios] + [3.0]]), tensor([[0.0] * 6])
    loss, clipped = policy_loss(logps, old, tensor([[*advantages, 7.0]]), mask, 0.2)
    assert float(loss) == pytest.approx(-sum(gains) / 5)
    assert clipped == pytest.approx(2 / 5)


def test_the_gradient_is_that_of_the_policy_gradient_at_ratio_1_and_0_where_it_is_clipped() -> None:
    logps = tensor([[0.0, math.log(1.5), math.log(0.5)]]).requires_grad_()
    loss, _ = policy_loss(logps, tensor([[0.0, 0.0, 0.0]]), tensor([[2.0, 1.0, -1.0]]), tensor([[1.0, 1.0, 1.0]]), 0.2)
    loss.backward()
    assert logps.grad.tolist() == [pytest.approx([-2 / 3, 0.0, 0.0])]


def test_the_value_loss_takes_the_worse_of_moved_freely_and_moved_a_little() -> None:
    values, old, returns = [2.0, 0.3, 1.0], [0.0, 0.2, 5.0], [1.0, 1.0, 1.0]
    worse = [max((2 - 1) ** 2, (0.2 - 1) ** 2), (0.3 - 1) ** 2, max(0.0, (4.8 - 1) ** 2)]
    loss = value_loss(tensor([values]), tensor([old]), tensor([returns]), tensor([[1.0, 1.0, 1.0]]), 0.2)
    assert float(loss) == pytest.approx(0.5 * sum(worse) / 3)


def test_the_controller_moves_the_coefficient_by_the_papers_rule() -> None:
    controller = KLController(0.2, target=6.0, gain=0.1)
    controller.update(6.6)  # a tenth too far
    assert controller.coefficient == pytest.approx(0.2 * 1.01)
    controller.update(600.0)  # the error counts 0.2 at most
    assert controller.coefficient == pytest.approx(0.2 * 1.01 * 1.02)
    controller.update(-3.0)
    assert controller.coefficient == pytest.approx(0.2 * 1.01 * 1.02 * 0.98)


@pytest.mark.parametrize("delta", [0.01, math.nan])
def test_a_first_ratio_that_is_not_1_stops_the_run(delta: float) -> None:
    check_first_ratio(1e-5)
    with pytest.raises(TrainingError, match="off 1"):
        check_first_ratio(delta)


def test_rounds_of_different_seeds_draw_differently() -> None:
    assert len({round_seed(seed, step) for seed in range(20) for step in range(200)}) == 20 * 200
