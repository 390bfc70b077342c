"""Labels that several annotators gave the same items, out of a table in wide or long form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dataplane.corpus.labelled import rows_of
from dataplane.errors import DataError, UsageError

MISSING = -1
SHOWN_LABELS = 5


@dataclass(frozen=True)
class Ratings:
    """Who gave what which label.

    Attributes:
        annotators: Their names.
        labels: The labels, in their order where they have one.
        codes: int64 [items, annotators], places in `labels`; MISSING where an annotator gave none.
        ordered: Whether the labels have an order.
        values: The labels as numbers, where all of them are.
    """

    annotators: tuple[str, ...]
    labels: tuple[str, ...]
    codes: npt.NDArray[np.int64]
    ordered: bool
    values: tuple[float, ...] | None


def wide(path: Path, annotators: Sequence[str], order: Sequence[str] = ()) -> Ratings:
    """A row for each item, a column for each annotator.

    Args:
        path: JSONL, Parquet, CSV or TSV.
        annotators: The columns.
        order: The labels from the lowest to the highest.

    Raises:
        UsageError: The file is of no known kind, or lacks a column.
        SourceError: The file cannot be read.
        DataError: It holds no label, or one that `order` does not.
    """
    table = [[_label(row[name]) for name in annotators] for row in rows_of(path, annotators)]
    return _ratings(annotators, table, order, path)


def long(path: Path, item: str, annotator: str, label: str, order: Sequence[str] = ()) -> Ratings:
    """A row for each label that an annotator gave an item.

    Args:
        path: JSONL, Parquet, CSV or TSV.
        item, annotator, label: The columns.
        order: The labels from the lowest to the highest.

    Raises:
        UsageError, SourceError, DataError: As `wide`; a DataError also where an annotator labelled an item twice.
    """
    given: dict[tuple[str, str], str | None] = {}
    for row in rows_of(path, (item, annotator, label)):
        key = (str(row[item]), str(row[annotator]))
        if key in given:
            message = f"{annotator} {key[1]!r} labelled {item} {key[0]!r} twice"
            raise DataError(message, where=str(path), fix="keep one of the two, or name the rounds as annotators of their own")
        given[key] = _label(row[label])
    items = list(dict.fromkeys(name for name, _ in given))
    names = sorted({name for _, name in given})
    return _ratings(names, [[given.get((one, name)) for name in names] for one in items], order, path)


def _label(value: Any) -> str | None:
    """A label as text; None where there is none. A number is the same label however it is written."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = str(value).strip()
    number = _number(text)
    return text or None if number is None else f"{number:g}"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _ratings(annotators: Sequence[str], table: Sequence[Sequence[str | None]], order: Sequence[str], path: Path) -> Ratings:
    found = {label for row in table for label in row if label is not None}
    if not found:
        raise DataError("there is no label", where=str(path), fix="name the columns of the labels")
    labels, values = _in_order(found, [label for name in order if (label := _label(name)) is not None], path)
    place: Mapping[str | None, int] = {None: MISSING, **{label: i for i, label in enumerate(labels)}}
    codes = np.array([[place[label] for label in row] for row in table], np.int64)
    return Ratings(tuple(annotators), tuple(labels), codes, bool(order) or values is not None, values)


def _in_order(found: Iterable[str], order: Sequence[str], path: Path) -> tuple[list[str], tuple[float, ...] | None]:
    """The labels in their order, and their numbers where all have one; names without an order come by the alphabet."""
    numbers = {label: _number(label) for label in (*found, *order)}
    if order:
        if unknown := sorted(set(found) - set(order)):
            shown = ", ".join(map(repr, unknown[:SHOWN_LABELS]))
            raise UsageError(f"labels that the order does not name: {shown}", where=str(path), fix="name every label, lowest first")
        labels = list(dict.fromkeys(order))
    else:
        labels = sorted(found, key=lambda label: (numbers[label] or 0.0, label))
    values = [number for label in labels if (number := numbers[label]) is not None]
    return labels, tuple(values) if len(values) == len(labels) else None
