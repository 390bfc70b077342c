"""From `sources` in params.yaml to files, in an order and with keys that do not depend on where the root lies."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from dataplane.errors import ParamsError, SourceError
from dataplane.params import Params

# Folders and files that tools leave beside data.
HIDDEN_PREFIX = "."


class SourceSpec(Params):
    """One source of params.yaml."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name of the source; part of every doc_id.")
    kind: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Kind of text (books, web, code, ...); rules and mixture go by it.")
    paths: list[str] = Field(min_length=1, description="Globs, relative to the project or absolute; ** goes into folders.")
    format: str = Field("auto", description="Name of the source plugin that reads the files; auto goes by the file's name.")
    options: dict[str, Any] = Field({}, description="Options of the source plugin.")
    license: str | None = Field(None, description="Licence of the texts, kept in `meta` of every record.")
    root: str | None = Field(None, description="Folder that doc_ids are counted from; by default the longest one without a wildcard.")


@dataclass(frozen=True)
class InputFile:
    """One raw file.

    Attributes:
        path: Where it is.
        uri: Path as stored: relative to the project where below it, else absolute.
        key: Path below the source's root, part of the doc_id.
        spec: Place of its source in the list.
    """

    path: Path
    uri: str
    key: str
    spec: int


def parse_specs(values: Any) -> list[SourceSpec]:
    """The sources of params.yaml.

    Raises:
        ParamsError: The list is empty, an entry is wrong, or two share a name.
    """
    if not isinstance(values, list) or not values:
        raise ParamsError("no source is named", where="sources", fix="list at least one {name, kind, paths}")
    specs = [SourceSpec.parse(value, where=f"sources[{i}]") for i, value in enumerate(values)]
    names = [spec.name for spec in specs]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ParamsError(f"named twice: {', '.join(doubled)}", where="sources", fix="give each source its own name")
    return specs


def expand(specs: Sequence[SourceSpec], root: Path = Path()) -> list[InputFile]:
    """The files of all sources, by source and then by key.

    Args:
        specs: The sources.
        root: Folder of the project.

    Raises:
        SourceError: A glob matches no file, or two sources claim one; every fault is named.
    """
    faults: list[str] = []
    owner: dict[Path, str] = {}
    found: list[InputFile] = []
    for i, spec in enumerate(specs):
        files = {file.path: file for pattern in spec.paths for file in _match(spec, i, pattern, root, faults)}
        keys: dict[str, InputFile] = {}
        for path, file in sorted(files.items(), key=lambda item: (item[1].key, item[1].uri)):
            if rival := keys.get(file.key):
                faults.append(f"source {spec.name!r}: {rival.uri} and {file.uri} are both {file.key!r} below its root: state `root`")
            keys[file.key] = file
            if path.resolve() in owner:
                faults.append(f"{file.uri} is claimed by {owner[path.resolve()]!r} and {spec.name!r}")
            owner[path.resolve()] = spec.name
            found.append(file)
    if faults:
        raise SourceError("; ".join(faults), where="sources", fix="correct `paths` in params.yaml")
    return found


def _match(spec: SourceSpec, i: int, pattern: str, root: Path, faults: list[str]) -> list[InputFile]:
    base = Path(spec.root) if spec.root else _fixed_part(pattern)
    names = sorted(glob.glob(pattern, root_dir=root, recursive=True))
    files = [name for name in names if (root / name).is_file() and not Path(name).name.startswith(HIDDEN_PREFIX)]
    if not files:
        hint = f"; it is a folder: write {pattern.rstrip('/') + '/**'!r}" if (root / pattern).is_dir() else ""
        faults.append(f"source {spec.name!r}: {pattern!r} matches no file{hint}")
    return [InputFile(root / name, _uri(root, name), _key(root / name, root / base), i) for name in files]


def _uri(root: Path, name: str) -> str:
    path = Path(os.path.normpath(name))
    home = Path(os.path.abspath(root))
    return (path.relative_to(home) if path.is_relative_to(home) else path).as_posix()


def _key(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _fixed_part(pattern: str) -> Path:
    """The longest folder of a glob without a wildcard."""
    parts = Path(pattern).parts
    fixed = []
    for part in parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed) if fixed else Path()
