"""Reads JSONL files of records strictly: a broken line is named, never skipped."""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dataplane.errors import ParamsError, SourceError

MAX_LINE_BYTES = 4_000_000  # bounds memory on a file that is one endless line


def matching_files(globs: Iterable[str], root: Path) -> list[Path]:
    """The files that the patterns name below root, sorted.

    Raises:
        ParamsError: A pattern names none.
    """
    found: set[Path] = set()
    for pattern in globs:
        # pathlib's `**` names folders alone, and takes no absolute pattern: `dataplane init` writes both.
        files = {path for name in glob.glob(pattern, root_dir=root, recursive=True) if (path := root / name).is_file()}
        if not files:
            raise ParamsError(f"no file matches {pattern!r}", where="data", fix="correct the pattern in params.yaml, or add the files")
        found |= files
    return sorted(found)


def read_records(globs: Iterable[str], root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of the files in order, each with its place ("file:line"). Blank lines are passed over.

    Raises:
        ParamsError: A pattern names no file.
        SourceError: A line is too long, is not UTF-8, or is not a JSON object.
    """
    for path in matching_files(globs, root):
        with path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1):
                if line.strip():
                    where = f"{path.as_posix()}:{number}"
                    yield where, _parse(line, where)


def _parse(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise SourceError(f"the line has more than {MAX_LINE_BYTES:,} bytes", where=where, fix="split the record")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not a line of JSON in UTF-8: {error}", where=where, fix="mend or remove the line") from None
    if not isinstance(record, dict):
        raise SourceError(f"expected a JSON object, got {type(record).__name__}", where=where, fix="mend or remove the line")
    return record


def text_field(record: dict[str, Any], name: str, where: str) -> str:
    """A text of a record.

    Raises:
        SourceError: It is missing, is no text, or holds half a surrogate pair, which no UTF-8 can carry.
    """
    value = record.get(name)
    if not isinstance(value, str):
        raise SourceError(f"field {name!r} should be a text, got {value!r:.80}", where=where, fix="mend or remove the line")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise SourceError(f"field {name!r} holds half a surrogate pair", where=where, fix="mend or remove the line")
    return value


def files_digest(globs: Iterable[str], root: Path) -> str:
    """128-bit digest of the files' paths and bytes."""
    whole = hashlib.sha256()
    for path in matching_files(globs, root):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        name = path.relative_to(root) if path.is_relative_to(root) else path
        whole.update(f"{name.as_posix()} {content}\n".encode())
    return whole.hexdigest()[:32]
