"""plugins.lock.json: what code a run stands on, in a file that DVC can see (it cannot see pip).

Every stage depends on its subtree of this file and refuses to run while the file and the installed code disagree.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from functools import lru_cache
from importlib.metadata import Distribution, version
from pathlib import Path
from typing import Any

from dataplane.errors import PluginError
from dataplane.lake.objectstore import write_atomically
from dataplane.operator import file_digest
from dataplane.registry import GROUPS, entries

FILE = "plugins.lock.json"
FIX = "run `dataplane plugins lock`, then `dvc repro`"
CODE_SUFFIXES = frozenset({".py", ".yaml", ".txt", ".html"})


def current() -> dict[str, Any]:
    """The lock of what is installed now."""
    return {
        "terraplane": version("terraplane"),
        "code": {package: package_digest(package) for package in ("dataplane", "trainplane")},
        "plugins": {group: _group(group) for group in GROUPS},
    }


def package_digest(package: str) -> str:
    """Digest of a package's source files, found without importing it."""
    folder = package_folder(package)
    paths = sorted(path for path in folder.rglob("*") if path.suffix in CODE_SUFFIXES and "__pycache__" not in path.parts)
    whole = hashlib.sha256()
    for path in paths:
        whole.update(f"{path.relative_to(folder).as_posix()} {file_digest(path)}\n".encode())
    return whole.hexdigest()[:32]


def package_folder(package: str) -> Path:
    """Folder of a top-level package, found without importing it.

    Raises:
        PluginError: It is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(f"package {package!r} is not installed", fix="pip install terraplane")
    return Path(next(iter(spec.submodule_search_locations)))


def _group(group: str) -> dict[str, dict[str, str]]:
    """Entry points of other distributions; our own are covered by `code`."""
    found = {}
    for name, point in entries(group).items():
        owner = _name(point.dist) if point.dist else ""
        if owner == "terraplane":
            continue
        found[name] = {
            "distribution": owner,
            "version": point.dist.version if point.dist else "",
            "object": point.value,
            "source": _module_digest(point.module),
        }
    return found


@lru_cache(64)
def _name(distribution: Distribution) -> str:
    """A distribution's name; asked each time, its metadata is parsed anew, which for all entry points takes a tenth of a second."""
    return distribution.name


def _module_digest(module: str) -> str:
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        raise PluginError(f"module {module!r} of an installed plugin is not there", fix="reinstall or uninstall the plugin")
    if spec.submodule_search_locations:
        return package_digest(module.partition(".")[0])
    return file_digest(Path(str(spec.origin)))


def write(root: Path = Path(), extra: dict[str, Any] | None = None) -> Path:
    """Writes the lock of what is installed now.

    Args:
        root: Folder of the project.
        extra: Further top-level entries (what the sample was made from).
    """
    path = root / FILE
    write_atomically(path, json.dumps(current() | (extra or {}), indent=1, sort_keys=True) + "\n")
    return path


def verify(root: Path = Path()) -> dict[str, Any]:
    """The lock, once it is known to agree with what is installed.

    Raises:
        PluginError: It is missing, damaged or out of step; the message names every difference.
    """
    path = root / FILE
    try:
        locked = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PluginError(f"{FILE} is missing", fix=FIX) from None
    except ValueError:
        raise PluginError(f"{FILE} is damaged", fix=FIX) from None
    installed = current()
    changed = sorted(_differences("", {key: locked.get(key) for key in installed}, installed))
    if changed:
        raise PluginError(f"the installed code is not what {FILE} says: {', '.join(changed)}", fix=FIX)
    return dict(locked)


def _differences(path: str, locked: Any, installed: Any) -> list[str]:
    if isinstance(locked, dict) and isinstance(installed, dict):
        return [
            line
            for key in sorted(locked.keys() | installed.keys())
            for line in _differences(f"{path}.{key}".lstrip("."), locked.get(key), installed.get(key))
        ]
    return [] if locked == installed else [path]
