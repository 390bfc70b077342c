"""Metrics against published examples, reference libraries and what can be worked out by hand."""

import math

import numpy as np
import pytest

from dataplane.errors import ParamsError
from trainplane.evaluate.pass_at_k import Problem, estimate, pass_at_k, solves
from trainplane.evaluate.text_metrics import bleu, chrf, corpus_metrics, exact_match, f1, item_metrics, rouge
from trainplane.evaluate.uncertainty import Difference, jackknife, mean, paired_bootstrap, paired_ratio_bootstrap

# The example of sacrebleu's README.
TEXTS = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = [
    ["The dog bit the man.", "The dog had bit the man."],
    ["It was not unexpected.", "No one was surprised."],
    ["The man bit him first.", "The man had bitten the dog."],
]
PROBLEM = Problem("test/0", "def return1():\n", "def check(candidate):\n    assert candidate() == 1", "return1")


def test_bleu_and_chrf_are_those_of_sacrebleus_readme() -> None:
    assert (bleu(TEXTS, REFERENCES), chrf(TEXTS, REFERENCES)) == (pytest.approx(48.53, abs=5e-3), pytest.approx(59.73, abs=5e-3))


def test_bleu_of_chinese_counts_characters() -> None:
    import sacrebleu

    texts, references = ["今天天气很好，我们去公园。"], ["今天天气很好，我们去散步。"]
    expected = sacrebleu.corpus_bleu(texts, [references], tokenize="zh").score
    assert bleu(texts, [references]) == pytest.approx(expected, abs=1e-4)
    assert expected > 50


def test_items_may_have_different_numbers_of_references() -> None:
    assert bleu(["a b c d", "e f g h"], [["a b c d"], ["x", "e f g h"]]) == pytest.approx(100)


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_that_of_rouge_score(kind: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    text, reference = "The quick brown dog jumps on the log.", "The quick brown fox jumps over the lazy dog"
    expected = RougeScorer([kind]).score(reference, text)[kind].fmeasure
    assert rouge(kind)(text, ["nothing", reference]) == pytest.approx(expected, abs=1e-4)


def test_rouge_of_chinese_counts_characters() -> None:
    # 4 of 5 and of 4 characters in common; 2 of 4 and of 3 pairs; a common subsequence of 4
    values = [rouge(kind)("我们去公园", ["我们去园"]) for kind in ("rouge1", "rouge2", "rougeL")]
    assert values == pytest.approx([8 / 9, 4 / 7, 8 / 9], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "reference", "same", "shared"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0, 1.0),
        ("in Paris, France", "Paris", 0.0, 0.5),
        ("a cat cat", "cat dog", 0.0, 0.5),
        ("今天，天气", "今天天气。", 1.0, 1.0),
        ("天气好", "天气", 0.0, 0.8),
        ("", "", 1.0, 1.0),
        ("", "x", 0.0, 0.0),
    ],
)
def test_exact_match_and_f1(text: str, reference: str, same: float, shared: float) -> None:
    assert (exact_match(text, [reference]), f1(text, ["zzz", reference])) == (same, pytest.approx(shared))


def test_all_metrics_are_perfect_on_a_perfect_text() -> None:
    text = "The man had bitten the dog."
    found = {name: metric(text, [text]) for name, metric in item_metrics().items()}
    found |= {name: metric([text], [[text]]) for name, metric in corpus_metrics().items()}
    assert found == pytest.approx({"exact_match": 1, "f1": 1, "rouge1": 1, "rouge2": 1, "rougeL": 1, "bleu": 100, "chrf": 100})


def test_pass_at_1_of_humanevals_example_is_as_its_readme_prints_it() -> None:
    assert estimate(6, 3, 1) == pytest.approx(0.4999999999999999, abs=1e-4)


def test_pass_at_k_is_the_share_of_draws_that_hold_a_solution() -> None:
    for n in range(1, 8):
        for correct in range(n + 1):
            for k in range(1, n + 1):
                assert estimate(n, correct, k) == pytest.approx(1 - math.comb(n - correct, k) / math.comb(n, k), abs=1e-12)
    with pytest.raises(ParamsError, match="pass@3 needs 3 programs, got 2"):
        estimate(2, 1, 3)


def test_programs_are_run_against_their_test() -> None:
    from trainplane.errors import SandboxUnavailable

    try:
        assert [solves(PROBLEM, text) for text in ("    return 1", "    return 2", "    raise SystemExit(0)")] == [True, False, False]
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert pass_at_k([PROBLEM], [["    return 1", "    return 0"]], [1, 2]) == {1: [pytest.approx(0.5)], 2: [1.0]}


def test_the_standard_error_of_a_mean_is_its_jackknife() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    middle, error = mean(values)
    assert (middle, error) == pytest.approx((0.55, np.std(values, ddof=1) / math.sqrt(5)))
    assert jackknife(5, lambda places: float(np.mean([values[place] for place in places]))) == pytest.approx(error)
    assert [math.isnan(mean([1.0])[1]), math.isnan(jackknife(1, len))] == [True, True]


def test_the_jackknife_of_many_items_comes_near_the_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    assert jackknife(2000, lambda places: float(values[places].mean())) == pytest.approx(1 / math.sqrt(2000), rel=0.25)


def test_the_paired_bootstrap_sees_a_gain_that_is_small_beside_the_items_spread() -> None:
    random = np.random.default_rng(1)
    first = random.normal(0, 10, 400)
    second = first + random.normal(0.3, 1, 400)
    found = paired_bootstrap(first, second, seed=0, resamples=2000)
    gains = second - first
    assert found.value == pytest.approx(gains.mean())
    assert found.standard_error == pytest.approx(gains.std(ddof=1) / 20, rel=0.1)
    assert (found.low, found.high) == pytest.approx(
        (found.value - 1.96 * found.standard_error, found.value + 1.96 * found.standard_error), abs=0.02
    )
    assert found.p_value < 0.01


def test_the_bootstrap_of_a_ratio_has_the_standard_error_of_the_linear_estimate() -> None:
    random = np.random.default_rng(2)
    weights = random.integers(1, 60, 500).astype(float)
    first = weights * 2.0
    second = weights * random.normal(1.9, 0.3, 500)
    found = paired_ratio_bootstrap(first, second, weights, seed=0, resamples=2000)
    ratio = (second - first).sum() / weights.sum()
    linear = np.sqrt((((second - first) - ratio * weights) ** 2).sum()) / weights.sum()  # Cochran 1977, section 6.4
    assert found.value == pytest.approx(ratio)
    assert found.standard_error == pytest.approx(linear, rel=0.1)
    assert found.low < ratio < found.high


def test_the_paired_bootstrap_of_equals_is_nothing_and_repeats() -> None:
    values = [0.0, 1.0, 1.0]
    assert paired_bootstrap(values, values, seed=0, resamples=100) == Difference(0.0, 0.0, 0.0, 0.0, 1.0)
    again = [paired_bootstrap(values, [1.0, 0.0, 1.0], seed=7, resamples=200) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0].p_value > 0.5
