"""Tables that are the same in every process: computed once, then kept beside the compiled kernels.

A table that asks Python for each of a million code points takes tenths of a second, and every worker of every stage would
take them. Nothing here is needed for a right result: without the file, or with a damaged one, the table is computed.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Table = Callable[[], npt.NDArray[Any]]

FOLDER = "__pycache__"  # where numba keeps the kernels of a module
_DIGITS = 16


def kept(*beside: str) -> Callable[[Table], Table]:
    """Keeps what a function without arguments returns, an array, which comes back read-only and is computed once in a process.

    What it may depend on is its module's source, the files named, and the releases of Python, Unicode and Arrow.

    Args:
        beside: Files that the table is made of, relative to the module's folder.
    """

    def decorate(compute: Table) -> Table:
        @lru_cache
        @wraps(compute)
        def table() -> npt.NDArray[Any]:
            source = Path(inspect.getfile(compute))
            path = source.parent / FOLDER / f"{compute.__name__}-{_key([source, *(source.parent / name for name in beside)])}.npy"
            found = _read(path)
            if found is None:
                found = compute()
                _write(path, found)
            found.flags.writeable = False
            return found

        return table

    return decorate


def _key(sources: list[Path]) -> str:
    whole = hashlib.sha256(f"{sys.version_info[:3]} {unicodedata.unidata_version} {pa.__version__}".encode())
    for path in sources:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:_DIGITS]


def _read(path: Path) -> npt.NDArray[Any] | None:
    """The table as it was kept, in memory that processes share; None where it is not there whole."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError):
        return None


def _write(path: Path, table: npt.NDArray[Any]) -> None:
    """Keeps a table, atomically; where the folder cannot be written, every process computes it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                np.save(stream, table, allow_pickle=False)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
