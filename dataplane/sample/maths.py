"""Documentation of mpmath, reStructuredText with LaTeX formulas, read out of its sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from dataplane.sample import packages
from dataplane.sample.docstrings import documented
from dataplane.sample.files import File, Keep, jsonl

DISTRIBUTION = "mpmath"
FOLDER = "mpmath/"
MIN_CHARS = 200


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file, a documented name a record."""
    rows = []
    for path, data in packages.read_folder(DISTRIBUTION, FOLDER).items():
        if not path.endswith(".py") or "/tests/" in path:
            continue
        module = ".".join(PurePosixPath(path).with_suffix("").parts)
        for name, _, text in documented(data, assigned=True):
            key = f"{module}.{name}" if name else module
            if len(text) >= MIN_CHARS and keep(f"maths/{key}"):
                rows.append({"id": key, "text": text + "\n", "title": name or module, "lang": "en"})
    yield File("mpmath.jsonl", jsonl(rows), len(rows))
