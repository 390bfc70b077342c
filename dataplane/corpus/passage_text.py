"""The text of a benchmark's field, whatever the field holds."""

from __future__ import annotations

from typing import Any


def passage_text(value: Any) -> str:
    """A field's text: that of its strings, in order."""
    if isinstance(value, list):
        return "\n".join(passage_text(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(passage_text(part) for part in value.values())
    # A lone surrogate is legal JSON and no legal UTF-8.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()
