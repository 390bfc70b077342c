"""Rules over the signals of many documents at once: streamed from the store through DuckDB, without packing and without text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.deciding import Decider, Rule
from dataplane.lake.store import Data
from dataplane.lake.views import signals_by_operator
from dataplane.schema import signal_column

PLACE = "place"  # a document's row in the table, from 0
BATCH_ROWS = 1 << 13  # DuckDB holds several batches at once, so a larger one costs memory and gains no time
LANGUAGE = signal_column("language", "lang")


class FlatRules:
    """Predicates of rules with their signals named as they are stored.

    DuckDB computes a struct for each row before it takes a field out of it, which costs more than most rules; so
    ``operator.signal`` becomes ``operator__signal`` in the parsed predicate.

    Args:
        connection: A DuckDB connection.
        columns: Schema of the documents.
    """

    def __init__(self, connection: Any, columns: pa.Schema) -> None:
        self._connection, self._plain = connection, {name.lower(): name for name in columns.names}
        signals = signals_by_operator(columns)
        self._signals = {(op.lower(), name.lower()): signal_column(op, name) for op, names in signals.items() for name in names}

    def predicate(self, rule: Rule) -> str:
        """SQL that is true where the rule drops a document; elsewhere false or null, which DuckDB tells apart at a cost."""
        tree = self._parsed(rule)
        self._flatten(tree)
        sql = self._connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()[0][0]
        return str(sql).removeprefix("SELECT ")

    def columns(self, rules: Sequence[Rule]) -> list[str]:
        """The columns that the rules look at, each once."""
        return list(dict.fromkeys(name for rule in rules for name in self._flatten(self._parsed(rule))))

    def _parsed(self, rule: Rule) -> Any:
        guarded = f"(({rule.when}) AND ({rule.predicate}))" if rule.when else f"({rule.predicate})"
        return json.loads(self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [f"SELECT {guarded}"]).fetchall()[0][0])

    def _flatten(self, node: Any) -> list[str]:
        """Renames the columns below a node, and tells them."""
        if isinstance(node, list):
            return [name for part in node for name in self._flatten(part)]
        if not isinstance(node, dict):
            return []
        if node.get("class") != "COLUMN_REF":
            return self._flatten(list(node.values()))
        names = [name.lower() for name in node["column_names"]]
        found = self._plain.get(names[0]) if len(names) == 1 else self._signals.get((names[0], names[1]))
        if found is None:  # the variable of a lambda
            return []
        node["column_names"] = [found]
        return [found]


def check(rules: Sequence[Rule], columns: pa.Schema, stage: str) -> None:
    """Holds rules against the documents.

    Raises:
        ParamsError: A rule refers to what is not there, or is no SQL; every fault is named.
    """
    Decider(rules, columns, stage=stage, run_id="")


def any_of(predicates: Sequence[str]) -> str:
    """SQL that is true where one of the predicates is, and else false.

    As the condition of a CASE, DuckDB asks each predicate only of the rows that the ones before it have left.
    """
    return f"CASE WHEN {' OR '.join(predicates)} THEN true ELSE false END" if predicates else "false"


def stream(
    data: Data, columns: Sequence[str], *, place: bool = False, beside: Mapping[str, npt.NDArray[Any]] | None = None
) -> pa.RecordBatchReader:
    """Columns of all rows in stored order, for DuckDB to read once.

    Args:
        data: The table.
        columns: What to read.
        place: Adds each row's number as the column of that name.
        beside: Further columns [rows], by name.
    """
    batches = data.batches(list(columns), None, BATCH_ROWS, 0, None)
    added = [(name, pa.from_numpy_dtype(values.dtype)) for name, values in (beside or {}).items()]
    schema = pa.schema([*(data.schema.field(name) for name in columns), *([(PLACE, pa.int64())] if place else []), *added])
    return pa.RecordBatchReader.from_batches(schema, _widened(batches, schema, place, list((beside or {}).values())))


def _widened(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, place: bool, beside: Sequence[npt.NDArray[Any]]
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        stop = start + len(batch)
        added = [np.arange(start, stop, dtype=np.int64)] if place else []
        added += [values[start:stop] for values in beside]
        yield pa.RecordBatch.from_arrays([*batch.columns, *(pa.array(values) for values in added)], schema=schema)
        start = stop
