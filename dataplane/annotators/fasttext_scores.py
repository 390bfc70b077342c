"""Probabilities of one label under a supervised fastText model, our own or somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataplane.annotators.language_models import LABEL_PREFIX
from dataplane.errors import ModelMissing
from dataplane.kernels.linear_model import F64

SUFFIXES = (".bin", ".ftz")


def load_fasttext(path: Path, label: str) -> Any:
    """Loads a model that knows a label.

    Raises:
        ModelMissing: It is damaged, or does not know the label.
    """
    import fasttext

    fasttext.FastText.eprint = lambda *args, **kwargs: None  # the library prints a warning of its own on every load
    try:
        model = fasttext.load_model(str(path))
        labels = [name.removeprefix(LABEL_PREFIX) for name in model.get_labels()]
    except (ValueError, MemoryError) as error:
        raise ModelMissing(f"{path} is no fastText model: {error}", where="fastText", fix="copy it again, or train it") from error
    if label not in labels:
        message = f"{path} does not tell {label!r}, but {', '.join(labels[:10])}"
        raise ModelMissing(message, where="fastText", fix="set `label` to the one whose probability is wanted")
    return model


def one_line(text: str | None) -> str:
    """A text as fastText reads it: it takes a line for a document, and is not to see a label in the text."""
    return " ".join(word for word in (text or "").replace("\0", " ").split() if not word.startswith(LABEL_PREFIX))


def fasttext_scores(model: Any, lines: Sequence[str], label: str) -> F64:
    """Probability of a label for each line, float64 [n]; 0 where fastText knows none of its words."""
    found = np.zeros(len(lines))
    if not lines:
        return found
    wanted = LABEL_PREFIX + label
    for i, (labels, scores) in enumerate(zip(*model.predict(list(lines), k=-1), strict=True)):
        at = list(labels).index(wanted) if wanted in labels else -1
        found[i] = min(float(scores[at]), 1.0) if at >= 0 else 0.0
    return found
