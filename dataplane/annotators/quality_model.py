"""Quality under a linear classifier that `dataplane train-quality` trained on good and bad examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from dataplane.annotators.fasttext_scores import SUFFIXES, fasttext_scores, load_fasttext, one_line
from dataplane.errors import ModelMissing
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams


class QualityModel(Filter):
    """Calibrated probability that a document is of the kind of the positive examples.

    What the model never saw (another language, another kind of document) it scores by chance resemblance: give the operator a `when`.

    Source: after DCLM (Li et al. 2024, arXiv:2406.11794, section 4.4), with characters beside the words.
    """

    name, version = "quality_model", "1"
    reads = {"text": pa.large_string()}
    writes = {"score": pa.float32()}

    class Params(BaseParams):
        """Params of the classifier."""

        model: str = Field(
            "models/quality.npz",
            min_length=1,
            description="File of the model, from the project on; `dataplane train-quality` writes it. fastText's end in .bin or .ftz.",
        )
        label: str = Field(
            "good", min_length=1, description="Label of a fastText model whose probability is the score, without its prefix."
        )
        min_score: float | None = Field(
            None, ge=0, le=1, description="Probability of the positive kind below which a document is dropped; null drops none."
        )

    def files(self) -> list[Path]:
        """The model.

        Raises:
            ModelMissing: It is not there.
        """
        return [model_file(self.params.model, self.name, "dataplane train-quality")]

    def open(self) -> None:
        """Loads the model.

        Raises:
            ModelMissing: It is damaged, or tells more than one label.
        """
        from dataplane.kernels.linear_model import Model

        self._fasttext = None
        (path,) = self.files()
        if path.suffix in SUFFIXES:
            self._fasttext = load_fasttext(path, self.params.label)
            return
        self._model = Model.load(path)
        if len(self._model.labels) != 1:
            message = f"{path} tells {len(self._model.labels)} labels, a model of quality tells one"
            raise ModelMissing(message, where=f"operator {self.name!r}", fix="train it with `dataplane train-quality`")

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Score of each text."""
        if self._fasttext is not None:
            lines = [one_line(text) for text in batch.column("text").to_pylist()]
            return {"score": pa.array(fasttext_scores(self._fasttext, lines, self.params.label), pa.float32())}
        return {"score": pa.array(self._model.probabilities(batch.column("text"))[:, 0], pa.float32())}

    def rules(self) -> Mapping[str, str]:
        """low_quality, where a limit is set."""
        limit = self.params.min_score
        return {} if limit is None else {"low_quality": f"quality_model.score < {limit!r}"}


def model_file(name: str, operator: str, command: str) -> Path:
    """The file of a trained model.

    Raises:
        ModelMissing: It is not there.
    """
    path = Path(name).expanduser()
    if not path.is_file():
        fix = f"train it with `{command}`, or take {operator} out of clean.pipeline in params.yaml"
        raise ModelMissing(f"the model {path} does not exist", where=f"operator {operator!r}", fix=fix)
    return path
