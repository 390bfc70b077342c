"""Language of a document, how sure that is, the script of Han text, and how much is in other languages.

Source: the default threshold of 0.65 is FineWeb's (arXiv:2406.17557, 3.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.annotators.han import scripts
from dataplane.annotators.language_models import model_file, open_model
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

UNKNOWN = "und"  # ISO 639-2: undetermined
# Shorter pieces are named at random by every model; a character of Han, kana or Hangul says as much as three of others.
MIN_PIECE_CHARS, MIN_PIECE_CJK = 30, 10
MIN_PIECE_SCORE = 0.7
_LETTER = re.compile(r"[^\W\d_]")
_CJK = "\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3"
# A piece is a line or sentence; where writing changes between Latin and CJK, a piece ends too.
_SENTENCE_END = re.compile(rf"\n+|(?<=[.!?])\s+|(?<=[。！？])|(?<=[{_CJK}，、])\s*(?=[A-Za-z]{{2,}} )|(?<=[A-Za-z.,] )(?=[{_CJK}])")
_ANY_CJK = r"[\x{3041}-\x{30ff}\x{3400}-\x{9fff}\x{ac00}-\x{d7a3}]"  # for RE2
_CJK_CHAR = re.compile(f"[{_CJK}]")


class Language(Filter):
    """Names the language of the first characters of a document, and how sure that is.

    Signals: `script` is Hans, Hant, Jpan or Hani (nothing tells) where there is Han text, else null. `other_share` is the share of
    characters in sentences that are surely in another language than the document; null unless `other_languages` is on.
    """

    name, version = "language", "2"
    reads = {"text": pa.large_string()}
    writes = {"lang": pa.string(), "score": pa.float32(), "script": pa.string(), "other_share": pa.float32()}

    class Params(BaseParams):
        """Params of language identification."""

        model: str = Field("lid.176", description="Name of a known model, py3langid, or path of a fastText model file.")
        max_chars: int = Field(1000, ge=20, description="Characters looked at, from the start.")
        min_score: float = Field(0.65, ge=0, le=1, description="Lowest score kept; 0 keeps all.")
        other_languages: bool = Field(False, description="Whether sentences in other languages are looked for, which takes twice as long.")
        keep: tuple[Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*$")], ...] = Field(
            (), description="Languages kept, as the model names them (en, zh, ...); empty keeps all."
        )

    def files(self) -> list[Path]:
        """The model."""
        return [model_file(self.params.model)]

    def open(self) -> None:
        """Loads the model."""
        self._model = open_model(self.params.model)

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Language code and score, "und" and 0 where there is no letter; script and share of other languages."""
        sliced = pc.utf8_slice_codeunits(batch.column("text"), 0, self.params.max_chars)
        starts = sliced.to_pylist()
        found = self._identify(starts)
        langs = [lang for lang, _ in found]
        shares = self._other_shares(starts, langs) if self.params.other_languages else [None] * len(starts)
        return {
            "lang": pa.array(langs, pa.string()),
            "score": pa.array([score for _, score in found], pa.float32()),
            "script": _scripts(sliced, starts),
            "other_share": pa.array(shares, pa.float32()),
        }

    def _identify(self, texts: list[str]) -> list[tuple[str, float]]:
        """Language and score of each text, by one call of the model for all that have a letter."""
        lines = [text.replace("\n", " ").replace("\0", " ") for text in texts]  # the model reads one line, as a C string
        rows = [row for row, line in enumerate(lines) if _LETTER.search(line)]
        found = [(UNKNOWN, 0.0)] * len(lines)
        for row, (lang, score) in zip(rows, self._model.identify([lines[row] for row in rows]), strict=True):
            found[row] = (lang, score) if lang else (UNKNOWN, 0.0)
        return found

    def _other_shares(self, texts: list[str], langs: list[str]) -> list[float]:
        """Share of the characters of all pieces that are in pieces of another language."""
        pieces = [_pieces(text) for text in texts]
        found = iter(self._identify([piece for row in pieces for piece in row]))
        shares = []
        for lang, row in zip(langs, pieces, strict=True):
            other = sum(len(piece) for piece, (name, score) in zip(row, found, strict=False) if name != lang and score >= MIN_PIECE_SCORE)
            shares.append(other / max(sum(map(len, row)), 1))
        return shares

    def rules(self) -> Mapping[str, str]:
        """low_confidence, and other_language where languages are named."""
        rules = {"low_confidence": f"language.score < {self.params.min_score!r}"}
        if self.params.keep:
            codes = ", ".join(f"'{code}'" for code in self.params.keep)
            rules["other_language"] = f"language.lang NOT IN ({codes})"
        return rules


def _scripts(column: pa.Array, texts: list[str]) -> pa.Array:
    """Script of the rows that have CJK characters, found by a look over the whole column."""
    rows = pc.indices_nonzero(pc.match_substring_regex(column, _ANY_CJK)).to_pylist()
    found: list[str | None] = [None] * len(texts)
    for row, script in zip(rows, scripts([texts[row] for row in rows]), strict=True):
        found[row] = script
    return pa.array(found, pa.string())


def _pieces(text: str) -> list[str]:
    """The sentences that are long enough to have their language named."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(text))
    return [piece for piece in pieces if len(piece) >= MIN_PIECE_CHARS or len(_CJK_CHAR.findall(piece)) >= MIN_PIECE_CJK]
