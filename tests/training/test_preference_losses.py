"""Preference losses: the papers' formulas by plain arithmetic, and trl's trainers held against them."""

import math
from pathlib import Path

import pytest

from dataplane.errors import DataError, ParamsError
from trainplane.align import session
from trainplane.align.adapter import lora_config
from trainplane.align.losses import Answers, JudgedAnswers, loss_value
from trainplane.align.params import DPOParams
from trainplane.align.preference import answer_logps, first_answers, first_judged, judged_logps
from trainplane.align.preference_trainers import judged_rows, kto_rows, make
from trainplane.align.preference_watch import PreferenceWatch
from trainplane.data.judged import EncodedAnswer
from trainplane.data.preference import EncodedPair
from trainplane.errors import TrainingError
from trainplane.model.build import load

torch = pytest.importorskip("torch")

PAIRS = [
    EncodedPair([5, 6, 7], [8, 9, 10], [11]), EncodedPair([9], [11, 12], [16, 17, 18, 19]), EncodedPair([20, 21], [22], [23, 24]),
]  # fmt: skip
LOSSES = {"dpo": {"beta": 0.1}, "ipo": {"beta": 0.1}, "kto": {"beta": 0.1}, "orpo": {"beta": 0.1}, "simpo": {"beta": 2.0, "gamma": 0.5}}


def params(loss: str, **more: object) -> DPOParams:
    return DPOParams(data=["x"], loss=loss, batch_size=3, max_steps=2, lora_rank=2, max_length=64, **LOSSES[loss], **more)


def answers(policy: list[list[float]], reference: list[list[float]], divergence: float = 0.0) -> Answers:
    return Answers(torch.tensor(policy).double(), torch.tensor(reference).double(), torch.tensor([[2, 4]] * len(policy)), divergence)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_each_loss_is_the_papers_formula_by_plain_arithmetic() -> None:
    one = answers([[-4.0, -10.0]], [[-5.0, -8.0]], 0.5)  # gains 1 and -2, means -2 and -2.5 per token
    log_odds = (-2.0 - math.log(1 - math.exp(-2.0))) - (-2.5 - math.log(1 - math.exp(-2.5)))
    expected = {
        "dpo": -math.log(sigmoid(0.1 * (1.0 - -2.0))),
        "ipo": (1.0 / 2 - -2.0 / 4 - 1 / (2 * 0.1)) ** 2,
        "kto": ((1 - sigmoid(0.1 * (1.0 - 0.5))) + (1 - sigmoid(0.1 * (0.5 - -2.0)))) / 2,
        "orpo": 4.0 / 2 - 0.1 * math.log(sigmoid(log_odds)),
        "simpo": -math.log(sigmoid(2.0 * (-2.0 - -2.5) - 0.5)),
    }
    assert {loss: loss_value(loss, one, **LOSSES[loss]) for loss in LOSSES} == pytest.approx(expected, abs=1e-12)


def test_a_loss_with_a_reference_begins_at_a_known_number() -> None:
    start = answers([[-4.0, -10.0], [-7.0, -2.0]], [[-4.0, -10.0], [-7.0, -2.0]])
    assert {loss: loss_value(loss, start, beta=0.1) for loss in ("dpo", "ipo", "kto")} == pytest.approx(
        {"dpo": math.log(2), "ipo": 25.0, "kto": 0.5}, abs=1e-12
    )


def divergence(model, base) -> float:  # type: ignore[no-untyped-def]
    """KTO's z_0 by hand: the answers of another pair, by both models."""
    rows = kto_rows(PAIRS)
    swapped = [EncodedPair(row["prompt_ids"], row["KL_completion_ids"], [1]) for row in rows]
    gains = answer_logps(model, swapped, 1, 8)[:, 0] - answer_logps(base, swapped, 1, 8)[:, 0]
    return max(0.0, float(gains.mean()))


@pytest.mark.parametrize("loss", LOSSES)
def test_trl_s_loss_is_the_papers_for_a_model_that_moved_from_its_reference(loss: str, pretrained: Path, tokenizer, tmp_path: Path) -> None:
    """Dropout of the base is switched off: the trainer's forward in training mode gives what ours gives in evaluation mode."""
    chosen, base = params(loss), load(pretrained)
    base.config.attention_dropout = 0.5
    with session.quiet():
        trainer = make(base, tokenizer, [PAIRS], chosen, args=session.trainer_args(chosen, tmp_path), peft_config=lora_config(chosen))
        for name, weight in trainer.model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))
        trainer.model.train()
        batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
        got = float(trainer.compute_loss(trainer.model, batch))
    logps, reference = answer_logps(trainer.model, PAIRS, 1, 8), answer_logps(load(pretrained), PAIRS, 1, 8)
    lengths = torch.tensor([[len(pair.chosen_ids), len(pair.rejected_ids)] for pair in PAIRS])
    moved = Answers(logps, reference, lengths, divergence(trainer.model, load(pretrained)))
    assert got == pytest.approx(loss_value(loss, moved, **LOSSES[loss]), abs=1e-5)
    assert float((logps - reference).abs().min()) > 0.01


