"""AT: a question sees an older version of a table by tag, digest or time, and what only looks like the clause is left alone."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.errors import DataError, UsageError
from dataplane.lake.at import as_of, clauses
from dataplane.lake.sql import ask, connect
from dataplane.snapshot import Snapshot, commit_parts, open_store, write_part

START = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)


def write(root: Path, table: str, rows: pa.RecordBatch) -> Snapshot:
    return commit_parts(table, rows.schema, [write_part(table, rows.schema, [rows], root)], root)


def documents(root: Path, *ids: str) -> Snapshot:
    rows = pa.record_batch({"doc_id": list(ids), "language__lang": ["en"] * len(ids)})
    return write(root, "documents", rows)


def decisions(root: Path, stage: str, *ids: str) -> Snapshot:
    return write(root, f"{stage}_decisions", pa.record_batch({"doc_id": list(ids), "stage": [stage] * len(ids)}))


def set_time(root: Path, snapshot: Snapshot, minutes: int) -> None:
    """Says when a version was committed."""
    store = open_store(root)
    path = Path(store.table_uri(snapshot.table)) / "_snapshots" / f"{snapshot.digest}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"created_at": (START + timedelta(minutes=minutes)).isoformat()}))


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Documents: a at 10:00, a and b at 10:20, a to c at 10:40. Decisions of clean since 10:00, of select since 10:30."""
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    tags: dict[str, str] = {}
    for i, ids in enumerate(["a", "ab", "abc"]):
        version = documents(tmp_path, *ids)
        set_time(tmp_path, version, 20 * i)
        tags[f"v{i}"] = version.digest
    early, late = decisions(tmp_path, "clean", "x"), decisions(tmp_path, "clean", "x", "y")
    select = decisions(tmp_path, "select", "z")
    for version, minutes in ((early, 0), (late, 30), (select, 30)):
        set_time(tmp_path, version, minutes)
    lines = [f"v{i}:\n  documents: {tags[f'v{i}']}\n" for i in range(3)]
    (tmp_path / "snapshots.yaml").write_text("".join(lines) + f"dropped:\n  clean_decisions: {early.digest}\n")
    return tmp_path


def ids(root: Path, query: str) -> list[str]:
    return sorted(ask(connect(root), query, root).column("doc_id").to_pylist())


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("AT (VERSION => 'v0')", ["a"]),
        ("AT (VERSION => 'v1')", ["a", "b"]),
        ("at(version=>'v1')", ["a", "b"]),
        ("AT /* ) */ (VERSION -- )\n => 'v' || '1')", ["a", "b"]),
        ("AT (VERSION => ('v0'))", ["a"]),
        ("AT (VERSION => 'current')", ["a", "b", "c"]),
        ("AT (TIMESTAMP => '2026-12-01 10:00')", ["a"]),
        ("AT (TIMESTAMP => '2026-12-01 10:19:59.999')", ["a"]),
        ("AT (TIMESTAMP => '2026-12-01T18:20+08:00')", ["a", "b"]),
        ("AT (TIMESTAMP => TIMESTAMP '2026-12-01 10:39')", ["a", "b"]),
        ("AT (TIMESTAMP => TIMESTAMPTZ '2026-12-01 10:40+00')", ["a", "b", "c"]),
        ("AT (TIMESTAMP => DATE '2026-12-02' - INTERVAL 1 hour)", ["a", "b", "c"]),
        ("AS d AT (VERSION => 'v0')", ["a"]),
        ("d AT (VERSION => 'v0')", ["a"]),
        ("AT (VERSION => 'v0') AS d", ["a"]),
        ("AT (VERSION => 'v0') d", ["a"]),
    ],
)
def test_a_table_is_seen_at_a_version(root: Path, clause: str, expected: list[str]) -> None:
    assert ids(root, f"FROM documents {clause}") == expected
    assert ids(root, f'SELECT doc_id, language.lang FROM "documents" {clause}') == expected


def test_a_digest_or_its_start_is_a_version(root: Path) -> None:
    oldest = open_store(root).versions("documents")[0].digest
    assert [ids(root, f"FROM documents AT (VERSION => '{name}')") for name in (oldest, oldest[:6])] == [["a"], ["a"]]


def test_versions_are_joined_with_one_another(root: Path) -> None:
    query = """
        SELECT doc_id FROM documents AT (VERSION => 'v2') new ANTI JOIN documents old AT (VERSION => 'v0') USING (doc_id)
        WHERE doc_id IN (FROM documents AT (TIMESTAMP => '2026-12-01 10:20') SELECT documents.doc_id)
    """
    assert ids(root, query) == ["b"]


