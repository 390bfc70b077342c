"""Groups of documents by any SQL expression over their columns and signals."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ParamsError
from dataplane.lake.sql import private_connection
from dataplane.lake.views import add_view, signals_by_operator
from dataplane.ruleset import referenced_signals
from dataplane.schema import signal_column

I64 = npt.NDArray[np.int64]

_VIEW = "documents"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def columns_of(by: str, columns: pa.Schema) -> list[str]:
    """The stored columns that an expression may look at, text left out.

    Args:
        by: SQL over the columns of `documents`; signals as operator.signal.
        columns: Schema of `documents`.
    """
    words = {word.lower() for word in _WORD.findall(by)}
    plain = [name for name in columns.names if name.lower() in words and name not in ("text", "doc_id")]
    signals = [signal_column(operator, name) for operator, name in referenced_signals(by, signals_by_operator(columns))]
    return list(dict.fromkeys([*plain, *signals]))


def group_names(documents: pa.Table, by: str, where: str = "mix") -> pa.Array:
    """The group of each document: string [n], empty where the expression is null.

    Args:
        documents: With the columns that `columns_of` tells.
        by: SQL over them.
        where: Path of the params that name it, for messages.

    Raises:
        ParamsError: The expression is no SQL, or names what is not there.
    """
    import duckdb

    connection = private_connection()
    add_view(connection, _VIEW, documents)
    try:
        found = connection.sql(f"SELECT coalesce(CAST(({by}) AS VARCHAR), '') AS name FROM {_VIEW}").to_arrow_table()
    except duckdb.Error as error:
        fix = f"name columns of documents, or signals as operator.signal, in {where}.by"
        raise ParamsError(f"{by!r}: {str(error).splitlines()[0]}", where=f"{where}.by", fix=fix) from None
    if found.num_rows != documents.num_rows:
        message = f"{by!r} gives {found.num_rows} values for {documents.num_rows} documents"
        raise ParamsError(message, where=f"{where}.by", fix="one value a row")
    return found.column("name").combine_chunks().cast(pa.string())


def coded(names: pa.Array) -> tuple[list[str], I64]:
    """Names of the groups, sorted, and the place of each document's group among them (int64 [n])."""
    encoded = names.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    order = sorted(range(len(known)), key=known.__getitem__)
    place = np.empty(len(known), np.int64)
    place[order] = np.arange(len(known))
    return [known[i] for i in order], place[encoded.indices.to_numpy(zero_copy_only=False)]
