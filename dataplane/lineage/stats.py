"""What is in a table: its columns summarised, its size, and for documents their tokens and duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import UsageError, did_you_mean
from dataplane.lake.sql import private_connection
from dataplane.lake.views import quoted
from dataplane.lineage.signals import LANGUAGE, stream
from dataplane.snapshot import Snapshot, open_store, resolve, snapshot_path, tables

MEMORY_LIMIT = "1GB"
HUGE = ("text", "payload", "input_ids")  # columns whose summary reads most of the table
LARGEST_CLUSTERS = 5

Rows = list[dict[str, Any]]


def overview(root: Path = Path()) -> Rows:
    """Rows and bytes of every table's current version."""
    return [{"table": table, **size(Snapshot.load(table, root))} for table in tables(root)]


def stats(table: str, root: Path = Path(), at: str = "current", *, huge: bool = False) -> dict[str, Any]:
    """A version of a table in numbers.

    Args:
        table: Its name.
        root: Folder of the project.
        at: current, a tag, or a digest or its start.
        huge: Summarise text, payload and input_ids as well.

    Returns:
        rows, bytes and columns; for `documents` also tokens_by_source, tokens_by_language and duplicates, where they are known.

    Raises:
        UsageError: There is no such table.
        DataError: There is no such version.
    """
    if table not in tables(root):
        raise UsageError(f"no table {table!r}, {did_you_mean(table, tables(root))}", where="stats", fix="name one of them")
    snapshot = resolve(table, at, root)
    found = {"table": table, "digest": snapshot.digest, **size(snapshot), "columns": summary(snapshot, [] if huge else HUGE)}
    if table != "documents":
        return found
    if snapshot_path("tokens", root).exists():
        tokens = Snapshot.load("tokens", root)
        found |= {"tokens_by_source": tokens_by(snapshot, tokens, "source"), "tokens_by_language": tokens_by(snapshot, tokens, LANGUAGE)}
    if snapshot_path("duplicates", root).exists():
        found["duplicates"] = duplicates(Snapshot.load("duplicates", root))
    return found


def size(snapshot: Snapshot) -> dict[str, int]:
    """Rows of a version, and bytes of its data files."""
    store = open_store(snapshot.root)
    sizes = store.data_files(snapshot.table)
    names = {name for fragment in snapshot.fragments() for name in store.files(fragment.data)}
    return {"rows": snapshot.rows, "bytes": sum(sizes.get(name, 0) for name in names)}


def summary(snapshot: Snapshot, without: Sequence[str] = HUGE) -> Rows:
    """DuckDB's SUMMARIZE: one row for each column, with its range, quartiles, distinct values and nulls."""
    data = snapshot.open()
    columns = [name for name in data.schema.names if name not in without]
    connection = private_connection(MEMORY_LIMIT)
    connection.register("summarized", stream(data, columns))
    return list(connection.sql("SELECT * FROM (SUMMARIZE summarized)").to_arrow_table().to_pylist())


def tokens_by(documents: Snapshot, tokens: Snapshot, column: str) -> Rows:
    """Documents, bytes and tokens of what `tokens` knows, by a column of `documents`; none where it has no such column."""
    data = documents.open()
    if column not in data.schema.names:
        return []
    connection = private_connection(MEMORY_LIMIT)
    connection.register("d", stream(data, ["doc_id", "n_bytes", column]))
    connection.register("t", stream(tokens.open(), ["doc_id", "n_tokens"]))
    query = (
        f"SELECT {quoted(column)} AS {quoted(column.split('__')[0])}, count(*) AS documents, sum(n_bytes)::BIGINT AS bytes,"
        " sum(n_tokens)::BIGINT AS tokens, sum(n_bytes) / sum(n_tokens) AS bytes_per_token"
        " FROM d JOIN t USING (doc_id) GROUP BY 1 ORDER BY tokens DESC, 1"
    )
    return list(connection.sql(query).to_arrow_table().to_pylist())


def duplicates(snapshot: Snapshot) -> dict[str, Any]:
    """Clusters of equal and near-equal documents: how many, how many documents they cost, and the largest."""
    connection = private_connection(MEMORY_LIMIT)
    connection.register("d", snapshot.to_table(columns=["cluster_id", "kept", "representative", "how"]))
    dropped = dict(connection.execute("SELECT how, count(*) FROM d WHERE NOT kept GROUP BY 1 ORDER BY 1").fetchall())
    clusters = "SELECT cluster_id, any_value(representative) AS representative, count(*) AS documents FROM d GROUP BY 1"
    largest = connection.sql(f"{clusters} ORDER BY documents DESC, cluster_id LIMIT {LARGEST_CLUSTERS}").to_arrow_table().to_pylist()
    (count,) = connection.execute("SELECT count(DISTINCT cluster_id) FROM d").fetchall()[0]
    return {"clusters": count, "dropped": dropped, "largest": largest}
