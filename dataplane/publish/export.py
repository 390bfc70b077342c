"""Export: rows of the lake in the formats that others read, in a folder that says what it was made from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dataplane.errors import UsageError
from dataplane.params import digest
from dataplane.publish import dataset_card, export_flat, export_jsonl, export_mds, export_megatron, export_parquet
from dataplane.publish.croissant import FILE as CROISSANT
from dataplane.publish.croissant import croissant
from dataplane.publish.facts import gather
from dataplane.publish.folder import RECORD, file_list, json_text, read_record, whole_folder
from dataplane.publish.rows import ALL, CUTS, Request, Rows, open_rows
from dataplane.snapshot import Snapshot

SHARD_BYTES = 256 << 20
# What a reader of MDS wants; the format has no null, so signals and urls are not for it.
MDS_COLUMNS = {"documents": ("doc_id", "source", "text"), "tokens": ("doc_id", "input_ids"), "packed": ("seq_id", "input_ids")}


@dataclass(frozen=True)
class Options:
    """How to write.

    Attributes:
        title: Name of the data set on its card.
        shard_bytes: Size at which a shard is full; for jsonl before compression.
        compression: none | gz | zst, for jsonl.
    """

    title: str = "Terraplane export"
    shard_bytes: int = SHARD_BYTES
    compression: str = "none"


Write = Callable[[Rows, Path, Options], Mapping[str, Any]]


def _parquet(rows: Rows, folder: Path, options: Options) -> Mapping[str, Any]:
    return {"rows": export_parquet.write(rows, folder, _split(rows), options.shard_bytes), "split": _split(rows)}


def _jsonl(rows: Rows, folder: Path, options: Options) -> Mapping[str, Any]:
    count = export_jsonl.write(rows, folder, _split(rows), options.shard_bytes, options.compression)
    return {"rows": count, "split": _split(rows), "compression": options.compression}


def _megatron(rows: Rows, folder: Path, options: Options) -> Mapping[str, Any]:
    from dataplane.corpus import tokenizer

    del options
    where = rows.snapshot.root / tokenizer.FOLDER
    vocabulary = tokenizer.load(where)
    facts = export_megatron.write(rows, folder, tokenizer.vocabulary_size(vocabulary), tokenizer.token_id(vocabulary, tokenizer.EOS))
    return facts | {"tokenizer_sha256": file_list(where)[tokenizer.FILE]["sha256"]}


def _flat(rows: Rows, folder: Path, options: Options) -> Mapping[str, Any]:
    from dataplane.corpus import tokenizer

    del options
    where = rows.snapshot.root / tokenizer.FOLDER
    facts = export_flat.write(rows, folder, tokenizer.vocabulary_size(tokenizer.load(where)))
    return facts | {"tokenizer_sha256": file_list(where)[tokenizer.FILE]["sha256"]}


def _mds(rows: Rows, folder: Path, options: Options) -> Mapping[str, Any]:
    return {"rows": export_mds.write(rows, folder, min(options.shard_bytes, export_mds.SHARD_BYTES))}


FORMATS: dict[str, Write] = {"parquet": _parquet, "jsonl": _jsonl, "megatron": _megatron, "mds": _mds, "flat": _flat}
CARDED = ("parquet", "jsonl")


def export(request: Request, to: str, out: Path, options: Options, root: Path = Path()) -> dict[str, Any]:
    """Writes the rows to a new folder, whole or not at all.

    Equal versions give equal files: no time, path or run gets into them.

    Args:
        request: Which rows.
        to: Key of FORMATS.
        out: A folder that is empty or not there.
        options: How.
        root: Folder of the project.

    Returns:
        What stands in terraplane.json.

    Raises:
        UsageError: `out` is not empty, or the request or the format does not fit the table.
        DataError: The rows cannot be said in the format, or do not belong together.
        LakeBusy: Another export is writing to `out`.
    """
    rows = open_rows(_fit(request, to), root)
    with whole_folder(out) as folder, _progress(rows, to):
        written = FORMATS[to](rows, folder, options)
        record = _record(rows, to, options.title, written) | {"files": file_list(folder)}
        (folder / RECORD).write_text(json_text(record), encoding="utf-8")
        if to in CARDED:
            for name, text in descriptions(record, rows).items():
                (folder / name).write_text(text, encoding="utf-8")
        file_list(folder)  # what was written last reaches the disk, too
    return record


@contextmanager
def _progress(rows: Rows, title: str) -> Iterator[None]:
    """A bar on a terminal, for as long as the rows go out."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=rows.total)
        rows.watch = lambda count: progress.advance(bar, count)
        yield


def _fit(request: Request, to: str) -> Request:
    """The request with the columns that the format takes."""
    if to == "megatron":
        return replace(request, columns=("input_ids",)) if request.table in export_megatron.TABLES else request
    if to == "mds" and not request.columns:
        return replace(request, columns=MDS_COLUMNS.get(request.table, ()))
    return request


def _split(rows: Rows) -> str:
    """The split as `datasets` names it."""
    return "validation" if rows.select == "held_out" else "train"


def _record(rows: Rows, to: str, title: str, written: Mapping[str, Any]) -> dict[str, Any]:
    snapshots = {snapshot.table: snapshot.digest for snapshot in (rows.snapshot, rows.ids, rows.cuts) if snapshot is not None}
    return {
        "title": title,
        "terraplane": version("terraplane"),
        "format": to,
        "table": rows.snapshot.table,
        "select": rows.select,
        "digest": identity(snapshots, rows.schema),
        "snapshots": snapshots,
        "columns": [{"name": field.name, "type": str(field.type)} for field in rows.schema],
        **written,
    }


def identity(snapshots: Mapping[str, str], schema: pa.Schema) -> str:
    """128-bit digest of what was exported: the versions and the columns, whatever the format."""
    return digest({"snapshots": dict(snapshots), "columns": [[field.name, str(field.type)] for field in schema]})


def descriptions(record: Mapping[str, Any], rows: Rows) -> dict[str, str]:
    """The dataset card and the Croissant description of an export: file name -> text.

    Raises:
        UsageError: The format is none that Croissant and the Hub know.
    """
    if record["format"] not in CARDED:
        raise UsageError(f"{record['format']} is no format that a card describes", fix=f"export as {' or '.join(CARDED)}")
    facts = gather(rows)
    return {dataset_card.FILE: dataset_card.card(record, facts), CROISSANT: json_text(croissant(record, rows.schema, facts))}


def reopen(folder: Path, root: Path = Path()) -> tuple[dict[str, Any], Rows]:
    """terraplane.json of an export that was made before, and the lake's rows that it holds.

    Raises:
        DataError: The folder is no export, or the lake no longer has those versions.
    """
    record = read_record(folder)
    snapshots = {table: Snapshot(table, digest, 0, root) for table, digest in record["snapshots"].items()}
    ids = snapshots[record["select"]] if record["select"] != ALL else None
    cuts = snapshots.get(CUTS) if record["table"] != CUTS else None
    return record, Rows(snapshots[record["table"]], ids, [column["name"] for column in record["columns"]], cuts)
