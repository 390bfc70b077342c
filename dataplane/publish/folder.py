"""The folder of an export: it is there whole or not at all, and says what it was made from."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataplane.errors import DataError, LakeBusy, UsageError

RECORD = "terraplane.json"


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` when the block ends well.

    It lies beside `out` under a hidden name, so whoever finds `out` finds all of it. What a killed export left there
    is cleared by the next one.

    Raises:
        UsageError: `out` is there and not empty.
        LakeBusy: Another export is writing to it.
    """
    _refuse_full(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    partial.mkdir(exist_ok=True)
    handle = os.open(partial, os.O_RDONLY)
    try:
        _lock(handle, partial, out)
        _clear(partial)
        try:
            yield partial
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _refuse_full(out)
        partial.replace(out)
    finally:
        os.close(handle)  # and with it the lock


def _refuse_full(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there and not empty", fix="name a new folder with --out, or remove this one")


def _lock(handle: int, partial: Path, out: Path) -> None:
    """Takes the folder; a lock ends with its process, so nobody has to clean up after a killed one."""
    busy = LakeBusy(f"another export is writing to {out}", fix="wait for it to end")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    # The one that held the lock may have renamed the folder between our opening and our locking it.
    if not partial.is_dir() or partial.stat().st_ino != os.fstat(handle).st_ino:
        raise busy


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def number_shards(folder: Path, stem: str, suffix: str, count: int) -> None:
    """Renames ``STEM-00000SUFFIX`` ... to ``STEM-00000-of-0000NSUFFIX``, once it is known how many there are."""
    for i in range(count):
        (folder / f"{stem}-{i:05}{suffix}").rename(folder / f"{stem}-{i:05}-of-{count:05}{suffix}")


def file_list(folder: Path) -> dict[str, dict[str, Any]]:
    """Path -> bytes and sha256 of every file below a folder; each is on the disk when this returns."""
    return {path.relative_to(folder).as_posix(): _sealed(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _sealed(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def json_text(value: Mapping[str, Any]) -> str:
    """JSON for people and programs: the same value gives the same bytes."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def read_record(folder: Path) -> dict[str, Any]:
    """terraplane.json of an export.

    Raises:
        DataError: The folder is no export, or the file is damaged.
    """
    path = folder / RECORD
    try:
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder} has no {RECORD}", fix="name a folder that `dataplane export` made") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}", fix="export again") from None
    return loaded


def verify(folder: Path) -> dict[str, Any]:
    """Holds the files of an export against terraplane.json, as after a copy; returns it.

    Raises:
        DataError: A file is missing or differs; all are named.
    """
    record = read_record(folder)
    wanted, found = record["files"], file_list(folder)
    faults = [f"{path} is missing" for path in wanted if path not in found]
    faults += [f"{path} differs" for path in wanted if path in found and found[path] != wanted[path]]
    if faults:
        raise DataError("; ".join(faults), where=str(folder), fix="copy the export again, or export again")
    return record
