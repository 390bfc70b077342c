"""Makes a variant of each text for fine-tuning: synonyms, insertions, swaps or deletions of words, chosen by the document's id.

The transform puts the variant in the place of the text: give it a source of its own over the same files. `dataplane augment` writes
variants of instruction files beside their parents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from dataplane.errors import ParamsError
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.synonyms import read_synonyms, synonym_files
from dataplane.transforms.word_edits import METHODS, Draws, Vocabulary, edited

# Words of the closed classes of English (pronouns, determiners, prepositions, conjunctions, auxiliaries): WordNet has homonyms of
# several, as I for iodine, and none means the same in a sentence.
FUNCTION_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between both but by can cannot could
    did do does doing down during each either every few for from had has have having he her here hers herself him himself his how i if in
    into is it its itself just least less many may me might mine more most much must my myself neither no none nor not of off on once one
    only or other our ours ourselves out over own same shall she should since so some such than that the their theirs them themselves then
    there these they this those through till to too two under until up upon us very was we were what when where whether which while who
    whom whose why will with within without would yet you your yours yourself yourselves
    """.split()  # noqa: SIM905 -- a list of words
)
NEEDS_SYNONYMS = frozenset({"synonym", "insertion"})


class AugmentParams(BaseParams):
    """How variants are made."""

    method: Literal["synonym", "insertion", "swap", "deletion"] = Field("swap", description="What is done to words.")
    share: float = Field(
        0.1, gt=0, le=1, description="Edits for each word, one at least; of deletion the probability. 0.1 as in arXiv:1901.11196."
    )
    synonyms: str | None = Field(
        None, description="File of synonyms (a set a line) or folder of a WordNet database; synonym and insertion need it."
    )
    seed: int = Field(0, ge=0, description="Another seed gives other variants.", json_schema_extra={"unit": "none"})


class Augment(Transform):
    """Rewrites each text as a variant of itself. Source: Wei and Zou 2019, arXiv:1901.11196."""

    name, version = "augment", "1"
    reads = {"doc_id": pa.string(), "text": pa.large_string()}
    edits = METHODS
    Params = AugmentParams

    def files(self) -> list[Path]:
        """The synonyms."""
        if self.params.synonyms is None and self.params.method in NEEDS_SYNONYMS:
            message = f"method {self.params.method!r} needs synonyms"
            raise ParamsError(message, where=f"operator {self.name!r}", fix="name a file or a WordNet folder as `synonyms`")
        return [] if self.params.synonyms is None else synonym_files(Path(self.params.synonyms))

    def open(self) -> None:
        """Reads the synonyms."""
        self.files()
        self._vocabulary = vocabulary(self.params.synonyms)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """A variant of each text, by its doc_id."""
        done = [
            edited(text, self.params.method, self.params.share, self._vocabulary, Draws(salt(self.params.seed, self.params.method, doc_id)))
            for doc_id, text in zip(batch.column("doc_id").to_pylist(), batch.column("text").to_pylist(), strict=True)
        ]
        counts = pa.array([count for _, count in done], pa.int32())
        return Rewrite(pa.array([text for text, _ in done], pa.large_string()), {self.params.method: counts})


def vocabulary(synonyms: str | None) -> Vocabulary:
    """The synonyms of a file, with the English words that are not replaced; nothing where no file is named."""
    if synonyms is None:
        return Vocabulary()
    return Vocabulary(read_synonyms(Path(synonyms)), FUNCTION_WORDS)


def salt(seed: int, method: str, doc_id: str, copy: int = 0) -> str:
    """What makes the chance of one variant its own."""
    return f"augment {seed} {method} {copy} {doc_id}"
