"""Terraplane's data plane: raw text to versioned, measured, deduplicated and packed tables.

The public names: what a plugin author imports, and the lake from Python (`connect`, `open_snapshot`, `sql`).
"""

from typing import TYPE_CHECKING, Any

from dataplane import collector  # noqa: F401 - first of all: a stage imports the rest without collecting garbage
from dataplane.operator import Annotator, Filter, Operator, Rewrite, Transform
from dataplane.params import Params
from dataplane.source import Fault, Record, Source

if TYPE_CHECKING:
    from dataplane.api import connect, open_snapshot, sql

__all__ = [
    "Annotator",
    "Fault",
    "Filter",
    "Operator",
    "Params",
    "Record",
    "Rewrite",
    "Source",
    "Transform",
    "connect",
    "open_snapshot",
    "sql",
]


def __getattr__(name: str) -> Any:
    """The lake's names on first use: a plugin author's import should not load a database."""
    if name not in ("connect", "open_snapshot", "sql"):
        raise AttributeError(f"module 'dataplane' has no attribute {name!r}")
    from dataplane import api

    return getattr(api, name)
