"""Toxicity under linear classifiers that `dataplane train-toxicity` trained, one model for each language."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.quality_model import model_file
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams
from dataplane.ruleset import sql_literal

F64 = npt.NDArray[np.float64]


class ToxicityModel(Filter):
    """Calibrated probability of each category of toxicity, as a mean over the pieces of a document, and of its worst piece.

    The models learn from posts of a sentence or two, so a document is read in pieces of about that length. A document in a language
    without a model has no score, and is kept.

    Source: hashed character n-grams, Weinberger et al. 2009 (arXiv:0902.2206); calibration, Platt 1999. Measured in docs/classifiers.md.
    """

    name, version = "toxicity_model", "1"
    reads = {"text": pa.large_string(), "language__lang": pa.string()}
    writes = {
        "score": pa.float32(),
        "worst": pa.float32(),
        "categories": pa.list_(pa.string()),
        "scores": pa.list_(pa.float32()),
    }

    class Params(BaseParams):
        """Params of the classifiers."""

        models: dict[str, str] = Field(
            {}, description="Language -> file of its model, relative to the project; `dataplane train-toxicity` writes it."
        )
        piece_chars: int = Field(200, ge=1, description="Characters of a piece, after which it ends with its sentence or line.")
        max_score: float | None = Field(0.5, ge=0, le=1, description="Highest mean probability of any category kept; null keeps all.")
        max_worst: float | None = Field(None, ge=0, le=1, description="Highest probability of the worst piece kept; null keeps all.")
        max_by_category: dict[str, float] = Field({}, description="Category -> highest mean probability kept, in the place of max_score.")

    def files(self) -> list[Path]:
        """The models, by language.

        Raises:
            ModelMissing: One is not there.
        """
        return [model_file(path, self.name, f"dataplane train-toxicity --lang {lang}") for lang, path in sorted(self.params.models.items())]

    def open(self) -> None:
        """Loads the models."""
        from dataplane.kernels.linear_model import Model

        self._models = {lang: Model.load(path) for lang, path in zip(sorted(self.params.models), self.files(), strict=True)}

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Scores of each text under the model of its language."""
        langs = np.array(batch.column("language__lang").to_pylist(), object)
        score, worst = np.full(len(batch), np.nan), np.full(len(batch), np.nan)
        categories: list[list[str]] = [[] for _ in range(len(batch))]
        scores: list[list[float]] = [[] for _ in range(len(batch))]
        for lang, model in self._models.items():
            rows = np.flatnonzero(langs == lang)
            means, highest = self._by_document(model.probabilities, batch.column("text").take(pa.array(rows, pa.int64())))
            score[rows], worst[rows] = means.max(axis=1), highest.max(axis=1)
            for row, values in zip(rows.tolist(), means.tolist(), strict=True):
                categories[row], scores[row] = list(model.labels), values
        return {
            "score": pa.array(score, pa.float32(), from_pandas=True),
            "worst": pa.array(worst, pa.float32(), from_pandas=True),
            "categories": pa.array(categories, self.writes["categories"]),
            "scores": pa.array(scores, self.writes["scores"]),
        }

    def _by_document(self, probabilities, text: pa.Array) -> tuple[F64, F64]:  # type: ignore[no-untyped-def]  # a bound method of Model
        """Mean over the pieces, by their length, and highest of them: float64 [n, labels] each."""
        from dataplane.kernels.pieces import split

        pieces, documents, lengths = split(text, self.params.piece_chars)
        of_pieces = probabilities(pieces)
        means = np.zeros((len(text), of_pieces.shape[1]))
        highest = np.zeros_like(means)
        np.add.at(means, documents, of_pieces * lengths[:, None])
        np.maximum.at(highest, documents, of_pieces)
        return means / np.maximum(np.bincount(documents, lengths, len(text)), 1e-9)[:, None], highest

    def rules(self) -> Mapping[str, str]:
        """too_toxic by the mean of a category, toxic_part by the worst piece."""
        tests = [f"{_score_of(category)} > {limit!r}" for category, limit in sorted(self.params.max_by_category.items())]
        if self.params.max_score is not None:
            tests.append(_any_other_above(self.params.max_score, sorted(self.params.max_by_category)))
        found = {"too_toxic": " OR ".join(tests)} if tests else {}
        if self.params.max_worst is not None:
            found["toxic_part"] = f"toxicity_model.worst > {self.params.max_worst!r}"
        return found


def _score_of(category: str) -> str:
    return f"list_extract(toxicity_model.scores, list_position(toxicity_model.categories, {sql_literal(category)}))"


def _any_other_above(limit: float, named: list[str]) -> str:
    """Whether a category that has no limit of its own has a higher mean."""
    if not named:
        return f"toxicity_model.score > {limit!r}"
    others = "list_zip(toxicity_model.categories, toxicity_model.scores)"
    return f"len(list_filter({others}, lambda pair: pair[1] NOT IN {sql_literal(named)} AND pair[2] > {limit!r})) > 0"
