"""What we ask of DVC and Git, through their command lines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dataplane.errors import EnvironmentFault, UsageError
from dataplane.snapshot import LAKE

FILE = "dvc.yaml"
LOCK = "dvc.lock"
SNAPSHOT_FILE = re.compile(rf"^{LAKE}/([a-z0-9_]+)\.json$")
_MD5 = re.compile(r"^\s*(?:- )?md5: ([0-9a-f]{32}(?:\.dir)?)$", re.MULTILINE)
DVC = (sys.executable, "-m", "dvc")


def call(root: Path, command: Sequence[str]) -> str:
    """What a command prints.

    Raises:
        EnvironmentFault: It is not installed, or it fails.
    """
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentFault(f"{command[0]!r} is not installed", fix=f"install {command[0]}") from None
    if done.returncode:
        raise EnvironmentFault(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}", where=str(root))
    return done.stdout


def is_repository(root: Path) -> bool:
    """Whether the project is under DVC."""
    return (root / ".dvc").is_dir()


def cache_dir(root: Path) -> Path:
    """Where DVC keeps the content of what it holds."""
    return (root / call(root, [*DVC, "cache", "dir"]).strip()).resolve() / "files" / "md5"


def cached_file(cache: Path, md5: str) -> Path:
    """Where the content with this hash lies in DVC's cache, if it is there."""
    return cache / md5[:2] / md5[2:]


def writer(root: Path, table: str) -> str:
    """The stage of dvc.yaml that writes a table.

    Raises:
        UsageError: None does.
    """
    for name, stage in stages(root).items():
        if table in tables_of(stage):
            return name
    raise UsageError(f"no stage of {FILE} writes {table!r}", fix="name a table of this project")


def stages(root: Path) -> dict[str, dict[str, Any]]:
    """The stages of dvc.yaml, by name."""
    return dict(yaml.safe_load((root / FILE).read_text(encoding="utf-8"))["stages"])


def tables_of(stage: Mapping[str, Any]) -> list[str]:
    """The tables that a stage of dvc.yaml, or of dvc.lock, writes."""
    paths = [out if isinstance(out, str) else str(out.get("path") or next(iter(out))) for out in stage.get("outs", [])]
    return [match[1] for path in paths if (match := SNAPSHOT_FILE.match(path))]


def locked_md5s(root: Path) -> set[str]:
    """The hashes of everything that dvc.lock and the .dvc files of the working tree name."""
    files = [root / LOCK, *root.glob("*.dvc"), *root.glob("[!.]*/**/*.dvc")]
    return {md5 for path in files if path.is_file() for md5 in _MD5.findall(path.read_text(encoding="utf-8"))}


def require_up_to_date(root: Path, names: Sequence[str] = ()) -> None:
    """Refuses where one of the stages (all by default) would run: what we change in a table could not be told from the rest.

    Raises:
        UsageError: Some stage is not up to date.
    """
    found = json.loads(call(root, [*DVC, "status", "--json", *names]) or "{}")
    if found:
        raise UsageError(f"not up to date: {', '.join(sorted(found))}", fix="run `dvc repro` first")


def commit(root: Path, stages: Sequence[str]) -> None:
    """Tells DVC that the outputs of these stages are what they should be."""
    if stages:
        call(root, [*DVC, "commit", "--force", "--quiet", *stages])


def forget_runs(root: Path, md5s: Collection[str]) -> int:
    """Removes the entries of DVC's run cache whose outputs have one of these hashes, so that it cannot bring them back.

    Returns:
        How many there were.
    """
    entries = [path for path in cache_dir(root).parents[1].glob("runs/*/*/*") if path.is_file()]
    stale = [path for path in entries if any(md5 in path.read_text(encoding="utf-8") for md5 in md5s)]
    for path in stale:
        path.unlink()
        if not any(path.parent.iterdir()):  # DVC fails on a key without a value
            path.parent.rmdir()
    return len(stale)
