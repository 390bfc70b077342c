"""SQL over the lake: views with packed signals, and no way to write or to read anything else."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.errors import UsageError
from dataplane.lake.sql import answering, ask, connect
from dataplane.snapshot import commit_parts, write_part


def put(root: Path, table: str, rows: pa.RecordBatch) -> None:
    commit_parts(table, rows.schema, [write_part(table, rows.schema, [rows], root)], root)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    put(tmp_path, "documents", pa.record_batch({
        "doc_id": ["a", "b", "c"], "source": ["web", "web", "books"],
        "language__lang": ["en", "zh", "en"], "language__score": pa.array([0.9, 0.8, 0.3], pa.float32()),
        "text_signals__n_words": [10, 200, 30],
    }))  # fmt: skip
    put(tmp_path, "clean_decisions", pa.record_batch({"doc_id": ["x"], "reason": ["too_short"]}))
    put(tmp_path, "select_decisions", pa.record_batch({"doc_id": ["a"], "reason": ["low_confidence"]}))
    return tmp_path


def test_signals_are_shown_as_operator_dot_signal(lake: Path) -> None:
    table = ask(connect(lake), "SELECT doc_id, language.lang FROM documents WHERE text_signals.n_words > 20 ORDER BY doc_id")
    assert table.to_pylist() == [{"doc_id": "b", "lang": "zh"}, {"doc_id": "c", "lang": "en"}]


def test_a_view_joins_what_several_stages_wrote(lake: Path) -> None:
    table = ask(connect(lake), "SELECT * FROM decisions ORDER BY doc_id")
    assert table.to_pylist() == [{"doc_id": "a", "reason": "low_confidence"}, {"doc_id": "x", "reason": "too_short"}]


def test_snapshots_lists_every_table(lake: Path) -> None:
    table = ask(connect(lake), 'SELECT "table", rows FROM snapshots ORDER BY 1')
    assert table.to_pylist() == [
        {"table": "clean_decisions", "rows": 1},
        {"table": "documents", "rows": 3},
        {"table": "select_decisions", "rows": 1},
    ]


REFUSED = {
    "copy_to_csv": "COPY documents TO 'out.csv'",
    "copy_to_parquet": "COPY (SELECT 1) TO 'out.parquet'",
    "copy_to_stdout": "COPY documents TO '/dev/stdout'",
    "copy_from": "COPY documents FROM 'secret.csv'",
    "export": "EXPORT DATABASE 'out'",
    "import": "IMPORT DATABASE 'out'",
    "attach": "ATTACH 'other.db'",
    "attach_in_memory": "ATTACH ':memory:' AS other",
    "detach": "DETACH memory",
    "use": "USE temp",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "update_extensions": "UPDATE EXTENSIONS",
    "set": "SET enable_external_access = true",
    "set_variable": "SET VARIABLE x = 1",
    "reset": "RESET memory_limit",
    "pragma": "PRAGMA enable_profiling",
    "pragma_setting": "PRAGMA memory_limit = '10GB'",
    "call": "CALL enable_logging()",
    "logging_to_a_file": "FROM enable_logging(storage = 'file', storage_path = 'log')",
    "profiling_to_a_file": "FROM enable_profiling(format = 'json', save_location = 'profile.json')",
    "create_table": "CREATE TABLE t AS SELECT 1",
    "create_temporary_table": "CREATE TEMP TABLE t AS SELECT 1",
    "create_view": "CREATE VIEW v AS SELECT 1",
    "create_macro": "CREATE MACRO m() AS 1",
    "create_secret": "CREATE SECRET (TYPE s3)",
    "insert": "INSERT INTO documents VALUES (1)",
    "insert_in_with": "WITH t AS (INSERT INTO documents VALUES (1)) FROM t",
    "update": "UPDATE documents SET source = 'x'",
    "delete": "DELETE FROM documents",
    "merge": "MERGE INTO documents USING clean_decisions ON true WHEN MATCHED THEN DELETE",
    "drop": "DROP VIEW documents",
    "alter": "ALTER VIEW documents RENAME TO d",
    "begin": "BEGIN",
    "prepare": "PREPARE q AS SELECT 1",
    "execute": "EXECUTE q",
    "vacuum": "VACUUM",
    "checkpoint": "CHECKPOINT",
    "explain_analyze_copy": "EXPLAIN ANALYZE COPY documents TO 'out.csv'",
    "explain_analyze_create": "EXPLAIN (ANALYZE) CREATE TEMP TABLE t AS SELECT 1",
    "read_text": "FROM read_text('secret.csv')",
    "read_blob": "FROM read_blob('secret.csv')",
    "read_csv": "FROM read_csv('secret.csv')",
    "read_json": "FROM read_json('secret.csv')",
    "read_parquet": "FROM read_parquet('secret.parquet')",
    "parquet_scan": "FROM parquet_scan('secret.parquet')",
    "parquet_metadata": "FROM parquet_metadata('secret.parquet')",
    "read_duckdb": "FROM read_duckdb('secret.db')",
    "sniff_csv": "FROM sniff_csv('secret.csv')",
    "glob": "FROM glob('*')",
    "file_as_table": "FROM 'secret.csv'",
    "file_by_query_table": "FROM query_table('secret.csv')",
    "http": "FROM 'https://example.org/x.csv'",
    "s3": "FROM read_parquet('s3://bucket/x.parquet')",
    "write_in_query": "FROM query('COPY documents TO ''out.csv''')",
    "environment": "SELECT getenv('HOME')",
    "python_variable": "FROM python_rows",
    "pointer": "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "two_statements": "SELECT 1; SELECT 2",
    "write_after_read": "SELECT 1; COPY documents TO 'out.csv'",
    "pivot_without_values": "PIVOT documents ON source",
    "no_sql": "SELEKT 1",
    "nothing": "",
    "only_a_comment": "-- SELECT 1",
    "only_explain": "EXPLAIN",
    "unknown_column": "SELECT nothing FROM documents",
}


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_refused(lake: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    python_rows = pa.table({"a": [1]})
    monkeypatch.chdir(lake)
    Path("secret.csv").write_text("a,b\n1,2\n")
    pq.write_table(python_rows, "secret.parquet")
    connection, before = connect(lake), everything_below(lake)
    with pytest.raises(UsageError) as error:
        ask(connection, query)
    assert error.value.exit_code == 2
    assert everything_below(lake) == before
    assert ask(connection, "SELECT count(*) AS n FROM documents").to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("query", ["COPY documents TO 'out.csv'", "SET enable_external_access = true", "FROM 'secret.csv'"])
def test_the_bare_connection_reaches_no_file_either(lake: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.chdir(lake)
    Path("secret.csv").write_text("a,b\n1,2\n")
    before = everything_below(lake)
    with pytest.raises(duckdb.Error, match=r"disabled by configuration|configuration has been locked"):
        connect(lake).execute(query)
    assert everything_below(lake) == before


def test_an_answer_may_be_left_unread(lake: Path) -> None:
    connection = connect(lake)
    with answering(connection, "FROM range(1000000)") as answer:
        assert next(answer.batches).num_rows > 0
    assert ask(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("query", ["SHOW TABLES", "DESCRIBE documents", "SUMMARIZE documents", "FROM documents", "EXPLAIN FROM documents"])
def test_reading_statements_of_other_kinds_are_answered(lake: Path, query: str) -> None:
    assert ask(connect(lake), query).num_rows > 0


def test_a_pivot_that_names_its_values_is_answered(lake: Path) -> None:
    table = ask(connect(lake), "PIVOT (SELECT source FROM documents) ON source IN ('web', 'books') USING count(*)")
    assert table.to_pylist() == [{"web": 2, "books": 1}]


def test_times_are_in_utc_whatever_the_machine_says(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert ask(connect(lake), "SELECT TIMESTAMPTZ '2026-12-01 10:00'::VARCHAR AS t").to_pylist() == [{"t": "2026-12-01 10:00:00+00"}]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n > 1", ["b", "c"]),
        ("n > 1 AND m < 3", ["b"]),
        ("n IN (1, 3) OR m = 2", ["a", "b", "c"]),
        ("doc_id = 'b'", ["b"]),
        ("doc_id LIKE 'c%'", ["c"]),
        ("len(ids) = 2 AND n > 1", ["b"]),
        ("n = (SELECT max(n) FROM tokens)", ["c"]),
        ("false", []),
    ],
)
@pytest.mark.parametrize("stored_as", ["lance", "parquet"])
def test_a_table_with_large_lists_is_filtered(tmp_path: Path, stored_as: str, where: str, expected: list[str]) -> None:
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {stored_as}\n")
    ids = pa.array([[1], [2, 3], []], pa.large_list(pa.int32()))
    put(tmp_path, "tokens", pa.record_batch({"doc_id": ["a", "b", "c"], "n": [1, 2, 3], "m": [1, 2, 3], "ids": ids}))
    connection = connect(tmp_path)
    assert [row["doc_id"] for row in ask(connection, f"SELECT doc_id FROM tokens WHERE {where} ORDER BY 1").to_pylist()] == expected
    assert ask(connection, f"SELECT count(*) AS n FROM tokens WHERE {where}").to_pylist() == [{"n": len(expected)}]
    assert sorted(ask(connection, f"FROM tokens WHERE {where}").column("doc_id").to_pylist()) == expected
