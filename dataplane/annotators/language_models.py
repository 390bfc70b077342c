"""The models that name a language: fastText files, and py3langid, which carries its own.

Source: Joulin et al. 2016, arXiv:1612.03651; Lui and Baldwin 2012, P12-3005 (langid.py).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.models import locate
from dataplane.settings import load_settings

PY3LANGID = "py3langid"
LABEL_PREFIX = "__label__"


class LanguageModel(Protocol):
    """Names the language of lines."""

    def identify(self, lines: Sequence[str]) -> list[tuple[str, float]]:
        """(language, score between 0 and 1) of each line; a line has a letter and no line end."""


class FastText:
    """A fastText model, asked for many lines at once."""

    def __init__(self, path: Path) -> None:
        import fasttext

        # The library prints a warning of its own on every load.
        fasttext.FastText.eprint = lambda *args, **kwargs: None
        self._model: Any = fasttext.load_model(str(path))

    def identify(self, lines: Sequence[str]) -> list[tuple[str, float]]:
        """Language and score; the softmax is summed in float32 and can end a hair above 1."""
        found = zip(*self._model.predict(list(lines)), strict=True) if lines else ()
        return [(labels[0].removeprefix(LABEL_PREFIX), min(float(scores[0]), 1.0)) if labels else ("", 0.0) for labels, scores in found]


class QuantisedFastText:
    """A quantised fastText model with a tree of labels, such as lid.176, read by our own kernel: the library's answers, sooner.

    Args:
        tables: What the file holds.
        labels: Names of the labels.
    """

    def __init__(self, tables: Any, labels: Sequence[str]) -> None:
        self._tables, self._labels = tables, [label.removeprefix(LABEL_PREFIX) for label in labels]

    def identify(self, lines: Sequence[str]) -> list[tuple[str, float]]:
        """As `FastText.identify`, to the last bit."""
        from dataplane.kernels.fasttext import best_labels
        from dataplane.kernels.unicode import text_buffers

        labels, scores = best_labels(*text_buffers(pa.array(lines, pa.large_string())), self._tables)
        return [
            (self._labels[label], min(score, 1.0)) if label >= 0 else ("", 0.0)
            for label, score in zip(labels.tolist(), scores.tolist(), strict=True)
        ]


class Py3LangId:
    """py3langid, with probabilities that sum to 1."""

    def __init__(self, path: Path) -> None:
        module: Any = importlib.import_module("py3langid.langid")  # optional, and without type hints
        self._model = module.LanguageIdentifier.from_modelpath(path, norm_probs=True)

    def identify(self, lines: Sequence[str]) -> list[tuple[str, float]]:
        """Language and probability."""
        return [(str(lang), float(score)) for lang, score in map(self._model.classify, lines)]


def model_file(name: str) -> Path:
    """The file of a model: a known one, a path, or that inside py3langid.

    Raises:
        ModelMissing: It is not on this machine.
    """
    if name != PY3LANGID:
        return locate(name, load_settings())
    found = importlib.util.find_spec(PY3LANGID)
    if found is None or found.origin is None:
        raise ModelMissing("py3langid is not installed", where="language.model", fix="pip install 'py3langid>=0.4,<0.5'")
    return Path(found.origin).parent / "data" / "model.npz.xz"


def open_model(name: str) -> LanguageModel:
    """The model, loaded."""
    path = model_file(name)
    if name == PY3LANGID:
        return Py3LangId(path)
    from dataplane.annotators.fasttext_file import read_tables

    read = read_tables(path)
    return QuantisedFastText(*read) if read else FastText(path)
