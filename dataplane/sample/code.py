"""Sources of Python's standard library, as a source tree in an archive."""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from dataplane.sample.files import File, Keep, gz, tar

# Tests, programs rather than modules, tables of data, and what names the machine it was built on.
SKIPPED_FOLDERS = frozenset({
    "__pycache__", "dist-packages", "distutils", "encodings", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "test", "tests", "tkinter", "turtledemo",
})  # fmt: skip
SKIPPED_PREFIXES = ("config-", "_sysconfigdata")
MAX_FILE_BYTES = 250_000


@functools.cache
def sources() -> dict[str, bytes]:
    """Bytes of each source by its path below the library, sorted."""
    root = Path(sysconfig.get_path("stdlib"))
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(SKIPPED_PREFIXES)]
        for path in (Path(folder, name) for name in names if name.endswith(".py") and not name.startswith(SKIPPED_PREFIXES)):
            relative = path.relative_to(root).as_posix()
            if path.stat().st_size <= MAX_FILE_BYTES:
                found[relative] = path.read_bytes()
    return dict(sorted(found.items()))


def files(keep: Keep) -> Iterator[File]:
    """One archive of the tree."""
    members = {f"Lib/{path}": data for path, data in sources().items() if data.strip() and keep(f"code/{path}")}
    yield File("stdlib.tar.gz", gz(tar(members)), len(members))
