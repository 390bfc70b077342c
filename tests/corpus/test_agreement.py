"""Agreement is what statsmodels, scikit-learn and krippendorff compute, and what the papers printed."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from dataplane.cli import main
from dataplane.corpus.agreement import agreement, cohen_kappa, crosstab, fleiss_kappa, krippendorff_alpha, label_counts
from dataplane.corpus.ratings import MISSING, Ratings

# Fleiss 1971, table 1: thirty patients, six diagnoses each (1 depression, 2 personality disorder, 3 schizophrenia, 4 neurosis, 5 other).
FLEISS_1971 = """
444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 144444 124444 222333 144444 224445
333335 111455 111112 224444 133555 555555 244444 224555 114444 144445 222224 111155 224444 133333 555555
""".split()
# Krippendorff 2011, Computing Krippendorff's alpha-reliability, example C: twelve units, four observers, * where one is silent.
KRIPPENDORFF_2011 = "11*1 2232 3333 3333 2222 1234 4444 1121 2222 *555 **11 **3*".split()
LABELS = st.integers(0, 3)


def table_of(rows: list[str]) -> np.ndarray[Any, Any]:
    """Codes [items, annotators] of units written as digits."""
    return np.array([[int(label) - 1 for label in row] for row in rows])


def test_fleiss_1971_is_reproduced() -> None:
    assert fleiss_kappa(label_counts(table_of(FLEISS_1971), 5)) == pytest.approx(0.430, abs=5e-4)


def test_fleiss_1971_by_diagnosis_is_reproduced() -> None:
    labels = ("depression", "personality", "schizophrenia", "neurosis", "other")
    ratings = Ratings(tuple("abcdef"), labels, table_of(FLEISS_1971), False, None)
    assert agreement(ratings)["fleiss"]["by_label"] == pytest.approx(
        {"depression": 0.245, "personality": 0.245, "schizophrenia": 0.520, "neurosis": 0.471, "other": 0.566}, abs=1e-3
    )


@given(st.lists(st.lists(LABELS, min_size=3, max_size=3), min_size=2, max_size=30))
def test_fleiss_is_that_of_statsmodels(rows: list[list[int]]) -> None:
    counts = label_counts(np.array(rows), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero where all labels are one
        expected = float(inter_rater.fleiss_kappa(counts[:, counts.any(axis=0)]))
    found = fleiss_kappa(counts)
    assert math.isnan(expected) if found is None else found == pytest.approx(expected)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@given(pairs=st.lists(st.tuples(LABELS, LABELS), min_size=2, max_size=40))
def test_cohen_is_that_of_scikit_learn_and_its_error_that_of_statsmodels(weights: Any, pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    table = crosstab(a, b, 4)
    kappa, error = cohen_kappa(table, weights)
    if kappa is None:
        assert len({*a, *b}) == 1
        return
    kind = None if weights == "none" else weights
    assert kappa == pytest.approx(cohen_kappa_score(a, b, weights=kind, labels=[0, 1, 2, 3]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by an error of zero for a test of its own
        reference = inter_rater.cohens_kappa(table, wt=kind)
    # Squares, since the root makes 1e-7 of the rounding of a variance of zero.
    assert error is not None
    assert error**2 == pytest.approx(max(0.0, reference.var_kappa), abs=1e-12)


def test_cohen_1968_is_reproduced() -> None:
    # Fleiss, Cohen, Everitt 1969, table 1: proportions of 200 subjects; kappa .429, standard error .054.
    table = np.array([[0.53, 0.05, 0.02], [0.11, 0.14, 0.05], [0.01, 0.06, 0.03]]) * 200
    assert cohen_kappa(table) == pytest.approx((0.429, 0.054), abs=5e-4)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@given(rows=st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=2, max_size=20))
def test_alpha_is_that_of_the_reference(level: Any, rows: list[list[int]]) -> None:
    codes = np.array(rows)
    counts = label_counts(codes, 4)
    usable = counts[counts.sum(axis=1) >= 2]
    if not len(usable) or (usable.sum(axis=0) > 0).sum() < 2:
        assert krippendorff_alpha(counts, level, [1, 2, 3, 4]) is None
        return
    reference = krippendorff.alpha(value_counts=counts, value_domain=[1, 2, 3, 4], level_of_measurement=level)
    assert krippendorff_alpha(counts, level, [1, 2, 3, 4]) == pytest.approx(reference)


def test_what_chance_alone_would_give_has_no_value() -> None:
    same = Ratings(("a", "b"), ("x",), np.zeros((3, 2), np.int64), False, None)
    found = agreement(same)
    assert (found["mean_kappa"], found["fleiss"]["kappa"], found["krippendorff"]["nominal"]) == (None, None, None)
    assert found["pairs"][0]["agreement"] == 1.0


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["agreement", *arguments])


def test_wide_and_long_form_say_the_same(tmp_path: Path) -> None:
    rows = [{"id": i, "ann": a, "bob": b} for i, (a, b) in enumerate([(1, 1), (2, 3), (3, 3), (1, None), (2, 2)])]
    (tmp_path / "wide.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"{row['id']},{name},{row[name] or ''}" for row in reversed(rows) for name in ("bob", "ann")]
    (tmp_path / "long.csv").write_text("item,who,label\n" + "\n".join(lines) + "\n")
    wide = run(str(tmp_path / "wide.jsonl"), "--annotators", "ann,bob", "--json")
    long = run(str(tmp_path / "long.csv"), "--annotator", "who", "--json")
    assert (wide.exit_code, json.loads(wide.output)) == (0, json.loads(long.output))
    found = json.loads(wide.output)
    a, b = [1, 2, 3, 2], [1, 3, 3, 2]
    (pair,) = found["pairs"]
    assert {name: pair.pop(name) for name in ("annotators", "items", "agreement")} == {
        "annotators": ["ann", "bob"], "items": 4, "agreement": 0.75,
    }  # fmt: skip
    kappas = {name: cohen_kappa_score(a, b, weights=None if name == "kappa" else name) for name in ("kappa", "linear", "quadratic")}
    assert {name: pair[name] for name in kappas} == pytest.approx(kappas)
    assert (found["labels"], found["annotators"]) == ({"1": 3, "2": 3, "3": 3}, {"ann": 5, "bob": 4})
    assert (found["fleiss"]["items"], found["fleiss"]["ratings_per_item"]) == (4, 2)


def test_an_order_of_names_allows_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\nbad,fair\nfair,fair\ngood,bad\ngood,good\n")
    assert "linear" not in json.loads(run(str(path), "--annotators", "a,b", "--json").output)["pairs"][0]
    found = json.loads(run(str(path), "--annotators", "a,b", "--order", "bad,fair,good", "--json").output)
    assert found["pairs"][0]["linear"] == pytest.approx(cohen_kappa_score([0, 1, 2, 2], [1, 1, 0, 2], weights="linear"))
    assert list(found["krippendorff"]) == ["nominal", "ordinal"]


def test_krippendorff_2011_is_reproduced_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    units = [",".join(unit).replace("*", "") for unit in KRIPPENDORFF_2011]
    path.write_text("A,B,C,D\n" + "\n".join(units) + "\n")
    found = json.loads(run(str(path), "--annotators", "A,B,C,D", "--json").output)
    assert found["krippendorff"] == pytest.approx({"nominal": 0.743, "ordinal": 0.815, "interval": 0.849}, abs=5e-4)


def test_a_screen_names_the_values(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\nx,x\ny,x\ny,y\n")
    shown = run(str(path), "--annotators", "a,b")
    assert shown.exit_code == 0
    assert [name in shown.output for name in ("Fleiss' kappa", "mean Cohen's kappa", "Krippendorff's alpha, nominal", "a – b")] == [
        True
    ] * 4


@pytest.mark.parametrize(
    ("name", "text", "arguments", "code", "said"),
    [
        ("a.csv", "item,annotator,label\n1,x,a\n1,x,b\n", [], 1, "'x' labelled item '1' twice"),
        ("a.csv", "a,b\n,\n", ["--annotators", "a,b"], 1, "there is no label"),
        ("a.csv", "a,b\nx,y\n", ["--annotators", "a,b", "--order", "x"], 2, "labels that the order does not name: 'y'"),
        ("a.csv", "a,b\nx,y\n", ["--annotators", "a,c"], 2, "row 1 has no 'c'"),
        ("a.jsonl", "[1]\n", [], 1, "row 1 is no object"),
        ("a.jsonl", "{\n", [], 1, "cannot be read"),
        ("a.xyz", "", [], 2, "are not read"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / name).write_text(text)
    done = run(str(tmp_path / name), *arguments)
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_missing_is_no_label() -> None:
    codes = np.array([[0, MISSING], [1, 1], [MISSING, MISSING]])
    assert label_counts(codes, 2).tolist() == [[1, 0], [0, 2], [0, 0]]
