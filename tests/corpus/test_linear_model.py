"""The linear classifier: features of a plain definition, scikit-learn's minimum, honest measurements, a file that loads or is named."""

import random
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.corpus.classification import auc, best_f1, calibration_error, decisions, measure
from dataplane.corpus.linear_model import Labelled, TrainParams, fold_of, out_of_fold, platt, train
from dataplane.errors import DataError, ModelMissing
from dataplane.kernels.linear_model import Features, Model, matrix, spelled
from dataplane.kernels.logistic import Sparse, fit

SMALL = {"bits": 12, "folds": 3}
GOOD = "the careful author explains each step 我们 详细 说明 原因".split()
BAD = "buy cheap click winner now 立即 购买 特价 点击".split()


def texts(words: list[str], n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices([*words, "and", "a", "of"], k=8)) for _ in range(n)]


def examples(n: int = 60) -> Labelled:
    text = pa.array(texts(GOOD, n, 1) + texts(BAD, n, 2), pa.large_string())
    return Labelled(text, ("good",), np.repeat([True, False], n)[:, None])


def test_features_are_the_ngrams_words_and_pairs_of_the_folded_text() -> None:
    _, names = spelled("Ab  ｃ1, 好", Features(bits=20, char_n=2, word_n=2))
    grams = [" ", " a", "a", "ab", "b", "b ", " ", " c", "c", "c0", "0", "0,", ",", ", ", " ", " 好", "好", "好 ", " "]
    assert sorted(names) == sorted([*grams, "ab", "c0", "ab c0"])


@given(st.text(max_size=40))
def test_a_text_has_the_same_features_alone_and_among_others(text: str) -> None:
    features = Features(bits=10)
    buckets, bounds = matrix(pa.array(["other", text, ""], pa.large_string()), features)
    assert sorted(buckets[bounds[1] : bounds[2]].tolist()) == sorted(set(spelled(text, features)[0].tolist()))


def test_the_minimum_is_that_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    data = examples()
    documents = Sparse(*matrix(data.text, Features(bits=10)), 1 << 10)
    dense = np.zeros((len(documents), 1 << 10))
    for row in range(len(documents)):
        held = documents.buckets[documents.bounds[row] : documents.bounds[row + 1]]
        dense[row, held] = 1 / np.sqrt(len(held))
    positive = data.has[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the oracle, about its own options
        oracle = LogisticRegression(C=5.0, tol=1e-8, max_iter=1000).fit(dense, positive)
    found = fit(documents, positive, 5.0)
    np.testing.assert_allclose(documents.times(found), oracle.decision_function(dense), atol=0.02)


def test_measurements_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, precision_score, recall_score, roc_auc_score

    random_state = np.random.default_rng(0)
    p = np.round(random_state.random(200), 2)  # with ties
    positive = random_state.random(200) < p
    expected = {"precision": precision_score, "recall": recall_score, "f1": f1_score, "accuracy": accuracy_score}
    assert auc(p, positive) == pytest.approx(roc_auc_score(positive, p))
    assert decisions(p >= 0.5, positive) == pytest.approx({name: score(positive, p >= 0.5) for name, score in expected.items()})
    assert measure(p, positive)["brier"] == pytest.approx(brier_score_loss(positive, p), abs=1e-4)
    threshold, best = best_f1(p, positive)
    assert best == pytest.approx(max(f1_score(positive, p >= t) for t in np.unique(p)))
    assert f1_score(positive, p >= threshold) == pytest.approx(best)
    assert calibration_error(np.array([0.25, 0.25, 0.25, 0.25]), np.array([True, False, False, False])) == 0


def test_training_learns_calibrates_and_tells_what_it_dislikes() -> None:
    data = examples()
    model, report = train(data, TrainParams(**SMALL))
    fresh = model.probabilities(pa.array(texts(GOOD, 20, 3) + texts(BAD, 20, 4), pa.large_string()))[:, 0]
    assert (fresh[:20].min() > 0.8, fresh[20:].max() < 0.2) == (True, True)
    row = report["labels"]["good"]
    assert row["cross_validated"]["auc"] == 1.0
    read = {"for": f" {' '.join(texts(GOOD, 60, 1))} ", "against": f" {' '.join(texts(BAD, 60, 2))} "}
    told = [[found["feature"] in read[side] for found in row[side][:10]] for side in ("for", "against")]
    other = [[found["feature"] in read[side] for found in row[flipped][:10]] for side, flipped in (("for", "against"), ("against", "for"))]
    assert (told, other) == ([[True] * 10] * 2, [[False] * 10] * 2)


def test_training_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        train(examples(), TrainParams(**SMALL))[0].save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_labels_without_signal_are_measured_as_such() -> None:
    data = examples(100)
    shuffled = np.random.default_rng(5).permutation(data.has[:, 0])
    documents = Sparse(*matrix(data.text, Features(bits=12)), 1 << 12)
    margins = out_of_fold(documents, shuffled, fold_of(data.text, 5), 8.0)
    assert 0.35 < auc(margins, shuffled) < 0.65


def test_copies_share_a_fold() -> None:
    folds = fold_of(pa.array(["One text.", "one TEXT", "another"], pa.large_string()), 1000)
    assert (folds[0] == folds[1], folds[0] == folds[2]) == (True, False)


def test_platt_recovers_the_logistic_that_made_the_labels() -> None:
    random_state = np.random.default_rng(1)
    margins = random_state.normal(size=20_000) * 3
    positive = random_state.random(20_000) < 1 / (1 + np.exp(-(0.7 * margins - 0.4)))
    assert platt(margins, positive) == pytest.approx((0.7, -0.4), abs=0.05)


def test_a_label_with_too_few_documents_is_named() -> None:
    data = examples(5)
    with pytest.raises(DataError, match="'good' has 5 documents of 10"):
        train(data, TrainParams(**SMALL))


def test_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    data = examples()
    model, _ = train(data, TrainParams(**SMALL))
    model.save(tmp_path / "model.npz")
    loaded = Model.load(tmp_path / "model.npz")
    assert (loaded.labels, loaded.features) == (model.labels, model.features)
    np.testing.assert_array_equal(loaded.probabilities(data.text), model.probabilities(data.text))


@pytest.mark.parametrize("damage", ["absent", "cut", "other", "shape"])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "model.npz"
    if damage == "cut":
        train(examples(), TrainParams(**SMALL))[0].save(path)
        path.write_bytes(path.read_bytes()[:1000])
    elif damage == "other":
        path.write_bytes(b"no zip at all")
    elif damage == "shape":
        model = train(examples(), TrainParams(**SMALL))[0]
        Model(Features(bits=13), model.labels, model.weights, model.biases, model.slopes, model.offsets).save(path)
    with pytest.raises(ModelMissing, match=r"model\.npz"):
        Model.load(path)
