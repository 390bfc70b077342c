"""Answers that are drawn: where they begin and end, and that what is said of them depends on no batch."""

import math
from pathlib import Path

import pytest

from trainplane.align.ppo import fresh_learner
from trainplane.align.rl_params import PPOParams
from trainplane.align.rollout import draw, finish, left_padded, reference, say
from trainplane.model.build import load

torch = pytest.importorskip("torch")
PROMPTS = [[5, 6, 7, 8], [9], [10, 11, 12]]
PARAMS = PPOParams.parse({"data": ["x"], "rewards": [{"use": "length", "params": {"target": 3}}], "lora_rank": 2}, where="ppo")


@pytest.fixture(scope="module")
def model(pretrained: Path):  # type: ignore[no-untyped-def]
    return load(pretrained).eval()


@pytest.fixture(scope="module")
def learner(pretrained: Path):  # type: ignore[no-untyped-def]
    from trainplane.align import session

    with session.quiet():
        return fresh_learner(load(pretrained), PARAMS)


def drawn(model, prompts=PROMPTS, temperature=1.0, seed=1):  # type: ignore[no-untyped-def]
    return draw(model, prompts, stop_ids=[0, 5], pad_id=1, max_new_tokens=12, temperature=temperature, seed=seed)


def test_prompts_are_padded_on_the_left() -> None:
    ids, attention = left_padded([[4, 5, 6], [7]], 1, "cpu")
    assert (ids.tolist(), attention.tolist()) == ([[4, 5, 6], [1, 1, 7]], [[1, 1, 1], [0, 0, 1]])


def test_an_answer_ends_with_its_first_stop_token_and_may_hold_the_padding_token() -> None:
    ids = torch.tensor([[3, 1, 8, 5, 1, 1], [3, 7, 7, 7, 7, 7], [3, 0, 5, 0, 1, 1]])
    rollout = finish(ids, torch.ones(3, 1, dtype=torch.long), [0, 5])
    assert rollout.answer_ids == [[1, 8, 5], [7, 7, 7, 7, 7], [0]]
    assert rollout.finished_B.tolist() == [True, False, True]
    assert rollout.attention_BL.tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6, [1, 1, 0, 0, 0, 0]]


def test_equal_seeds_draw_equal_answers_and_others_do_not(model) -> None:
    assert drawn(model).ids_BL.tolist() == drawn(model).ids_BL.tolist()
    assert drawn(model).ids_BL.tolist() != drawn(model, seed=2).ids_BL.tolist()


def test_what_is_said_of_an_answer_depends_on_neither_batch_nor_padding(model) -> None:
    rollout = drawn(model, temperature=0.7)
    with torch.no_grad():
        together = say(model, rollout, 0.7)
    for i, (prompt, answer) in enumerate(zip(PROMPTS, rollout.answer_ids, strict=True)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0].double() / 0.7
        logps = logits.log_softmax(-1)
        for place, token in enumerate(answer):
            at = len(prompt) + place - 1
            assert float(together.logps_BT[i, place]) == pytest.approx(float(logps[at, token]), abs=1e-4)
            entropy = -sum(math.exp(p) * p for p in logps[at].tolist())
            assert float(together.entropy_BT[i, place]) == pytest.approx(entropy, abs=1e-4)


def test_answers_are_drawn_from_the_very_distribution_that_is_said_of_them(model) -> None:
    prompt = [5, 6, 7, 8]
    rollout = draw(model, [prompt] * 4000, stop_ids=[0], pad_id=1, max_new_tokens=1, temperature=1.0, seed=0)
    with torch.no_grad():
        chances = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0, -1].softmax(-1)
    shares = torch.bincount(rollout.ids_BL[:, -1], minlength=len(chances)) / 4000
    likeliest = chances.topk(5)
    for token, chance in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
        assert float(shares[token]) == pytest.approx(chance, abs=4 * math.sqrt(chance / 4000))
    rare = chances < float(likeliest.values[-1]) / 20  # a cut at top-k or top-p would leave none of them
    assert float(shares[rare].sum()) == pytest.approx(float(chances[rare].sum()), abs=4 * math.sqrt(float(chances[rare].sum()) / 4000))


def test_the_reference_is_the_policy_without_its_adapter(learner, model) -> None:
    for name, weight in learner.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2, generator=torch.Generator().manual_seed(0))
    rollout = drawn(learner.model)
    with torch.no_grad():
        policy, plain = say(learner.model, rollout, 1.0), say(model, rollout, 1.0)
        with reference(learner.model):
            base = say(learner.model, rollout, 1.0)
    assert torch.equal(base.logps_BT, plain.logps_BT)
    assert float((policy.logps_BT - base.logps_BT).abs().max()) > 0.01
