"""Examples to train classifiers on, out of files: JSONL, Parquet, CSV and plain text."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa

from dataplane.corpus.linear_model import Labelled
from dataplane.errors import DataError, SourceError, UsageError, did_you_mean
from dataplane.kernels.pieces import split

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".csv", ".tsv", ".txt", ".md")
PLAIN = (".txt", ".md")
BATCH_CHARS = 4_000_000
TOXIC = "toxic"  # the label where the data only tell 1 from 0
NEUTRAL = ("", "0", "none", "neither", "normal", "clean", "non-hateful", "nohate", "not_toxic")
PIECE_CHARS = 100  # of ordinary documents, about as long as posts
SEPARATOR = "|"  # of several labels of one text


def two_sides(positive: Sequence[str], negative: Sequence[str], label: str, field: str) -> Labelled:
    """Examples of which some files hold the good and others the bad.

    Args:
        positive: Globs of files.
        negative: Globs of files.
        label: Name of what the positive ones are.
        field: Field or column of the text; plain text files are a document each.

    Raises:
        UsageError: A glob matches no file, or a file is of no known kind.
        SourceError: A file cannot be read.
    """
    sides = [[text for path in _matched(globs) for text in _texts(path, field)] for globs in (positive, negative)]
    has = np.repeat([True, False], [len(side) for side in sides])[:, None]
    return Labelled(pa.array(sides[0] + sides[1], pa.large_string()), (label,), has)


def labelled(paths: Sequence[str], text_field: str, label_field: str, neutral: Sequence[str] = NEUTRAL) -> Labelled:
    """Examples with a label each, or several parted by `|`.

    Args:
        paths: Globs of JSONL, Parquet, CSV or TSV files.
        text_field: Field or column of the text.
        label_field: That of the label. Labels 1 and 0 are "toxic" and nothing.
        neutral: Labels, in lower case, that say there is nothing to tell.

    Raises:
        UsageError: A glob matches no file, or a file is of no known kind or lacks a field.
        SourceError: A file cannot be read.
        DataError: There is no label but neutral ones.
    """
    rows = [row for path in _matched(paths) for row in rows_of(path, (text_field, label_field))]
    texts = [str(row[text_field] or "") for row in rows]
    sets = [_label_set(row[label_field], neutral) for row in rows]
    names = tuple(sorted(set().union(*sets)))
    if not names:
        raise DataError(f"every document's {label_field} is neutral", where=", ".join(paths), fix="name the field of the label")
    has = np.array([[name in found for name in names] for found in sets], np.bool_)
    return Labelled(pa.array(texts, pa.large_string()), names, has)


def with_innocent(data: Labelled, globs: Sequence[str], field: str) -> Labelled:
    """Adds ordinary documents, in pieces as long as posts, that have no label.

    Labelled posts are all about what people quarrel over: a model that saw nothing else takes a novel for a quarrel.

    Args:
        data: The labelled posts.
        globs: Files of ordinary documents.
        field: Field or column of their text.

    Raises:
        UsageError: A glob matches no file, or a file is of no known kind or lacks the field.
        SourceError: A file cannot be read.
    """
    documents = pa.array([text for path in _matched(globs) for text in _texts(path, field)], pa.large_string())
    pieces, _, _ = split(documents, PIECE_CHARS)
    has = np.concatenate([data.has, np.zeros((len(pieces), len(data.labels)), np.bool_)])
    return Labelled(pa.concat_arrays([data.text, pieces]), data.labels, has)


def _label_set(value: Any, neutral: Sequence[str]) -> set[str]:
    parts = {part.strip() for part in str("" if value is None else value).split(SEPARATOR)}
    return {TOXIC if part == "1" else part for part in parts if part.lower() not in neutral}


def _matched(globs: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for pattern in globs:
        paths = sorted(Path(path) for path in glob(pattern, recursive=True) if Path(path).is_file())
        if not paths:
            raise UsageError(f"no file matches {pattern!r}", fix="quote a glob so that the shell leaves it alone, and check the path")
        found += paths
    return found


def _texts(path: Path, field: str) -> Iterator[str]:
    if path.suffix in PLAIN:
        yield _read(path)
        return
    for row in rows_of(path, (field,)):
        yield str(row[field] or "")


def rows_of(path: Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of a file as dicts that have all the fields.

    Args:
        path: JSONL, Parquet, CSV or TSV.
        fields: What each row has to have.

    Raises:
        UsageError: The file is of no known kind, or a row lacks a field.
        SourceError: The file cannot be read.
    """
    for number, row in enumerate(_parsed(path, fields), start=1):
        if not isinstance(row, dict):
            raise SourceError(f"row {number} is no object", where=str(path), fix="write one JSON object a line")
        for field in fields:
            if field not in row:
                known = did_you_mean(field, map(str, row))
                raise UsageError(f"row {number} has no {field!r}, {known}", where=str(path), fix="name the field with an option")
        yield row


def _parsed(path: Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    name = path.name
    try:
        if name.endswith((".jsonl", ".jsonl.gz")):
            with _opened(path) as stream:
                yield from (json.loads(line) for line in stream if line.strip())
        elif name.endswith(".parquet"):
            yield from _parquet(path, fields)
        elif name.endswith((".csv", ".tsv")):
            with _opened(path, newline="") as stream:
                yield from csv.DictReader(stream, delimiter="\t" if name.endswith(".tsv") else ",")
        else:
            raise UsageError(f"files {path.suffix or 'without suffix'} are not read", where=str(path), fix=f"known: {', '.join(SUFFIXES)}")
    except (ValueError, EOFError, csv.Error) as error:
        raise SourceError(f"cannot be read: {error}", where=str(path), fix="repair the file or leave it out of the glob") from None


def _parquet(path: Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        present = [field for field in fields if field in file.schema_arrow.names]
        for batch in file.iter_batches(columns=present):
            yield from batch.to_pylist()


def _read(path: Path) -> str:
    with _opened(path) as stream:
        return stream.read()


def _opened(path: Path, newline: str = "\n") -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline=newline)
    return path.open(encoding="utf-8-sig", newline=newline)


def text_batches(globs: Sequence[str], field: str, by_line: bool) -> Iterator[pa.Array]:
    """The texts of files, a few megabytes at a time, whatever the size of the files: large_string arrays.

    Args:
        globs: Files of JSONL, Parquet, CSV, TSV or plain text.
        field: Field or column of the text.
        by_line: Whether a file of plain text may come line by line; it is one document otherwise, and held in memory.

    Raises:
        UsageError: A glob matches no file, or a file is of no known kind or lacks the field.
        SourceError: A file cannot be read.
    """
    batch: list[str] = []
    size = 0
    for path in _matched(globs):
        for text in _lines(path) if by_line and path.suffix in PLAIN else _texts(path, field):
            batch.append(text)
            size += len(text)
            if size >= BATCH_CHARS:
                yield pa.array(batch, pa.large_string())
                batch, size = [], 0
    if batch:
        yield pa.array(batch, pa.large_string())


def _lines(path: Path) -> Iterator[str]:
    try:
        with _opened(path) as stream:
            for line in stream:
                yield line.rstrip("\n")
    except (ValueError, EOFError) as error:
        raise SourceError(f"cannot be read: {error}", where=str(path), fix="repair the file or leave it out of the glob") from None
