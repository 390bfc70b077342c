"""Training of a fastText classifier of quality: the same cross-validation and report as the linear classifier's, in fastText's own file.

Words are parted by white space, so that Chinese needs a text that is segmented already; the linear classifier reads characters too.

Source: Joulin et al. 2016 (arXiv:1607.01759); word bigrams after DCLM (Li et al. 2024, arXiv:2406.11794, section 4.4).
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dataplane.annotators.fasttext_scores import fasttext_scores, one_line
from dataplane.corpus.classification import measure
from dataplane.corpus.linear_model import REPORTED_FEATURES, Bools, Labelled, check, fold_of
from dataplane.kernels.linear_model import F64
from dataplane.params import Params

_SEARCHED_WORDS = 20_000  # the most frequent ones, for the report
_OTHER = "other"


class FastTextParams(Params):
    """How the classifier is trained."""

    dim: int = Field(50, ge=1, le=1000, description="Numbers that a word becomes.")
    epoch: int = Field(10, ge=1, le=1000, description="Passes over the documents.")
    lr: float = Field(0.5, gt=0, description="Step at the start.")
    word_n: int = Field(2, ge=1, le=5, description="Words of the longest word n-gram.")
    min_count: int = Field(1, ge=1, description="Occurrences below which a word is left out.")
    buckets: int = Field(200_000, ge=1, description="Buckets that word n-grams are hashed into.")
    folds: int = Field(5, ge=2, le=20, description="Parts of the cross-validation.")


def train(data: Labelled, params: FastTextParams, out: Path) -> dict[str, Any]:
    """Trains a model of the one label of `data`, writes it, and says how good it is.

    Returns:
        The report that `corpus.linear_model.train` gives: documents, params, and the measurements of the label.

    Raises:
        DataError: The label has too few documents on a side.
    """
    check(data)
    (label,), positive = data.labels, data.has[:, 0]
    lines = [one_line(text) for text in data.text.to_pylist()]
    folds = fold_of(data.text, params.folds)
    probabilities = np.zeros(len(lines))
    for fold in np.unique(folds):
        inside = folds == fold
        model = _fitted(lines, positive, ~inside, label, params)
        probabilities[inside] = fasttext_scores(model, [lines[i] for i in np.flatnonzero(inside)], label)
    model = _fitted(lines, positive, np.ones(len(lines), np.bool_), label, params)
    out.parent.mkdir(parents=True, exist_ok=True)
    model.save_model(str(out))
    told = {"documents": int(positive.sum()), "cross_validated": measure(probabilities, positive), **_words(model, label)}
    return {"documents": len(lines), "params": params.model_dump(mode="json"), "labels": {label: told}}


def _fitted(lines: list[str], positive: Bools, rows: Bools, label: str, params: FastTextParams) -> Any:
    """A model of some of the documents; one thread, so that the same documents give the same model."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.txt"
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            for i in np.flatnonzero(rows):
                stream.write(f"__label__{label if positive[i] else _OTHER} {lines[i]}\n")
        _give_back_memory()
        return fasttext.train_supervised(
            str(path),
            dim=params.dim,
            epoch=params.epoch,
            lr=params.lr,
            wordNgrams=params.word_n,
            minCount=params.min_count,
            bucket=params.buckets,
            thread=1,
            verbose=0,
        )


def _give_back_memory() -> None:
    """Has the C library give freed memory back to the system, which hands it out zeroed.

    With one thread fastText draws a tenth of its matrix at random and leaves the rest as the memory was: in a process that has freed much
    before, that is whatever stood there, NaN included. Only glibc knows the call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _words(model: Any, label: str) -> dict[str, list[dict[str, Any]]]:
    """The words that alone are the most and the least probable sign of the label, with their log odds."""
    words = [word for word in model.get_words() if not word.startswith("</")][:_SEARCHED_WORDS]
    p: F64 = np.clip(fasttext_scores(model, words, label), 1e-6, 1 - 1e-6)
    odds = np.log(p / (1 - p))
    order = np.argsort(odds, kind="stable")
    sides = {"for": order[::-1][:REPORTED_FEATURES], "against": order[:REPORTED_FEATURES]}
    return {side: [{"feature": words[i], "weight": round(float(odds[i]), 4)} for i in found] for side, found in sides.items()}
