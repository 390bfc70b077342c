"""`dataplane init`: a project outside the repository, for a user's own files."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from dataplane import lockfile, tombstones
from dataplane.errors import EnvironmentFault, UsageError
from dataplane.schema import NAME
from dataplane.settings import LakeSettings
from dataplane.stage_graph import Inputs, dump, dvc_yaml

GITIGNORE = """\
/lake/
/models/
/metrics/
/plots/
/report/
/journal/
"""
DVCIGNORE = "journal/\n.venv/\n"
SETTINGS = """\
# Where and how fast a run goes; nothing here changes an output.
workers: 0    # processes; 0 takes one for each core, and none where only a few rows are new
# Where the tables lie; `dataplane lake move` changes it.
"""


@dataclass(frozen=True)
class Wanted:
    """What the user asked of `dataplane init`; texts are "NAME[:KIND]=GLOB" or plain globs."""

    sources: Sequence[str]
    benchmarks: Sequence[str] = ()
    instructions: Sequence[str] = ()
    preferences: Sequence[str] = ()
    prompts: Sequence[str] = ()
    align: Sequence[str] = ()
    in_place: bool = False
    training: bool = True
    lake: LakeSettings = field(default_factory=lambda: LakeSettings.parse(None, where="lake"))


@dataclass(frozen=True)
class Group:
    """Files that the project will read under one name.

    Attributes:
        name: Name of the source or benchmark.
        kind: Kind of text; the name where none was given.
        root: Longest folder above the globs without a wildcard.
        paths: The files, absolute and sorted.
        pattern: The glob below `root`.
    """

    name: str
    kind: str
    root: Path
    paths: list[Path]
    pattern: str


def create(directory: Path, wanted: Wanted) -> list[str]:
    """Makes the project and returns what to tell the user.

    Nothing is written before every argument is known to be right.

    Raises:
        UsageError: A source is misspelt, a glob matches nothing, or the directory is not empty.
        EnvironmentFault: git or dvc fails.
    """
    sources = [_named(text) for text in wanted.sources]
    benchmarks = [_named(text) for text in wanted.benchmarks]
    instructions = [_group("instruct", "instruct", text) for text in wanted.instructions]
    preferences = [_group("preference", "preference", text) for text in wanted.preferences]
    prompts = [_group("prompts", "prompts", text) for text in wanted.prompts]
    _check(directory, sources, wanted)
    directory.mkdir(parents=True, exist_ok=True)
    place = _link if wanted.in_place else _copy
    raw, listed = [], []
    for group in sources:
        folder, paths = place(directory, group)
        raw.append(folder)
        listed.append({"name": group.name, "kind": group.kind, "paths": paths, "format": "auto", "license": None})
    placed = {
        name: [place(directory, group) for group in groups]
        for name, groups in (
            ("benchmarks", benchmarks),
            ("instructions", instructions),
            ("preferences", preferences),
            ("prompts", prompts),
        )
    }
    folders = {name: [folder for folder, _ in groups] for name, groups in placed.items()}
    inputs = Inputs(
        raw=list(dict.fromkeys(raw)),
        benchmarks=folders["benchmarks"],
        instructions=folders["instructions"],
        preferences=folders["preferences"],
        prompts=folders["prompts"],
        align=wanted.align,
        training=wanted.training,
        held=wanted.lake.held,
    )
    globs = {name: [path for _, paths in groups for path in paths] for name, groups in placed.items()}
    named = [{"name": group.name, "paths": paths} for group, (_, paths) in zip(benchmarks, placed["benchmarks"], strict=True)]
    _write(directory, inputs, listed, named, globs)
    (directory / "settings.yaml").write_text(SETTINGS + dump({"lake": wanted.lake.model_dump(mode="json")}), encoding="utf-8")
    _track(directory, wanted.in_place)
    return _next_steps(directory, sources)


def _named(text: str) -> Group:
    head, equals, pattern = text.partition("=")
    name, _, kind = head.partition(":")
    if not (equals and pattern and NAME.match(name) and NAME.match(kind or name)):
        fix = "for example --source web=/data/crawl/*.warc.gz, or --source notes:prose=~/notes/**/*.md"
        raise UsageError(f"{text!r} is not NAME[:KIND]=GLOB (names in lower case, digits, single underscores)", fix=fix)
    return _group(name, kind or name, pattern)


def _group(name: str, kind: str, pattern: str) -> Group:
    absolute = os.path.abspath(os.path.expanduser(pattern))
    if os.path.isdir(absolute):
        absolute = os.path.join(absolute, "**")
    root = Path(absolute)
    while glob.has_magic(str(root)) or not root.is_dir():
        root = root.parent
    found = sorted(Path(path) for path in glob.glob(absolute, recursive=True) if os.path.isfile(path))
    if not found:
        raise UsageError(f"{pattern!r} matches no file", where=f"source {name!r}", fix="correct the glob, and quote it for the shell")
    return Group(name, kind, root, found, str(Path(absolute).relative_to(root)))


def _check(directory: Path, sources: Sequence[Group], wanted: Wanted) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there and not empty", fix="name a new folder")
    names = [group.name for group in sources]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"source named twice: {', '.join(doubled)}", fix="give each source its own name")
    if wanted.preferences and not wanted.instructions:
        raise UsageError("preference pairs need a model that has learnt to answer", fix="add --instructions GLOB")
    if wanted.align and not wanted.instructions:
        raise UsageError(f"{', '.join(wanted.align)} need a model that has learnt to answer", fix="add --instructions GLOB")
    if "reward" in wanted.align and not wanted.preferences:
        raise UsageError("a reward model needs preference pairs", fix="add --preferences GLOB")
    if {"ppo", "grpo"} & set(wanted.align) and not wanted.prompts:
        raise UsageError("ppo and grpo need prompts", fix="add --prompts GLOB")


def _copy(directory: Path, group: Group) -> tuple[str, list[str]]:
    """Copies the files below data/NAME, where DVC tracks them."""
    target = f"data/{group.name}"
    for path in group.paths:
        copy = directory / target / path.relative_to(group.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return target, [f"{target}/**"]


def _link(directory: Path, group: Group) -> tuple[str, list[str]]:
    """Leaves the files where they are; DVC notices when they change, but cannot bring them back."""
    del directory
    return str(group.root), [str(group.root / group.pattern)]


def _write(
    directory: Path, inputs: Inputs, sources: list[dict[str, Any]], benchmarks: list[dict[str, Any]], globs: dict[str, list[str]]
) -> None:
    template = files("dataplane.template").joinpath("params.yaml").read_text(encoding="utf-8")
    (directory / "params.yaml").write_text(fill_template(template, sources, benchmarks, globs, inputs), encoding="utf-8")
    (directory / "dvc.yaml").write_text(dump(dvc_yaml(inputs)), encoding="utf-8")
    (directory / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
    (directory / ".dvcignore").write_text(DVCIGNORE, encoding="utf-8")
    (directory / tombstones.FILE).write_text("\n", encoding="utf-8")  # DVC warns of empty files
    lockfile.write(directory)


def fill_template(
    template: str, sources: list[dict[str, Any]], benchmarks: list[dict[str, Any]], globs: dict[str, list[str]], inputs: Inputs
) -> str:
    """params.yaml from the template: `$name` lines are replaced by YAML."""
    models = ["pretrain", *(["sft"] if inputs.instructions else []), *(["dpo"] if inputs.preferences else [])]
    models += [name for name in ("ppo", "grpo") if name in inputs.align]
    parts = {
        "$sources": dump(sources),
        "$benchmarks": dump(benchmarks),
        "$trusted": dump([sources[0]["name"]]),
        "$instructions": dump(globs["instructions"]),
        "$preferences": dump(globs["preferences"]),
        "$prompts": dump(globs["prompts"]),
        "$models": dump(models),
    }
    lines = []
    for line in template.splitlines():
        indent, word = line[: len(line) - len(line.lstrip())], line.strip()
        lines += [indent + part for part in parts[word].rstrip("\n").splitlines()] if word in parts else [line]
    return "\n".join(lines) + "\n"


def _track(directory: Path, in_place: bool) -> None:
    _run(directory, ["git", "init", "--quiet"])
    dvc = [sys.executable, "-m", "dvc"]
    ignore = (directory / ".dvcignore").read_text(encoding="utf-8")
    _run(directory, [*dvc, "init", "--quiet"])
    (directory / ".dvcignore").write_text(ignore, encoding="utf-8")
    for key in ("core.analytics", "core.check_update"):
        _run(directory, [*dvc, "config", key, "false"])
    if not in_place:
        _run(directory, [*dvc, "add", "--quiet", *sorted(f"data/{path.name}" for path in (directory / "data").iterdir())])
    _run(directory, ["git", "add", "--all"])


def _run(directory: Path, command: list[str]) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentFault(f"{command[0]!r} is not installed", fix=f"install {command[0]}") from None
    if done.returncode:
        raise EnvironmentFault(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}", where=str(directory))


def _next_steps(directory: Path, sources: Sequence[Group]) -> list[str]:
    lines = [f"{group.name} ({group.kind}): {len(group.paths)} file{'s' * (len(group.paths) > 1)}" for group in sources]
    return [*lines, "", f"next: cd {directory} && dvc repro", "then: dataplane sql 'SHOW TABLES', and open report/index.html"]
