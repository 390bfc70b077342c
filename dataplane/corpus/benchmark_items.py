"""The items of benchmarks, read from files or from tasks of lm-evaluation-harness: what must not be trained on."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from dataplane.corpus import harness_task
from dataplane.corpus.passage_text import passage_text
from dataplane.errors import ParamsError, SourceError, did_you_mean
from dataplane.params import Params

FIX = "a benchmark is JSONL, JSON or CSV; mend the file or correct decontaminate.benchmarks"


class Benchmark(Params):
    """One benchmark: files with the fields that count, or a task of lm-evaluation-harness over local files."""

    name: str = Field(min_length=1, description="Name in the table `contamination`.")
    paths: list[str] = Field(
        [],
        description="JSONL, JSON (a list of objects, or an object that holds one) or CSV files, also .gz, relative to the project; globs "
        "are allowed.",
    )
    task: str = Field(
        "", description="Task of lm-evaluation-harness: its YAML file, whose data are local files. Instead of paths and fields."
    )
    fields: list[str] = Field(
        [],
        description="Fields whose text must not be trained on; a dot leads into an object. Numbers count the columns, from 0, of a CSV "
        "without headings.",
    )
    id_field: str = Field("", description="Field that names the item; empty takes file name and line number.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Benchmark:
        if self.task and (self.paths or self.fields or self.id_field):
            raise ValueError("a task says itself what its items are: leave out paths, fields and id_field")
        if not self.task and not (self.paths and self.fields):
            raise ValueError("paths and fields are needed, or a task")
        return self


def read_items(benchmark: Benchmark, root: Path = Path()) -> Iterator[tuple[str, list[str]]]:
    """Id and passages of each item of a benchmark.

    Raises:
        ParamsError: A path matches nothing, or an item lacks a field.
        SourceError: A file cannot be read.
    """
    if benchmark.task:
        yield from harness_task.passages(root / benchmark.task)
        return
    for path in benchmark_files(benchmark, root):
        for number, item in _records(path, benchmark.fields):
            where = f"{path}, line {number}"
            name = str(_field(item, benchmark.id_field, where)) if benchmark.id_field else f"{path.name}:{number}"
            yield name, [passage_text(_field(item, field, where)) for field in benchmark.fields]


def benchmark_files(benchmark: Benchmark, root: Path = Path()) -> list[Path]:
    """The files of a benchmark, sorted.

    Raises:
        ParamsError: A path matches nothing.
    """
    if benchmark.task:
        return harness_task.files(root / benchmark.task)
    found: set[Path] = set()
    for pattern in benchmark.paths:
        matches = [root / match for match in glob(pattern, root_dir=root, recursive=True)]
        if not matches:
            where = f"decontaminate.benchmarks, {benchmark.name!r}"
            raise ParamsError(f"no file matches {pattern!r}", where=where, fix="correct the path, or remove the benchmark")
        found.update(path for path in matches if path.is_file())
    return sorted(found)


def _records(path: Path, fields: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each with its number from 1 (of its line, where objects are lines)."""
    number = 0
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
            if suffix == ".csv":
                found = _csv_rows(io.StringIO(stream.read().decode("utf-8-sig"), newline=""), all(field.isdigit() for field in fields))
            else:
                found = _array(stream.read()) if suffix == ".json" else _lines(stream)
            for number, item in found:
                if not isinstance(item, dict):
                    raise ValueError(f"expected an object, got {type(item).__name__}")
                yield number, item
    except (OSError, EOFError, ValueError, RecursionError, csv.Error, zlib.error) as error:
        raise SourceError(f"cannot be read: {error}", where=f"{path}, line {number}", fix=FIX) from None


def _lines(stream: Any) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(stream, 1):
        if line.strip():
            yield number, json.loads(line)


def _array(data: bytes) -> Iterator[tuple[int, Any]]:
    value = json.loads(data)
    lists = [part for part in value.values() if isinstance(part, list)] if isinstance(value, dict) else [value]
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise ValueError(f"expected a list of objects, or an object that holds one, got {type(value).__name__}")
    return enumerate(lists[0], 1)


def _csv_rows(stream: io.StringIO, numbered: bool) -> Iterator[tuple[int, Any]]:
    if not numbered:
        yield from enumerate(csv.DictReader(stream, restkey="", strict=True), 2)
        return
    for number, row in enumerate(csv.reader(stream, strict=True), 1):
        yield number, {str(i): value for i, value in enumerate(row)}


def _field(item: dict[str, Any], field: str, where: str) -> Any:
    value: Any = item
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            known = value if isinstance(value, dict) else {}
            fix = "correct decontaminate.benchmarks"
            raise ParamsError(f"the item has no field {field!r}, {did_you_mean(part, map(str, known))}", where=where, fix=fix)
        value = value[part]
    return value
