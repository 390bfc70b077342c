"""Arrays on disk, for passes that need more than memory holds.

Files are written with `write` or reserved whole before they are mapped. A full disk is then an error of the write that meets it; a write to
a mapped page without a block behind it would end the process.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@contextmanager
def spill_folder(path: Path) -> Iterator[Path]:
    """An empty folder that is gone afterwards; what a killed run left in it is gone first."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Appender:
    """Files by name, in a folder, that arrays are appended to.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, BinaryIO] = {}

    def append(self, name: str, values: Array) -> None:
        """Writes the array's bytes behind what the file holds."""
        if name not in self._open:
            self._open[name] = (self.folder / name).open("wb")
        self._open[name].write(np.ascontiguousarray(values).view(np.uint8).data)

    def close(self) -> None:
        """Closes all files; those that were never written to are there, and empty."""
        files, self._open = self._open, {}
        for stream in files.values():
            stream.close()

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reserved(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A mapped array of zeros, whose room on disk is reserved.

    Raises:
        OSError: The disk is full.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    with path.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, size)
    return np.memmap(path, dtype, "r+", shape=shape)


def mapped(path: Path, dtype: npt.DTypeLike, width: int = 0) -> Array:
    """A file as a read-only array [n], or [n, width]."""
    size = path.stat().st_size if path.exists() else 0
    shape = (-1, width) if width else (-1,)
    if not size:
        return np.zeros((0, width) if width else 0, dtype)
    return np.memmap(path, dtype, "r").reshape(shape)


def let_go(array: Array) -> None:
    """Lets the pages of a mapped array leave the memory of this process; what was written to them is kept."""
    held: Any = array
    while held is not None and not isinstance(held, mmap.mmap):
        held = getattr(held, "base", None)
    if held is not None:
        held.madvise(mmap.MADV_DONTNEED)
