"""presidio's recognisers, without the frameworks of language models that its package imports beside them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Optional for presidio and for spaCy, and of no use to patterns and checksums: they cost four seconds and 300 MB in each worker.
_LEFT_OUT = ("torch", "transformers", "stanza")


def predefined() -> Any:
    """The module presidio_analyzer.predefined_recognizers."""
    with _without(_LEFT_OUT):
        return importlib.import_module("presidio_analyzer.predefined_recognizers")


@contextmanager
def _without(packages: Sequence[str]) -> Iterator[None]:
    """Packages that are not imported yet look as if they were not installed."""
    hidden = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how the import system is told that there is none
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
