"""The bars on public data: COLD's dev part by a model trained on its train part, and human labels of quality."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataplane.corpus.classification import auc, decisions
from dataplane.corpus.linear_model import TrainParams, fold_of, out_of_fold
from dataplane.kernels.linear_model import matrix
from dataplane.kernels.logistic import Sparse, fit

PARAMS = TrainParams()


def sparse(texts: pa.Array) -> Sparse:
    return Sparse(*matrix(texts, PARAMS.features()), 1 << PARAMS.bits)


@pytest.mark.slow
def test_offensive_chinese_posts_are_told_with_f1_of_at_least_80_percent(shared_data: Path) -> None:
    parts = {}
    for name in ("train", "dev"):
        with (shared_data / "toxicity" / "cold_zh" / f"{name}.csv").open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        parts[name] = (pa.array([row["TEXT"] for row in rows], pa.large_string()), np.array([row["label"] == "1" for row in rows]))
    weights = fit(sparse(parts["train"][0]), parts["train"][1], PARAMS.c)
    assert decisions(sparse(parts["dev"][0]).times(weights) > 0, parts["dev"][1])["f1"] >= 0.85


@pytest.mark.slow
def test_human_labels_of_quality_are_ranked_better_than_by_chance_or_length(shared_data: Path) -> None:
    path = shared_data / "quality" / "dclm_human" / "majority_minus_agreement.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    text, good = pa.array([row["text"] for row in rows], pa.large_string()), np.array([str(row["label"]) == "1" for row in rows])
    margins = out_of_fold(sparse(text), good, fold_of(text, 10), PARAMS.c)
    assert auc(margins, good) > 0.65
