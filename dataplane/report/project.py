"""What the report reads of a project: tables by question, texts by id, and the small files beside the lake."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from dataplane.errors import DataError
from dataplane.lake.sql import connect
from dataplane.schema import DOC_ID_HEX_CHARS
from dataplane.snapshot import Snapshot, snapshot_path

# Read of each text: enough that cleaning a snippet of 300 characters never runs out.
MAX_READ_CHARS = 1265
READ_BATCH_ROWS = 32
_HEX = frozenset("0123456789abcdef")


class Project:
    """A project folder, read only. What is absent is None or empty, since a report is wanted from half a run too.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._connection = connect(root)

    def close(self) -> None:
        """Closes the connection to the lake."""
        self._connection.close()

    def has(self, *tables: str) -> bool:
        """Whether all these tables are there."""
        return all(snapshot_path(table, self.root).is_file() for table in tables)

    def snapshot(self, table: str) -> Snapshot | None:
        """A table's snapshot, if it is there."""
        return Snapshot.load(table, self.root) if self.has(table) else None

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows that answer a question to the lake."""
        rows: list[dict[str, Any]] = self._connection.sql(query, params=list(values)).to_arrow_table().to_pylist()
        return rows

    def texts(self, doc_ids: Collection[str]) -> dict[str, str]:
        """doc_id -> start of its text in `documents`, for those that are there."""
        wanted = sorted({doc_id for doc_id in doc_ids if len(doc_id) == DOC_ID_HEX_CHARS and _HEX.issuperset(doc_id)})
        if not wanted or not self.has("documents"):
            return {}
        found: dict[str, str] = {}
        batches = Snapshot.load("documents", self.root).batches(["doc_id", "text"], {"doc_id": wanted}, READ_BATCH_ROWS)
        for batch in batches:
            starts = pc.utf8_slice_codeunits(batch.column("text"), 0, MAX_READ_CHARS)
            found.update(zip(batch.column("doc_id").to_pylist(), starts.to_pylist(), strict=True))
        return found

    def metrics(self, stage: str) -> dict[str, Any]:
        """metrics/STAGE.json, empty if absent."""
        found = self.json(f"metrics/{stage}.json")
        return found if isinstance(found, dict) else {}

    def json(self, path: str) -> Any:
        """A JSON file of the project, None if absent.

        Raises:
            DataError: It is there and not JSON.
        """
        try:
            return json.loads((self.root / path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(f"{path} is not JSON: {error}", where="report", fix="run `dvc repro` to make it again") from None

    def lines(self, path: str) -> list[dict[str, Any]]:
        """The objects of a JSONL file of the project; none if it is absent.

        Raises:
            DataError: It is there and not JSONL.
        """
        file = self.root / path
        if not file.is_file():
            return []
        try:
            return [dict(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} is not JSONL: {error}", where="report", fix="run `dvc repro` to make it again") from None

    def plot(self, stage: str) -> list[dict[str, float]]:
        """Rows of plots/STAGE.csv, without the fields that hold no finite number; none if the file is absent."""
        path = self.root / "plots" / f"{stage}.csv"
        if not path.is_file():
            return []
        with path.open(encoding="utf-8", errors="replace", newline="") as stream:
            return [_numbers(row) for row in csv.DictReader(stream)]


def _numbers(row: dict[Any, Any]) -> dict[str, float]:
    numbers = {}
    for name, text in row.items():
        try:
            value = float(text)
        except (TypeError, ValueError):
            continue
        if math.isfinite(value):
            numbers[str(name)] = value
    return numbers