def test_kto_estimates_the_divergence_from_other_pairs_alone() -> None:
    rows = kto_rows(PAIRS)
    own = {(tuple(pair.prompt_ids), tuple(answer)) for pair in PAIRS for answer in (pair.chosen_ids, pair.rejected_ids)}
    assert [row["label"] for row in rows] == [True] * 3 + [False] * 3
    assert [(tuple(row["prompt_ids"]), tuple(row["KL_completion_ids"])) in own for row in rows] == [False] * 6
    assert sorted(row["KL_completion_ids"] for row in rows) == sorted(row["completion_ids"] for row in rows)
    with pytest.raises(ParamsError, match="batch_size must be 2"):
        DPOParams.parse({"data": ["x"], "loss": "kto", "batch_size": 1}, where="dpo")


LOG = {"loss": math.log(2), "rewards/margins": 0.0, "rewards/chosen": 0.0}


def watch(pretrained: Path, **more: object) -> PreferenceWatch:
    return PreferenceWatch(params("dpo", **more), first_answers(load(pretrained), PAIRS, 1))


@pytest.mark.parametrize("loss", [0.0, 0.69, math.nan])
def test_a_first_loss_that_is_not_the_papers_stops_the_run(pretrained: Path, loss: float) -> None:
    watch(pretrained).see(1, LOG)
    with pytest.raises(TrainingError, match=r"formula says 0\.693147"):
        watch(pretrained).see(1, LOG | {"loss": loss})


def test_a_loss_that_stands_still_stops_the_run(pretrained: Path) -> None:
    ours = watch(pretrained, stuck_steps=3)
    for step in (1, 2):
        ours.see(step, LOG)
    with pytest.raises(TrainingError, match=r"stood still at 0\.693147 for 3 steps"):
        ours.see(3, LOG)


@pytest.mark.parametrize(
    ("log", "told"), [({"rewards/margins": 15.5}, "margin between the rewards is 15.50"), ({"rewards/chosen": -11.0}, "fell to -11.00")]
)
def test_answers_that_fall_apart_raise_an_alarm(pretrained: Path, log: dict[str, float], told: str) -> None:
    with pytest.raises(TrainingError, match=f"step 1: .*{told}"):
        watch(pretrained).see(1, LOG | log)
    ours = watch(pretrained, stop_on_alarm=False)
    ours.see(1, LOG | log)
    ours.see(2, LOG)
    assert [(alarm["step"], told in str(alarm["alarm"])) for alarm in ours.alarms] == [(1, True)]


JUDGED = [EncodedAnswer(pair.prompt_ids, pair.chosen_ids, True) for pair in PAIRS] + [
    EncodedAnswer(PAIRS[0].prompt_ids, PAIRS[0].rejected_ids, False), EncodedAnswer([13, 14], [15, 6], False),
]  # fmt: skip


def test_trl_s_loss_of_judged_answers_is_the_papers_with_weights_and_labels_in_any_number(
    pretrained: Path, tokenizer, tmp_path: Path
) -> None:
    more = {"unpaired": True, "desirable_weight": 0.7, "undesirable_weight": 1.4}
    chosen = DPOParams(data=["x"], loss="kto", batch_size=5, max_steps=2, lora_rank=2, max_length=64, **more)
    with session.quiet():
        trainer = make(
            load(pretrained), tokenizer, [JUDGED], chosen, args=session.trainer_args(chosen, tmp_path), peft_config=lora_config(chosen)
        )
        for name, weight in trainer.model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))
        trainer.model.train()
        got = float(trainer.compute_loss(trainer.model, trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))))
    logps, reference = judged_logps(trainer.model, JUDGED, 1, 8), judged_logps(load(pretrained), JUDGED, 1, 8)
    others = [EncodedAnswer(JUDGED[i].prompt_ids, JUDGED[j].answer_ids, True) for i, j in enumerate([4, 0, 1, 2, 3])]
    kl = max(0.0, float((judged_logps(trainer.model, others, 1, 8) - judged_logps(load(pretrained), others, 1, 8)).mean()))
    gains = (logps - reference).tolist()
    by_hand = [0.7 * (1 - sigmoid(0.1 * (gain - kl))) for gain in gains[:3]] + [
        1.4 * (1 - sigmoid(0.1 * (kl - gain))) for gain in gains[3:]
    ]
    assert got == pytest.approx(sum(by_hand) / 5, abs=1e-5)
    moved = JudgedAnswers(logps, reference, torch.tensor([True] * 3 + [False] * 2), kl, (0.7, 1.4))
    assert moved.loss_value(0.1) == pytest.approx(sum(by_hand) / 5, abs=1e-6)
    assert first_judged(load(pretrained), JUDGED, 1, chosen).loss_value(0.1) == pytest.approx((3 * 0.7 + 2 * 1.4) / 5 / 2, abs=1e-6)


def test_a_judged_answer_never_estimates_the_divergence_behind_its_own_prompt() -> None:
    one, two, other = EncodedAnswer([5], [6], True), EncodedAnswer([5], [7], False), EncodedAnswer([8], [9], True)
    assert [row["KL_completion_ids"] for row in judged_rows([one, two, other])] == [[9], [9], [7]]
    with pytest.raises(DataError, match="2 answers of a step are to one prompt"):
        judged_rows([one, two])


@pytest.mark.parametrize(
    ("more", "told"),
    [({"loss": "dpo", "unpaired": True}, "unpaired goes with loss kto"), ({"loss": "kto", "desirable_weight": 2.0}, "as many of both")],
)
def test_params_of_judged_answers_go_with_them_alone(more: dict[str, object], told: str) -> None:
    with pytest.raises(ParamsError, match=told):
        DPOParams.parse({"data": ["x"]} | more, where="dpo")