def test_unions_are_seen_at_a_time_or_a_tag(root: Path) -> None:
    at = {"TIMESTAMP => '2026-12-01 10:10'": ["x"], "TIMESTAMP => '2026-12-01 10:30'": ["x", "y", "z"], "VERSION => 'dropped'": ["x"]}
    assert {clause: ids(root, f"FROM decisions AT ({clause})") for clause in at} == at
    assert ids(root, "FROM decisions AT (VERSION => 'current')") == ["x", "y", "z"]


def test_a_version_that_came_back_counts_from_the_run_that_wrote_it_again(root: Path) -> None:
    again = documents(root, "a")
    record = {
        "run_id": "r", "stage": "clean", "status": "COMPLETE", "started_at": (START + timedelta(minutes=50)).isoformat(),
        "seconds": 60.0, "inputs": {}, "outputs": {"documents": again.digest}, "rows": {}, "op_ids": {}, "params": {},
    }  # fmt: skip
    (root / "lake" / "runs").mkdir()
    (root / "lake" / "runs" / "r.json").write_text(json.dumps(record))
    found = [as_of("documents", START + timedelta(minutes=minutes), root) for minutes in (-1, 0, 20, 50.9, 51)]
    assert [None if version is None else version.rows for version in found] == [None, 1, 2, 3, 1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'documents AT (VERSION => ''v0'')' AS doc_id",
        "SELECT $$documents AT (VERSION => 'v0')$$ AS doc_id",
        "SELECT 'x' AS doc_id -- documents AT (VERSION => 'v0')",
        "SELECT 'x' AS doc_id /* documents AT (VERSION => 'v0') */",
        "SELECT 'x' AS \"documents AT (VERSION => 'v0')\"",
        "SELECT TIMESTAMP '2026-12-01 10:00' AT TIME ZONE 'UTC' AS doc_id",
        "SELECT 'at (version => 1)' AS at, version FROM (SELECT 1 AS version)",
    ],
)
def test_what_only_looks_like_the_clause_is_left_alone(query: str) -> None:
    assert list(clauses(query)) == []


def test_text_in_other_scripts_before_a_clause_does_not_move_it(root: Path) -> None:
    assert ids(root, "SELECT doc_id, '中文 😀 é' AS 文 FROM documents AT (VERSION => 'v1') WHERE '中' <> 'é'") == ["a", "b"]


@pytest.mark.parametrize("query", ["EXPLAIN ANALYZE FROM documents AT (VERSION => 'v0')", "SUMMARIZE FROM documents AT (VERSION => 'v0')"])
def test_other_reading_statements_take_the_clause(root: Path, query: str) -> None:
    assert ask(connect(root), query, root).num_rows >= 1


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("FROM documents AT (VERSION => 'v9')", DataError, r"'v9' is no version of 'documents'; known: v0, v1, v2, [0-9a-f]{32}"),
        ("FROM documents AT (VERSION => '000000')", DataError, "'000000' is no version of 'documents'"),
        ("FROM documents AT (TIMESTAMP => '2026-12-01 09:59')", DataError, r"'documents' had no version at 2026-12-01 09:59:00\+00:00"),
        ("FROM decisions AT (VERSION => '000000')", DataError, "is no tag, and 'decisions' joins tables"),
        ("FROM documents AT (TIMESTAMP => 'yesterday')", UsageError, "'yesterday' is no time"),
        ("FROM documents AT (VERSION => NULL)", UsageError, "AT has no value: NULL"),
        ("FROM runs AT (VERSION => 'v0')", UsageError, "'runs', which has no versions"),
        ("FROM document AT (VERSION => 'v0')", UsageError, "did you mean 'documents'"),
        ("SELECT 1 AT (VERSION => 'v0')", UsageError, "AT stands after '1'"),
        ("FROM documents AT (VERSION => 'v0'", UsageError, "has no end"),
        ("FROM documents AT (VERSION => (FROM read_text('/etc/hostname')))", UsageError, "disabled by configuration"),
        ("FROM documents AT (VERSION => 'v0'); COPY documents TO 'x'", UsageError, "only one reading statement"),
    ],
)
def test_a_clause_that_means_no_version_is_named(root: Path, query: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(connect(root), query, root)
