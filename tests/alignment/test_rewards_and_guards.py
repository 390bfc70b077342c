"""Rewards by name, and each guard at both sides of its limit."""

import json
import math
from pathlib import Path

import pytest

from dataplane.errors import ParamsError, PluginError, SourceError
from trainplane.align.guards import Guards, State
from trainplane.align.rewards import Answer, Scorer
from trainplane.align.rl_params import GuardParams, RewardUse
from trainplane.errors import NotFinite, TrainingError


def answer(text: str = "", n: int = 3, **record: object) -> Answer:
    return Answer([1, 2], list(range(n)), text, True, {"id": "q"} | record)


def scorer(use: str, weight: float = 1.0, **params: object) -> Scorer:
    return Scorer([RewardUse(use=use, params=params, weight=weight)])


def test_length_falls_with_the_distance_from_its_target() -> None:
    assert scorer("length", target=4).score([answer(n=n) for n in (4, 2, 6, 8, 20)]) == [1.0, 0.5, 0.5, 0.0, 0.0]


def test_exact_match_compares_words_and_takes_any_of_several_references() -> None:
    answers = [answer("The Paris!", reference="paris"), answer("Rome", references=["Paris", "rome"]), answer("Rome", reference="Paris")]
    assert scorer("exact_match").score(answers) == [1.0, 1.0, 0.0]
    with pytest.raises(SourceError, match="'reference' should be a text"):
        scorer("exact_match").score([answer("Rome")])


def test_regex_counts_matches_up_to_those_wanted() -> None:
    assert scorer("regex", pattern=r"\d+", matches=2).score([answer(text) for text in ("no", "1", "1 2", "1 2 3")]) == [0, 0.5, 1, 1]
    with pytest.raises(ParamsError, match="no regular expression"):
        scorer("regex", pattern="(")


@pytest.mark.slow
def test_a_program_is_rewarded_where_it_passes_its_test_shut_in() -> None:
    task = {"prompt": "def double(x):\n", "test": "def check(f):\n    assert f(2) == 4", "entry_point": "double"}
    assert scorer("program").score([answer("    return 2 * x", **task), answer("    return x", **task)]) == [1.0, 0.0]


def test_rewards_are_weighed_and_summed() -> None:
    both = Scorer([
        RewardUse(use="length", params={"target": 3}, weight=2.0), RewardUse(use="regex", params={"pattern": "a"}, weight=-1.0),
    ])  # fmt: skip
    assert both.score([answer("a"), answer("b")]) == [1.0, 2.0]


def test_wrong_rewards_are_named_before_the_run() -> None:
    with pytest.raises(PluginError, match="no reward is called 'lenght', did you mean 'length'"):
        scorer("lenght")
    with pytest.raises(ParamsError, match="target"):
        scorer("length")
    with pytest.raises(ParamsError, match="comes twice"):
        Scorer([RewardUse(use="length", params={"target": 3}, weight=1.0)] * 2)


def guards(folder: Path, **params: object) -> Guards:
    return Guards(GuardParams.parse(params, where="guards"), folder, "ppo")


START = State(score=0.0, kl=0.0, length=10.0, entropy=2.0)


@pytest.mark.parametrize(
    ("name", "fine", "wrong", "limit"),
    [
        ("kl", State(0.5, 5.0, 10, 2.0), State(0.5, 5.1, 10, 2.0), 5.0),
        ("length", State(0.5, 0.0, 20, 2.0), State(0.5, 0.0, 20.1, 2.0), 20.0),
        ("entropy", State(0.5, 0.0, 10, 0.5), State(0.5, 0.0, 10, 0.4), 0.5),
    ],
)
def test_each_alarm_is_raised_beyond_its_limit_and_not_at_it(tmp_path: Path, name: str, fine: State, wrong: State, limit: float) -> None:
    ours = guards(tmp_path, max_kl=5.0, max_length_growth=2.0, min_entropy=0.5)
    ours.check(1, START)
    ours.check(2, fine)
    assert ours.told() == {"alarms": []}
    with pytest.raises(TrainingError, match=f"alarm at step 3: {name} is"):
        ours.check(3, wrong)
    value = getattr(wrong, name)
    assert ours.told() == {"alarms": [{"step": 3, "name": name, "value": value, "limit": limit}]}
    assert [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()] == ours.told()["alarms"]


def test_alarms_that_are_only_recorded_let_the_run_go_on(tmp_path: Path) -> None:
    ours = guards(tmp_path, on_alarm="record", max_kl=5.0)
    for step, kl in enumerate((0.0, 6.0, 4.0, 7.0), 1):
        ours.check(step, State(0.0, kl, 10, 2.0))
    assert [(alarm.step, alarm.name, alarm.value) for alarm in ours.alarms] == [(2, "kl", 6.0), (4, "kl", 7.0)]


def test_a_score_that_rises_while_the_judge_falls_is_an_alarm_and_either_alone_is_not(tmp_path: Path) -> None:
    ours = guards(tmp_path, max_quality_drop=0.5)
    ours.judge(0, 1.0, -2.0)
    ours.judge(10, 3.0, -2.5)  # up, and the judge fell by no more than is borne
    ours.judge(20, 0.5, -9.0)  # both fell: a bad run, but no gamed reward
    ours.judge(30, 3.0, -1.0)
    with pytest.raises(TrainingError, match=r"alarm at step 40: quality is -2\.6, its limit is -2\.5"):
        ours.judge(40, 3.0, -2.6)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_ends_the_run_even_where_alarms_are_recorded(tmp_path: Path, value: float) -> None:
    ours = guards(tmp_path, on_alarm="record")
    with pytest.raises(NotFinite, match="step 4: score"):
        ours.check(4, State(value, 0.0, 10, 2.0))
    with pytest.raises(NotFinite):
        ours.judge(4, 1.0, value)


def test_samples_are_kept_every_n_steps_without_secrets(tmp_path: Path) -> None:
    ours = guards(tmp_path, samples_every=2, samples=2)
    texts = ["write to ada.b@example.org now", "key sk_live_4eC39HqLyjWDarjtT1zdp7dc!", "third"]
    for step in (1, 2, 3):
        ours.keep(step, [answer(text) for text in texts], [0.1, 0.2, 0.3])
    rows = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    kept = [("write to [masked] now", 0.1), ("key [masked]!", 0.2)]
    assert rows == [{"step": step, "id": "q", "text": text, "score": score, "tokens": 3} for step in (1, 3) for text, score in kept]


def test_words_sums_and_chinese_are_no_secrets(tmp_path: Path) -> None:
    text = "an internationalisation-and-standardisation effort; 12 + 30 = 42; 今天天气很好"
    ours = guards(tmp_path)
    ours.keep(1, [answer(text)], [0.0])
    assert json.loads((tmp_path / "samples.jsonl").read_text())["text"] == text
