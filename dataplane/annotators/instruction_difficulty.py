"""How much an instruction helps a language model to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.causal_lm import CausalModel, CausalParams, files_of
from dataplane.annotators.instruction_text import exchange
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams


class InstructionDifficulty(Filter):
    """Measures instruction-following difficulty (IFD): the answer's loss behind what was asked, over its loss by itself.

    Both losses are in nats a token of the answer, under a causal model out of a local folder; the answer by itself stands behind the
    token that starts a text. Near 0 the instruction tells the answer, near 1 it does not help; above 1 it misleads, which mostly means
    that the answer is to something else. The paper drops what is above 1 and trains on the highest of the rest. Of longer conversations
    the last answer is measured behind all turns before it, of comparisons the chosen one. What is no conversation has no signals, and
    is kept. A value is of its model: compare none of two models, nor of languages of which the model knows one better.

    Source: Li et al. 2024, arXiv:2308.12032, section 2.2, equations 1 to 3.
    """

    name, version = "instruction_difficulty", "1"
    reads = {"text": pa.large_string()}
    writes = {"ifd": pa.float64(), "answer_loss": pa.float64(), "alone_loss": pa.float64(), "answer_tokens": pa.int64()}

    class Params(BaseParams):
        """Params of the difficulty."""

        model: str = Field("models/causal", min_length=1, description="Folder of a causal model of transformers, from the project on.")
        min_ifd: float | None = Field(
            None, ge=0, description="Ratio of losses below which a record is dropped as too easy; null drops none."
        )
        max_ifd: float | None = Field(
            None, gt=0, description="Ratio of losses above which a record is dropped, 1 in the paper; null drops none."
        )
        causal: CausalParams = Field(CausalParams.model_validate({}), description="How the model is run; overlap has no meaning here.")

    def files(self) -> list[Path]:
        """Weights, configuration and tokenizer.

        Raises:
            ModelMissing: They are not there.
        """
        return files_of(Path(self.params.model).expanduser())

    def open(self) -> None:
        """Loads the model."""
        self._model = CausalModel(Path(self.params.model).expanduser(), self.params.causal)

    def close(self) -> None:
        """Lets go of it."""
        del self._model

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The losses of each answer, and their quotient."""
        found = [exchange(text) for text in batch.column("text").to_pylist()]
        rows = [i for i, one in enumerate(found) if one and one.asked and one.answer.strip()]
        both = [(one.asked, one.answer) for i in rows if (one := found[i])]
        nats, counts = self._model.answer_nats(both + [((), answer) for _, answer in both])
        asked, alone = np.split(nats / np.maximum(counts, 1), 2)
        tokens = counts[: len(rows)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ifd = asked / alone
        values = {"ifd": ifd, "answer_loss": asked, "alone_loss": alone, "answer_tokens": tokens}
        return {name: _scattered(values[name], rows, tokens > 0, len(batch), kind) for name, kind in self.writes.items()}

    def rules(self) -> Mapping[str, str]:
        """too_easy and misleading, where a limit is set."""
        found = {}
        if (least := self.params.min_ifd) is not None:
            found["too_easy"] = f"instruction_difficulty.ifd < {least!r}"
        if (most := self.params.max_ifd) is not None:
            found["misleading"] = f"instruction_difficulty.ifd > {most!r}"
        return found


def _scattered(values: np.ndarray, rows: list[int], known: np.ndarray, n: int, kind: pa.DataType) -> pa.Array:
    """Values at their rows; null elsewhere, and where they are not known or not finite."""
    out: list[float | int | None] = [None] * n
    for row, value, there in zip(rows, values.tolist(), known.tolist(), strict=True):
        out[row] = value if there and np.isfinite(value) else None
    return pa.array(out, kind)
