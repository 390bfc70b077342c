"""SQL over the lake: views with packed signals, and no way to write or to read anything else."""

from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.errors import UsageError
from dataplane.lake.sql import ask, connect
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


@pytest.mark.parametrize(
    "query",
    [
        "COPY documents TO 'out.csv'",
        "COPY (SELECT 1) TO 'out.parquet'",
        "CREATE TABLE t AS SELECT 1",
        "INSERT INTO documents VALUES (1)",
        "DELETE FROM documents",
        "DROP VIEW documents",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('secret.csv')",
        "SELECT * FROM glob('/*')",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY documents TO 'out.csv'",
        "EXPORT DATABASE 'out'",
        "SELEKT 1",
        "",
        "SELECT nothing FROM documents",
    ],
)
def test_what_is_no_single_reading_question_is_refused_and_leaves_nothing(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    Path("secret.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError) as error:
        ask(connect(lake), query)
    assert error.value.exit_code == 2
    assert sorted(path.name for path in Path().iterdir()) == ["secret.csv"]


@pytest.mark.parametrize("query", ["SHOW TABLES", "DESCRIBE documents", "SUMMARIZE documents", "FROM documents", "EXPLAIN FROM documents"])
def test_reading_statements_of_other_kinds_are_answered(lake: Path, query: str) -> None:
    assert ask(connect(lake), query).num_rows > 0
