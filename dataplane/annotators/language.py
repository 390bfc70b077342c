"""Language of a document, by fastText.

Source: Joulin et al. 2016, arXiv:1612.03651; the default threshold of 0.65 is FineWeb's (arXiv:2406.17557, 3.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.models import locate
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams
from dataplane.settings import load_settings

LABEL_PREFIX = "__label__"
UNKNOWN = "und"  # ISO 639-2: undetermined
_LETTER = re.compile(r"[^\W\d_]")


class Language(Filter):
    """Names the language of the first characters of a document, and how sure that is."""

    name, version = "language", "1"
    reads = {"text": pa.large_string()}
    writes = {"lang": pa.string(), "score": pa.float32()}

    class Params(BaseParams):
        """Params of language identification."""

        model: str = Field("lid.176", description="Name of a known model, or path of a fastText model file.")
        max_chars: int = Field(1000, ge=20, description="Characters looked at, from the start.")
        min_score: float = Field(0.65, ge=0, le=1, description="Lowest score kept; 0 keeps all.")
        keep: tuple[Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*$")], ...] = Field(
            (), description="Languages kept, as the model names them (en, zh, ...); empty keeps all."
        )

    def files(self) -> list[Path]:
        """The model."""
        return [locate(self.params.model, load_settings())]

    def open(self) -> None:
        """Loads the model."""
        import fasttext

        # The library prints a warning of its own on every load.
        fasttext.FastText.eprint = lambda *args, **kwargs: None
        self._model: Any = fasttext.load_model(str(locate(self.params.model, load_settings())))

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Language code and score; "und" and 0 where there is no letter."""
        starts = pc.utf8_slice_codeunits(batch.column("text"), 0, self.params.max_chars).to_pylist()
        found = [self._identify(start) for start in starts]
        return {"lang": pa.array([lang for lang, _ in found], pa.string()), "score": pa.array([score for _, score in found], pa.float32())}

    def _identify(self, start: str) -> tuple[str, float]:
        start = " ".join(start.replace("\0", " ").split())  # the model reads one line, as a C string
        if not _LETTER.search(start):
            return UNKNOWN, 0.0
        labels, scores = self._model.predict(start)
        if not labels:
            return UNKNOWN, 0.0
        # The softmax is summed in float32 and can end a hair above 1.
        return labels[0].removeprefix(LABEL_PREFIX), min(float(scores[0]), 1.0)

    def rules(self) -> Mapping[str, str]:
        """low_confidence, and other_language where languages are named."""
        rules = {"low_confidence": f"language.score < {self.params.min_score!r}"}
        if self.params.keep:
            codes = ", ".join(f"'{code}'" for code in self.params.keep)
            rules["other_language"] = f"language.lang NOT IN ({codes})"
        return rules
