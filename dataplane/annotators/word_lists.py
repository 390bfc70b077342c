"""Word lists as files: packaged, or the user's own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from dataplane.errors import ParamsError


def packaged(name: str) -> Path:
    """The file of a packaged list."""
    return Path(str(files("dataplane.annotators").joinpath("data", name)))


def own_lists(paths: Iterable[str], *, where: str) -> list[Path]:
    """The user's list files.

    Raises:
        ParamsError: One of them is no file.
    """
    own = [Path(path).expanduser() for path in paths]
    missing = [str(path) for path in own if not path.is_file()]
    if missing:
        raise ParamsError(f"no such word list: {', '.join(missing)}", where=where, fix="name UTF-8 files, one term a line")
    return own


def read_terms(path: Path) -> list[str]:
    """The terms of a list file; empty lines and lines that start with # are none.

    Raises:
        ParamsError: The file is missing, is not UTF-8, or holds no term.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"word list {path} cannot be read: {error}"
        raise ParamsError(message, where="word lists", fix="name a UTF-8 file, one term a line") from None
    terms = [unicodedata.normalize("NFC", line.strip()) for line in lines if line.strip() and not line.startswith("#")]
    if not terms:
        raise ParamsError(f"word list {path} holds no term", where="word lists", fix="write one term a line")
    return terms
