"""What is known of documents beside their text, by name: columns, signals, and what the record said of itself."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import ParamsError, did_you_mean
from dataplane.schema import SIGNAL_SEPARATOR
from dataplane.snapshot import Snapshot

OF_RECORD = ("fetched_at", "uri", "member", "charset")
_META = "meta."


class Attributes:
    """Values of some documents, in their order.

    Args:
        doc_ids: string [n]
        documents: Table with columns and signals.
        raw: Table with what the records said.
        where: Path of the params that name attributes, for messages.
    """

    def __init__(self, doc_ids: pa.Array, documents: Snapshot, raw: Snapshot, where: str) -> None:
        self.doc_ids, self.documents, self.raw, self.where = doc_ids, documents, raw, where

    def values(self, name: str) -> pa.Array:
        """The attribute of each document, null where it has none.

        Args:
            name: Column (source), signal (quality_model.score), column of the record (fetched_at), or its field (meta.dump).

        Raises:
            ParamsError: There is no such attribute.
        """
        if name.startswith(_META):
            return _field(self._column(self.raw, "meta"), name.removeprefix(_META))
        if name in OF_RECORD:
            return self._column(self.raw, name)
        return self._column(self.documents, self.column(name))

    def column(self, name: str) -> str:
        """The column of `documents` that holds a column or signal.

        Raises:
            ParamsError: There is none.
        """
        column = name.replace(".", SIGNAL_SEPARATOR, 1)
        known = self.documents.schema.names
        if column not in known or column == "text":
            names = [*(k.replace(SIGNAL_SEPARATOR, ".") for k in known if k != "text"), *OF_RECORD]
            raise ParamsError(f"documents have no {name!r}, {did_you_mean(name, names)}", where=self.where, fix="edit params.yaml")
        return column

    def _column(self, table: Snapshot, column: str) -> pa.Array:
        rows = table.to_table(["doc_id", column])
        place = pc.index_in(self.doc_ids, rows.column("doc_id").combine_chunks())
        return rows.column(column).combine_chunks().take(place)


def _field(meta: pa.Array, name: str) -> pa.Array:
    """A field of JSON objects as text; each distinct object is read once."""
    encoded = meta.dictionary_encode()
    values = pa.array([_text(json.loads(text).get(name)) for text in encoded.dictionary.to_pylist()], pa.string())
    return values.take(encoded.indices)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)
