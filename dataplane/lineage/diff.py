"""What differs between two versions of a table: documents gained, lost and changed, and by what.

Rows are compared by their key and a 128-bit hash, streamed: no text is held but that of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import history
from dataplane.errors import DataError, UsageError
from dataplane.kernels.hashing import row_hashes
from dataplane.lake.runs import read_records
from dataplane.lake.scan import Scan
from dataplane.lake.sql import MEMORY_LIMIT, private_connection
from dataplane.lake.views import UNIONS, quoted
from dataplane.schema import UNDIGESTED
from dataplane.snapshot import Snapshot, open_store, read_tags, resolve, tables

# What tells a row of a table where `doc_id` does not. A key may have several rows: they are compared together.
KEYS = {
    "packed": ("seq_id",),
    "consumed": ("stage", "step"),
    "checkpoints": ("stage", "step"),
    "evals": ("stage", "task", "group", "metric"),
}
# Two versions of a document differ where its text does; signals may be measured again.
COMPARED = {"documents": ("text_hash",)}
DECISIONS = UNIONS["decisions"]
CHANGES = ("gained", "lost", "changed")
LANGUAGE = "language__lang"
BATCH_ROWS = 1 << 14
SAMPLE_CHARS = 200


@dataclass(frozen=True)
class Side:
    """One of two versions.

    Attributes:
        name: What it was called.
        version: The version.
        beside: Further tables as they were with it; none that is not known or not kept.
    """

    name: str
    version: Snapshot
    beside: Mapping[str, Snapshot]

    def documents(self) -> Snapshot | None:
        """The documents of this side."""
        return self.version if self.version.table == "documents" else self.beside.get("documents")


@dataclass(frozen=True)
class Difference:
    """What differs between two versions, a and b.

    Attributes:
        table: Name of the table.
        a: Name, digest and rows of the first version.
        b: The same of the second.
        gained: Keys (documents, where it has them) that only b has.
        lost: Keys that only a has.
        changed: Keys that both have with different content.
        by_source: Source -> counts; none for a table without documents.
        by_language: Language -> counts.
        by_rule: Rule -> documents gained that it had dropped before, and lost that it drops now. None: no rule did.
        samples: Change -> the first rows by key.
    """

    table: str
    a: dict[str, Any]
    b: dict[str, Any]
    gained: int
    lost: int
    changed: int
    by_source: list[dict[str, Any]]
    by_language: list[dict[str, Any]]
    by_rule: list[dict[str, Any]]
    samples: dict[str, list[dict[str, Any]]]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def diff(table: str, a: str, b: str, *, samples: int = 5, root: Path = Path(), memory: str = MEMORY_LIMIT) -> Difference:
    """Compares two versions of a table.

    Args:
        table: Name of the table.
        a: `current`, a tag, a digest or its start, or a Git revision.
        b: The same for the other version.
        samples: Rows to show of each change.
        root: Folder of the project.
        memory: What DuckDB may take.

    Raises:
        UsageError: A name means no version.
        DataError: A version is not kept any more.
        EnvironmentFault: Git or DVC fails.
    """
    before, after = find_side(table, a, root), find_side(table, b, root)
    connection = private_connection(memory)
    keys = _keys(before.version.schema, after.version.schema, table)
    _compare(connection, keys, before.version, after.version)
    rows = connection.execute("SELECT change, count(*) FROM changes GROUP BY 1").fetchall()
    of_documents = keys == ["doc_id"]
    if of_documents:
        _add_facts(connection, before, after)
        _add_rules(connection, before, after)
    return Difference(
        table,
        _described(before),
        _described(after),
        **(dict.fromkeys(CHANGES, 0) | dict(rows)),
        by_source=_by(connection, "source") if of_documents else [],
        by_language=_by(connection, "language") if of_documents else [],
        by_rule=_by_rule(connection) if of_documents else [],
        samples={change: _samples(connection, keys, change, samples, before, after) for change in CHANGES},
    )


def _described(side: Side) -> dict[str, Any]:
    return {"name": side.name, "digest": side.version.digest, "rows": side.version.rows}


def find_side(table: str, name: str, root: Path = Path()) -> Side:
    """The version that a name means, and what lay beside it.

    Raises:
        UsageError: It means none.
        EnvironmentFault: Git or DVC fails.
    """
    if name == "current":
        return Side(name, Snapshot.load(table, root), {other: Snapshot.load(other, root) for other in tables(root)})
    try:
        version = resolve(table, name, root)
    except DataError as unknown:
        return _at_revision(table, name, unknown, root)
    beside = read_tags(root).get(name) or _written_with(version, root)
    return Side(name, version, _kept(beside, root))


def _at_revision(table: str, name: str, unknown: DataError, root: Path) -> Side:
    try:
        there = history.at_revision(name, root)
    except UsageError as error:
        raise UsageError(f"{unknown.message}; and {error.message}", fix=unknown.fix) from None
    if table not in there:
        raise UsageError(f"there was no table {table!r} at revision {name}", fix=f"it had: {', '.join(sorted(there))}")
    return Side(name, there[table], _kept({other: snapshot.digest for other, snapshot in there.items()}, root))


def _written_with(version: Snapshot, root: Path) -> dict[str, str]:
    """Table -> digest of what the last run that wrote this version read and wrote."""
    found: dict[str, str] = {}
    for record in read_records(root):
        if record["outputs"].get(version.table) == version.digest:
            found = record["inputs"] | record["outputs"]
    return found


def _kept(digests: Mapping[str, str], root: Path) -> dict[str, Snapshot]:
    """The versions among these that the store still has."""
    store = open_store(root)
    versions = {table: store.version(table, digest) for table, digest in digests.items()}
    return {table: Snapshot(table, version.digest, version.rows, root) for table, version in versions.items() if version}


def _keys(a: pa.Schema, b: pa.Schema, table: str) -> list[str]:
    """Key columns; for a table that we do not know, all columns that both versions have."""
    both = [name for name in a.names if name in b.names and name not in UNDIGESTED]
    known = KEYS.get(table, ("doc_id",))
    return list(known) if set(known) <= set(both) else both


def _compare(connection: Any, keys: Sequence[str], a: Snapshot, b: Snapshot) -> None:
    """Makes the table `changes`: the keys that differ, and how."""
    connection.register("rows_a", _hashed(a, keys))
    connection.register("rows_b", _hashed(b, keys))
    names = ", ".join(map(quoted, keys))
    connection.execute(f"""
        CREATE TABLE changes AS
        SELECT {names}, CASE WHEN n_a = 0 THEN 'gained' WHEN n_b = 0 THEN 'lost' ELSE 'changed' END AS change
        FROM (
            SELECT {names}, count(*) FILTER (NOT in_b) AS n_a, count(*) FILTER (in_b) AS n_b,
                sum(low) FILTER (NOT in_b) AS low_a, sum(low) FILTER (in_b) AS low_b,
                sum(high) FILTER (NOT in_b) AS high_a, sum(high) FILTER (in_b) AS high_b
            FROM (SELECT *, false AS in_b FROM rows_a UNION ALL SELECT *, true AS in_b FROM rows_b)
            GROUP BY {names}
        )
        WHERE (n_a, low_a, high_a) IS DISTINCT FROM (n_b, low_b, high_b)
    """)


def _hashed(version: Snapshot, keys: Sequence[str]) -> pa.RecordBatchReader:
    """Key columns and the two halves of the row hash, of each row."""
    data = version.open()
    compared = [name for name in COMPARED.get(version.table, data.schema.names) if name not in UNDIGESTED]
    columns = list(dict.fromkeys([*keys, *compared]))
    schema = pa.schema([*(data.schema.field(key) for key in keys), ("low", pa.uint64()), ("high", pa.uint64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in data.batches(columns, None, BATCH_ROWS, 0, None):
            hashes = row_hashes(batch, compared)
            lanes = [pa.array(hashes[:, lane]) for lane in (0, 1)]
            yield pa.record_batch([*(batch.column(key) for key in keys), *lanes], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _add_facts(connection: Any, before: Side, after: Side) -> None:
    """Makes the table `facts`: source, language and url of the documents that differ, from where they are known first."""
    connection.execute("CREATE TABLE facts (doc_id VARCHAR, source VARCHAR, language VARCHAR, url VARCHAR)")
    for version in (after.documents(), before.documents(), after.version, before.version):
        if version is None:
            continue
        names = version.schema.names
        wanted = {"source": "source", "language": LANGUAGE, "url": "url"}
        columns = ", ".join(f"any_value({quoted(name)})" if name in names else "NULL" for name in wanted.values())
        if "source" in names:
            connection.register("known", Scan(version.dataset()))
            connection.execute(
                f"INSERT INTO facts SELECT doc_id, {columns} FROM known SEMI JOIN changes USING (doc_id) ANTI JOIN facts USING (doc_id)"
                " GROUP BY doc_id"
            )


def _add_rules(connection: Any, before: Side, after: Side) -> None:
    """Makes the table `rules`: which rules had dropped what is gained, and drop what is lost."""
    connection.execute("CREATE TABLE rules (doc_id VARCHAR, change VARCHAR, rule VARCHAR)")
    for change, side in (("gained", before), ("lost", after)):
        # What is not among the documents was dropped before they were written, if at all by a rule.
        for table in DECISIONS[:1] if side.version.table == "documents" else DECISIONS:
            if table in side.beside:
                connection.register("decided", Scan(side.beside[table].dataset()))
                connection.execute(
                    "INSERT INTO rules SELECT DISTINCT doc_id, change, operator || '.' || reason"
                    " FROM decided JOIN changes USING (doc_id) WHERE change = ?",
                    [change],
                )


def _by(connection: Any, fact: str) -> list[dict[str, Any]]:
    """Counts for each value of a fact, most first."""
    return _rows(
        connection,
        f"""
        SELECT {fact}, {_counts(CHANGES)} FROM changes LEFT JOIN facts USING (doc_id)
        GROUP BY 1 ORDER BY count(*) DESC, 1 NULLS LAST
        """,
    )


def _by_rule(connection: Any) -> list[dict[str, Any]]:
    """Documents for each rule, most first; a document that several rules drop counts for each."""
    return _rows(
        connection,
        f"""
        SELECT rule, {_counts(("gained", "lost"))} FROM changes LEFT JOIN rules USING (doc_id, change)
        WHERE change <> 'changed' GROUP BY 1 ORDER BY count(*) DESC, 1 NULLS LAST
        """,
    )


def _counts(changes: Sequence[str]) -> str:
    return ", ".join(f"count(*) FILTER (change = '{change}') AS {change}" for change in changes)


def _samples(connection: Any, keys: Sequence[str], change: str, n: int, before: Side, after: Side) -> list[dict[str, Any]]:
    """The first rows of a change by key; of documents, with where they are from and how their text begins."""
    names = ", ".join(map(quoted, keys))
    first = f"SELECT {names} FROM changes WHERE change = '{change}' ORDER BY ALL LIMIT {n}"
    if list(keys) != ["doc_id"]:
        return _rows(connection, first)
    known = "(SELECT doc_id, list(rule ORDER BY rule) AS rules FROM rules GROUP BY 1)"
    rows = _rows(
        connection,
        f"""
        SELECT doc_id, source, url, coalesce(rules, []) AS rules FROM ({first})
        LEFT JOIN facts USING (doc_id) LEFT JOIN {known} USING (doc_id) ORDER BY doc_id
        """,
    )
    ids = [row["doc_id"] for row in rows]
    texts = _texts(before if change == "lost" else after, ids)
    earlier = _texts(before, ids) if change == "changed" else {}
    return [
        row | {"text": texts.get(row["doc_id"])} | ({"text_before": earlier.get(row["doc_id"])} if change == "changed" else {})
        for row in rows
    ]


def _texts(side: Side, ids: Sequence[str]) -> dict[str, str]:
    """Beginnings of texts by doc_id, where the side's documents are known."""
    documents = side.documents()
    if documents is None or not ids:
        return {}
    found = documents.to_table(["doc_id", "text"], {"doc_id": ids})
    return {doc_id: text[:SAMPLE_CHARS] for doc_id, text in zip(*(column.to_pylist() for column in found.columns), strict=True)}


def _rows(connection: Any, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = connection.sql(query).to_arrow_table().to_pylist()
    return rows
