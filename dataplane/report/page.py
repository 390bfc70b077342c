"""The report: one page that shows a project from raw records to evaluated models.

The page is a function of the project's content: it holds no time, no path of a machine and nothing of how fast a
machine is. It needs no network and runs no script.
"""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dataplane.report import writing
from dataplane.report.blocks import NOT_RUN, Section
from dataplane.report.project import Project
from dataplane.report.sections.appendix import appendix
from dataplane.report.sections.copies import contamination, duplicates
from dataplane.report.sections.corpus import mixture, packing, tokens
from dataplane.report.sections.data import funnel, sources
from dataplane.report.sections.decisions import edits, quarantine, selection
from dataplane.report.sections.evaluation import evaluation
from dataplane.report.sections.runs import runs
from dataplane.report.sections.training import training

FOLDER, PAGE = "report", "index.html"
SECTIONS = (
    funnel, sources, selection, edits, duplicates, contamination, quarantine, mixture, tokens, packing, training, evaluation, runs,
    appendix,
)  # fmt: skip
SNAPSHOTS = ("raw", "documents", "packed")
MODELS = ("pretrain", "sft", "dpo")
MORE_MODELS = ("reward", "ppo", "grpo")  # named where they were trained
PACKAGES = ("terraplane", "pylance", "duckdb", "pyarrow", "tokenizers", "torch", "transformers", "deepspeed", "trl")


def write_report(root: Path) -> Path:
    """Writes report/index.html of a project; the folder is replaced as a whole.

    Args:
        root: Folder of the project.

    Returns:
        The page's path.

    Raises:
        DataError: A table or metrics file of the project is damaged.
    """
    page = render(root)
    folder = root / FOLDER
    partial, old = (root / f".{FOLDER}.{os.getpid()}.{what}" for what in ("partial", "old"))
    partial.mkdir(parents=True)
    try:
        (partial / PAGE).write_text(page, encoding="utf-8")
        if folder.exists():
            folder.replace(old)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder / PAGE


def render(root: Path) -> str:
    """The page's HTML."""
    project = Project(root)
    try:
        sections: list[Section] = [section(project) for section in SECTIONS]
        return _environment().get_template("page.html").render(
            sections=sections, snapshots=_snapshots(project), models=_models(project), versions=_versions(), not_run=NOT_RUN
        )  # fmt: skip
    finally:
        project.close()


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dataplane.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(cell=writing.cell, plain=writing.plain, snippet=writing.snippet, number=writing.number)
    return environment


def _snapshots(project: Project) -> list[dict[str, Any]]:
    found = [(table, project.snapshot(table)) for table in SNAPSHOTS]
    return [{"table": table, "digest": s and s.digest, "rows": s and s.rows} for table, s in found]


def _models(project: Project) -> list[dict[str, Any]]:
    found = [(stage, project.json(f"models/{stage}/run.json")) for stage in MODELS + MORE_MODELS]
    runs = [(stage, run if isinstance(run, dict) else {}) for stage, run in found]
    runs = [(stage, run) for stage, run in runs if run or stage in MODELS]
    return [{"stage": stage, "digest": run.get("digest"), "step": run.get("step", run.get("steps"))} for stage, run in runs]


def _versions() -> list[tuple[str, str]]:
    versions = [("python", platform.python_version())]
    for name in PACKAGES:
        try:
            versions.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return versions
