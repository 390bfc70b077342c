"""The reward model: known first values, calibration against figures worked out by hand, a stage that learns and is saved whole."""

import json
import math
import random
from pathlib import Path

import pytest
import yaml

from trainplane.align.reward import fresh_scorer, load_scorer, pair_rewards, score_rows
from trainplane.data.preference import EncodedPair
from trainplane.errors import TrainingError
from trainplane.evaluate.calibration import calibration, calibration_error, reliability, wilson

torch = pytest.importorskip("torch")


def test_wilsons_interval_is_that_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for hits, n in ((0, 10), (3, 10), (10, 10), (55, 100), (1, 2)):
        assert wilson(hits, n) == pytest.approx(proportion_confint(hits, n, method="wilson"), abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)


def test_bins_and_calibration_error_are_those_worked_out_by_hand() -> None:
    odds = [math.log(0.6 / 0.4), -math.log(0.6 / 0.4), math.log(0.95 / 0.05), math.log(0.85 / 0.15)]
    low, middle, high = reliability(odds, 3)  # [1/2, 2/3), [2/3, 5/6), [5/6, 1]
    assert (low.n, low.confidence, low.accuracy) == (2, pytest.approx(0.6), 0.5)
    assert (middle.n, middle.confidence, middle.accuracy, middle.accuracy_low, middle.accuracy_high) == (0, None, None, 0.0, 1.0)
    assert (high.n, high.confidence, high.accuracy) == (2, pytest.approx(0.9), 1.0)
    assert calibration_error(odds, 3) == pytest.approx((2 * 0.1 + 2 * 0.1) / 4)


def test_rewards_that_are_drawn_by_their_own_probability_are_calibrated_and_scaled_ones_are_not() -> None:
    draw = random.Random(0)
    sizes = [draw.uniform(0, 3) for _ in range(20_000)]
    margins = [size if draw.random() < 1 / (1 + math.exp(-size)) else -size for size in sizes]
    assert calibration_error(margins, 10) < 0.01
    assert calibration_error([3 * margin for margin in margins], 10) > 0.1


def test_the_figures_of_a_model_that_says_nothing_are_those_of_a_guess() -> None:
    told = calibration([0.0] * 20, 10, seed=0, resamples=50)
    assert (told["loss"], told["accuracy"], told["calibration_error"]) == (pytest.approx(math.log(2)), 0.0, 0.5)


def test_intervals_cover_the_value_and_repeat() -> None:
    draw = random.Random(1)
    margins = [draw.gauss(0.5, 1) for _ in range(200)]
    first = calibration(margins, 5, seed=3)
    assert first == calibration(margins, 5, seed=3)
    assert first["accuracy_low"] < first["accuracy"] < first["accuracy_high"]
    assert first["accuracy"] == sum(margin > 0 for margin in margins) / 200
    assert first["loss"] == pytest.approx(sum(math.log1p(math.exp(-margin)) for margin in margins) / 200)


def test_a_fresh_reward_model_says_0_and_padding_does_not_matter(pretrained: Path) -> None:
    model = fresh_scorer(pretrained)
    pairs = [EncodedPair([5, 6, 7], [8, 9], [10]), EncodedPair([9], [11, 12, 13, 14, 15], [16, 17])]
    assert pair_rewards(model, pairs, 1, 4).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(0))
    alone = [
        float(model(input_ids=torch.tensor([row]), use_cache=False).logits.detach()) for row in ([5, 6, 7, 8, 9], [9, 11, 12, 13, 14, 15])
    ]
    assert score_rows(model, [[5, 6, 7, 8, 9], [9, 11, 12, 13, 14, 15]], 1, 2).tolist() == pytest.approx(alone, abs=1e-5)


@pytest.fixture
def pairs_project(project: Path, pretrained: Path) -> Path:
    """A project whose better answers are the longer ones."""
    (project / "models").mkdir()
    (project / "models" / "sft").symlink_to(pretrained)
    draw = random.Random(0)
    lines = []
    for i in range(60):
        short, long = draw.choice(["no", "Paris"]), " ".join(draw.choices(["Paris", "France", "students", "morning"], k=6))
        record = {
            "id": f"p{i}",
            "prompt": f"What is it {i}?",
            "chosen": long,
            "rejected": short,
            "split": "held_out" if i % 4 == 0 else "train",
        }
        lines.append(json.dumps(record) + "\n")
    (project / "pairs.jsonl").write_text("".join(lines))
    small = {"max_steps": 12, "batch_size": 4, "warmup_steps": 1, "lora_rank": 4, "learning_rate": 0.02, "max_length": 64}
    (project / "params.yaml").write_text(yaml.safe_dump({"reward": {"data": ["pairs.jsonl"]} | small}))
    return project


@pytest.mark.slow
def test_the_stage_learns_to_tell_pairs_and_saves_the_head_with_the_adapter(pairs_project: Path) -> None:
    from peft import PeftModel

    from trainplane.align import session
    from trainplane.lineage.ledger import verify
    from trainplane.stages import reward

    reward.main()
    metrics, run = json.loads(Path("metrics/reward.json").read_text()), json.loads(Path("models/reward/run.json").read_text())
    assert metrics["first_loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert metrics["held_out"]["pairs"] == 15
    assert metrics["held_out"]["accuracy"] == 1.0
    assert run["parent"] == json.loads(Path("models/sft/run.json").read_text())["digest"]
    entries = [json.loads(line) for line in Path("models/reward/consumed.jsonl").read_text().splitlines()]
    assert [entry["chain_hash"] for entry in verify(entries)][-1] == run["chain_hash"]
    rows = [[5, 6, 7, 8, 9], [9, 11, 12]]
    whole = score_rows(load_scorer(Path("models/reward")), rows, 1, 2)
    with session.quiet():
        loaded = PeftModel.from_pretrained(fresh_scorer(Path("models/sft")), "models/reward/adapter")
    assert score_rows(loaded, rows, 1, 2).tolist() == pytest.approx(whole.tolist(), abs=1e-4)
    assert abs(float(whole[0])) > 1e-3
    first = run["digest"]
    reward.main()
    assert json.loads(Path("models/reward/run.json").read_text())["digest"] == first


@pytest.mark.parametrize("loss", [0.0, 0.7, math.nan])
def test_a_first_loss_that_is_not_ln_2_stops_the_run(loss: float) -> None:
    from trainplane.align.reward import check_first_loss

    check_first_loss(1, {"loss": math.log(2)})
    check_first_loss(2, {"loss": loss})
    with pytest.raises(TrainingError, match=r"ln 2 = 0\.693147"):
        check_first_loss(1, {"loss": loss})
