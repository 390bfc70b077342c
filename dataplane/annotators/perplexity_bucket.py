"""Head, middle and tail of each language by perplexity, as CCNet sorts its documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator

from dataplane.annotators.causal_lm import CausalParams
from dataplane.annotators.lm_scorers import model_files, open_scorer
from dataplane.errors import ModelMissing
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams
from dataplane.ruleset import sql_literal

Bucket = Literal["head", "middle", "tail"]
BUCKETS: tuple[Bucket, ...] = ("head", "middle", "tail")
_FIX = "train it with `dataplane train-lm`, or correct perplexity_bucket.models in params.yaml"


class PerplexityBucket(Filter):
    """Sorts documents into three buckets by perplexity under the model of their language.

    `head` is up to the lower of a language's two cut points, `tail` above the upper one. Cut points come from documents of reference
    (`dataplane fit-buckets MODEL --reference GLOB` puts the terciles beside the model) or from `cuts`. A document in a language without
    a model, or without tokens, has no bucket, and is kept.

    Source: CCNet (Wenzek et al. 2019, arXiv:1911.00359, section 4.2).
    """

    name, version = "perplexity_bucket", "1"
    reads = {"text": pa.large_string(), "language__lang": pa.string()}
    writes = {"value": pa.float64(), "bucket": pa.string()}

    class Params(BaseParams):
        """Params of the buckets."""

        models: dict[str, str] = Field({}, description="Language -> model, relative to the project: any kind that perplexity takes.")
        cuts: dict[str, tuple[float, float]] = Field(
            {}, description="Language -> its two cut points of perplexity; those left out are read from MODEL.cuts.json."
        )
        keep: tuple[Bucket, ...] = Field(BUCKETS, description="Buckets that are kept.")
        causal: CausalParams = Field(CausalParams.model_validate({}), description="How a causal model is run.")

        @field_validator("cuts")
        @classmethod
        def _ordered(cls, cuts: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
            if wrong := [lang for lang, (low, high) in cuts.items() if not 1 <= low <= high]:
                raise ValueError(f"the cut points of {wrong} are not in order, or below 1")
            return cuts

    def files(self) -> list[Path]:
        """The models, their tokenizers and cut points, by language.

        Raises:
            ModelMissing: One is not there.
        """
        found: list[Path] = []
        for lang, model in sorted(self.params.models.items()):
            found += model_files(Path(model), {}, _FIX)
            if lang not in self.params.cuts:
                found.append(_existing_cuts(Path(model)))
        return found

    def open(self) -> None:
        """Loads the models and cut points."""
        self.files()
        models = {lang: Path(model) for lang, model in sorted(self.params.models.items())}
        self._scorers = {lang: open_scorer(path, {}, self.params.causal) for lang, path in models.items()}
        self._cuts = {lang: self.params.cuts.get(lang) or read_cuts(path) for lang, path in models.items()}

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Perplexity and bucket of each text under the model of its language."""
        langs = np.array(batch.column("language__lang").to_pylist(), object)
        value, bucket = np.full(len(batch), np.nan), np.full(len(batch), None, object)
        for lang, scorer in self._scorers.items():
            rows = np.flatnonzero(langs == lang)
            scored = scorer.score(batch.column("text").take(pa.array(rows, pa.int64())))
            rows, perplexity = rows[scored.tokens > 0], scored.perplexity()[scored.tokens > 0]
            value[rows] = perplexity
            bucket[rows] = np.array(BUCKETS, object)[np.searchsorted(self._cuts[lang], perplexity)]
        return {"value": pa.array(value, pa.float64(), from_pandas=True), "bucket": pa.array(bucket.tolist(), pa.string())}

    def rules(self) -> Mapping[str, str]:
        """Drops the buckets that are not kept."""
        dropped = [bucket for bucket in BUCKETS if bucket not in self.params.keep]
        return {f"in_{bucket}": f"perplexity_bucket.bucket = {sql_literal(bucket)}" for bucket in dropped}


def cuts_file(model: Path) -> Path:
    """The file beside a model that holds its cut points."""
    return model.with_name(model.name + ".cuts.json")


def read_cuts(model: Path) -> tuple[float, float]:
    """The two cut points beside a model.

    Raises:
        ModelMissing: There are none, or the file is damaged.
    """
    path = _existing_cuts(model)
    try:
        low, high = json.loads(path.read_text(encoding="utf-8"))["cuts"]
        return float(low), float(high)
    except (ValueError, KeyError, TypeError) as error:
        raise ModelMissing(f"{path} holds no cut points: {error}", where="perplexity_bucket", fix=_fit(model)) from error


def _existing_cuts(model: Path) -> Path:
    path = cuts_file(model)
    if not path.is_file():
        raise ModelMissing(f"the cut points {path} do not exist", where="operator 'perplexity_bucket'", fix=_fit(model))
    return path


def _fit(model: Path) -> str:
    return f"`dataplane fit-buckets {model} --reference GLOB`, or set perplexity_bucket.cuts in params.yaml"
