"""Time travel: ``table AT (VERSION => 'tag or digest')`` and ``table AT (TIMESTAMP => '2026-12-01 10:00')``.

DuckDB reads this clause, but its views have no versions. So the clause is found with DuckDB's own tokenizer, which
tells it from text and comments, and the table's name before it is replaced by that of a view of the version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dataplane.errors import DataError, UsageError, did_you_mean
from dataplane.lake.runs import ended_at, read_records
from dataplane.lake.views import UNIONS, add_union, add_view, quoted
from dataplane.snapshot import Snapshot, open_store, read_tags, resolve, tables

UNITS = ("version", "timestamp")
SHAPE = "write: documents AT (VERSION => 'TAG OR DIGEST') or documents AT (TIMESTAMP => '2026-12-01 10:00')"

Evaluate = Callable[[str], str | None]  # the text of a constant SQL expression


@dataclass(frozen=True)
class Token:
    """One token of a question, its place in bytes of UTF-8."""

    start: int
    stop: int
    kind: str
    text: str


@dataclass(frozen=True)
class Clause:
    """One AT clause.

    Attributes:
        table: The token before it that names the table.
        start: Its first byte.
        stop: The byte after it.
        unit: `version` or `timestamp`.
        expression: SQL of the value.
    """

    table: Token
    start: int
    stop: int
    unit: str
    expression: str


def tokens(query: str) -> list[Token]:
    """The tokens of a question, without its comments."""
    import duckdb

    data = query.encode()
    found = duckdb.tokenize(query)
    stops = [start for start, _ in found[1:]] + [len(data)]
    pieces = [(start, data[start:stop].decode().rstrip(), kind.name) for (start, kind), stop in zip(found, stops, strict=True)]
    return [Token(start, start + len(text.encode()), kind, text) for start, text, kind in pieces if text and kind != "comment"]


def clauses(query: str) -> Iterator[Clause]:
    """The AT clauses of a question, in order.

    Raises:
        UsageError: One is not complete.
    """
    found = tokens(query)
    for i in range(1, len(found) - 3):
        at, opening, unit, arrow = found[i : i + 4]
        if (at.kind, at.text.lower(), opening.text) != ("keyword", "at", "(") or unit.text.lower() not in UNITS or arrow.text != "=>":
            continue
        closing = _closing(found, i + 1)
        expression = query.encode()[arrow.stop : closing.start].decode().strip()
        yield Clause(_table(found, i), at.start, closing.stop, unit.text.lower(), expression)


def _closing(found: Sequence[Token], opening: int) -> Token:
    """The parenthesis that closes the one at `opening`."""
    depth = 0
    for token in found[opening:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return token
    raise UsageError("an AT clause has no end", where="sql", fix=SHAPE)


def _table(found: Sequence[Token], at: int) -> Token:
    """The table's name before AT; an alias may stand between them."""
    before = found[max(at - 3, 0) : at]
    if len(before) > 2 and before[-2].text.lower() == "as":
        return before[-3]
    if len(before) > 1 and before[-2].kind == "identifier":
        return before[-2]
    return before[-1]


def rewrite(connection: Any, query: str, evaluate: Evaluate, root: Path = Path()) -> str:
    """The question with views of the versions in place of its AT clauses; the views are made on the connection.

    Args:
        connection: A connection with the views of the lake.
        query: The question.
        evaluate: Gives the text of a constant SQL expression.
        root: Folder of the project.

    Raises:
        UsageError: A clause stands after something that is no table, or its value is none.
        DataError: There is no such version.
    """
    data = query.encode()
    for clause in reversed(list(clauses(query))):
        name = _name(clause.table, root)
        value = evaluate(clause.expression)
        if value is None:
            raise UsageError(f"AT has no value: {clause.expression}", where="sql", fix=SHAPE)
        view = _add_version(connection, name, clause.unit, value, root).encode()
        data = data[: clause.table.start] + view + data[clause.table.stop : clause.start] + data[clause.stop :]
    return data.decode()


def _name(token: Token, root: Path) -> str:
    name = token.text.strip('"').lower()
    known = [*tables(root), *UNIONS]
    if name not in known:
        raise UsageError(f"AT stands after {token.text!r}, which has no versions; {did_you_mean(name, known)}", where="sql", fix=SHAPE)
    return name


def _add_version(connection: Any, name: str, unit: str, value: str, root: Path) -> str:
    """Makes the view of a version and returns its name. One SQL schema holds all that is seen at one value."""
    schema = f"{unit} {value}"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    parts = [part for part in UNIONS.get(name, (name,)) if part in tables(root)]
    found = _at_version(name, parts, value, root) if unit == "version" else _at_time(name, parts, value, root)
    for snapshot in found:
        add_view(connection, snapshot.table, snapshot.dataset(), schema)
    if name in UNIONS:
        add_union(connection, name, [snapshot.table for snapshot in found], schema)
    return f"{quoted(schema)}.{quoted(name)}"


def _at_version(name: str, parts: Sequence[str], version: str, root: Path) -> list[Snapshot]:
    if name in UNIONS and version != "current":
        tagged = read_tags(root).get(version, {})
        if not tagged:
            fix = f"give a tag or a TIMESTAMP, or ask one of {', '.join(parts)}"
            raise DataError(f"{version!r} is no tag, and {name!r} joins tables that have each their own versions", where="sql", fix=fix)
        parts = [part for part in parts if part in tagged] or parts
    return [resolve(part, version, root) for part in parts]


def _at_time(name: str, parts: Sequence[str], text: str, root: Path) -> list[Snapshot]:
    """What the tables held at a time; those that were not there yet are left out."""
    when = _moment(text)
    found = [snapshot for part in parts if (snapshot := as_of(part, when, root))]
    if not found:
        fix = "`dataplane snapshot list` shows the versions and their times"
        raise DataError(f"{name!r} had no version at {when.isoformat(' ')}", where="sql", fix=fix)
    return found


def _moment(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time", where="sql", fix=SHAPE) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def as_of(table: str, when: datetime, root: Path = Path()) -> Snapshot | None:
    """The version that a table had at a time, None where it was not there yet.

    A version that came back after another counts from the run that wrote it again; a `dvc checkout` leaves no trace.
    """
    rows = {version.digest: version.rows for version in open_store(root).versions(table)}
    moments = [(datetime.fromisoformat(version.created_at), version.digest) for version in open_store(root).versions(table)]
    moments += [(ended_at(record), record["outputs"][table]) for record in read_records(root) if record["outputs"].get(table) in rows]
    past = [moment for moment in moments if moment[0] <= when]
    if not past:
        return None
    digest = max(past)[1]
    return Snapshot(table, digest, rows[digest], root)
