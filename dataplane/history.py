"""Which versions of the tables the project's Git history names, through dvc.lock and DVC's cache of snapshot files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dataplane import dvc
from dataplane.errors import EnvironmentFault, UsageError
from dataplane.snapshot import LAKE, Snapshot


@dataclass
class Named:
    """What a history names.

    Attributes:
        digests: Table -> digests.
        unknown: Names of snapshot files whose content DVC's cache no longer has.
    """

    digests: dict[str, set[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def named_by_git(root: Path = Path()) -> Named:
    """The versions that some commit, branch, tag or DVC experiment names, and those of the working tree's dvc.lock.

    Raises:
        EnvironmentFault: Git or DVC fails.
    """
    named = Named()
    if not dvc.is_repository(root):
        return named
    cache = dvc.cache_dir(root)
    wanted = {entry for text in _locks(root) for entry in snapshot_files(yaml.safe_load(text) or {}).items()}
    for table, md5 in sorted(wanted):
        snapshot = _read(root, cache, md5)
        if snapshot is None:
            named.unknown.append(f"{LAKE}/{table}.json ({md5})")
        else:
            named.digests.setdefault(table, set()).add(snapshot.digest)
    return named


def at_revision(revision: str, root: Path = Path()) -> dict[str, Snapshot]:
    """Table -> its version at a Git revision.

    Raises:
        UsageError: There is no such revision, or it has no dvc.lock.
        EnvironmentFault: DVC's cache has lost a snapshot file.
    """
    try:
        text = dvc.call(root, ["git", "show", f"{revision}:./{dvc.LOCK}"])
    except EnvironmentFault as error:
        raise UsageError(
            f"no {dvc.LOCK} at revision {revision!r}: {error.message}", fix="name a commit made after a `dvc repro`, with dvc.lock in it"
        ) from None
    cache = dvc.cache_dir(root)
    found = {}
    for table, md5 in snapshot_files(yaml.safe_load(text) or {}).items():
        snapshot = _read(root, cache, md5)
        if snapshot is None:
            raise EnvironmentFault(f"DVC's cache has no {LAKE}/{table}.json of {revision}", fix="dvc fetch --all-commits")
        found[table] = snapshot
    return found


def snapshot_files(lock: Mapping[str, Any]) -> dict[str, str]:
    """Table -> md5 of its snapshot file, from a dvc.lock."""
    outs = [out for stage in (lock.get("stages") or {}).values() for out in stage.get("outs", [])]
    return {match[1]: out["md5"] for out in outs if (match := dvc.SNAPSHOT_FILE.match(out["path"])) and "md5" in out}


def _locks(root: Path) -> Iterator[str]:
    """Every dvc.lock that Git has, and the working tree's."""
    if (root / dvc.LOCK).exists():
        yield (root / dvc.LOCK).read_text(encoding="utf-8")
    for line in dvc.call(root, ["git", "rev-list", "--all", "--objects", "--", dvc.LOCK]).splitlines():
        name, _, path = line.partition(" ")
        if path.rsplit("/", 1)[-1] == dvc.LOCK:
            yield dvc.call(root, ["git", "cat-file", "blob", name])


def _read(root: Path, cache: Path, md5: str) -> Snapshot | None:
    try:
        return Snapshot.parse(dvc.cached_file(cache, md5).read_text(encoding="utf-8"), root)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise EnvironmentFault(f"DVC's cache holds a damaged file {md5}: {error}", fix="dvc fetch --all-commits") from None
