"""The lake from Python: every form of a snapshot holds the same rows, and the package loads what is heavy on first use."""

import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dataplane
from dataplane.api import OpenSnapshot
from dataplane.errors import DataError, EnvironmentFault, UsageError
from dataplane.snapshot import Snapshot, commit_parts, write_part

SCHEMA = pa.schema([
    ("doc_id", pa.string()), ("text", pa.large_string()), ("n", pa.int64()), ("language__score", pa.float32()),
    ("payload", pa.large_binary()),
    ("at", pa.timestamp("us", tz="UTC")), ("ids", pa.large_list(pa.int32())), ("spans", pa.list_(pa.struct([("doc_id", pa.string())]))),
])  # fmt: skip


def rows(n: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "doc_id": f"d{i}", "text": None if i % 5 == 0 else f"text {i} 中文", "n": i, "language__score": i / 7,
                "payload": bytes([i]), "at": i * 10**6, "ids": list(range(i % 3)), "spans": [{"doc_id": "x"}] * (i % 2),
            }
            for i in range(n)
        ],
        schema=SCHEMA,
    )  # fmt: skip


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two versions of `documents`: 20 rows, tagged v1, and 30 rows; 3 fragments each."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    old, _ = write(tmp_path, rows(20)), write(tmp_path, rows(30))
    (tmp_path / "snapshots.yaml").write_text(f"v1:\n  documents: {old.digest}\n")
    return tmp_path


def write(root: Path, table: pa.Table) -> Snapshot:
    parts = [write_part("documents", SCHEMA, table.slice(start, 11).to_batches(), root) for start in range(0, table.num_rows, 11)]
    return commit_parts("documents", SCHEMA, parts, root)


def opened(root: Path, at: str = "current") -> OpenSnapshot:
    return dataplane.open_snapshot("documents", at=at, root=root)


@pytest.mark.parametrize(("at", "n"), [("current", 30), ("v1", 20)])
def test_every_form_holds_the_rows_of_its_version(root: Path, at: str, n: int) -> None:
    snapshot, expected = opened(root, at), rows(n)
    assert snapshot.arrow().equals(expected)
    assert pa.Table.from_batches(snapshot.batches(batch_size=7), schema=SCHEMA).equals(expected)
    assert snapshot.polars().collect().equals(polars.DataFrame(expected))
    assert snapshot.dataset().data.table.cast(SCHEMA).equals(expected)
    assert snapshot.dataset()[:] == expected.to_pydict() | {"at": snapshot.dataset()["at"][:]}
    flat = snapshot.duckdb.select("* EXCLUDE (language), language.score AS language__score").to_arrow_table()
    assert flat.select(SCHEMA.names).cast(SCHEMA).equals(expected)


def test_columns_and_rows_are_chosen_in_every_form(root: Path) -> None:
    snapshot, columns, among = opened(root), ["n", "doc_id"], {"doc_id": ["d3", "d21", "none"], "n": [3, 4, 21]}
    expected = rows(30).filter(pc.field("n").isin([3, 21])).select(columns)
    assert snapshot.arrow(columns, among).equals(expected)
    assert pa.Table.from_batches(snapshot.batches(columns, among)).equals(expected)
    assert snapshot.polars(columns, among).collect().equals(polars.DataFrame(expected))
    assert snapshot.dataset(columns, among).data.table.equals(expected.cast(snapshot.dataset(columns, among).data.table.schema))


def test_a_frame_is_lazy(root: Path) -> None:
    lazy = opened(root).polars().filter(polars.col("n") > 26).select("doc_id")
    assert lazy.collect().to_dict(as_series=False) == {"doc_id": ["d27", "d28", "d29"]}


def test_a_data_set_is_written_once_and_mapped(root: Path) -> None:
    first = opened(root).dataset()
    (file,) = {Path(entry["filename"]) for entry in first.cache_files}
    before = file.stat().st_mtime_ns
    again = opened(root).dataset()
    assert (again[3], file.stat().st_mtime_ns) == (first[3], before)
    assert [path.name for path in (root / "cache" / "terraplane").iterdir()] == [file.name]


@pytest.mark.parametrize(("method", "package"), [("polars", "polars"), ("dataset", "datasets")])
def test_a_package_that_is_not_installed_is_named_with_its_fix(
    root: Path, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvironmentFault, match=rf"{package} is not installed(.|\n)*fix: pip install {package}"):
        getattr(opened(root), method)()


def test_a_version_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(DataError, match="'v2' is no version of 'documents'; known: v1"):
        opened(root, "v2")


def test_a_connection_is_duckdbs_own_and_locked_down(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    connection = dataplane.connect()
    assert type(connection) is duckdb.DuckDBPyConnection
    assert connection.sql("SELECT sum(n), max(language.score) > 4 FROM documents").fetchall() == [(435, True)]
    before = sorted(root.rglob("*"))
    for query in ("COPY documents TO 'out.csv'", "FROM 'settings.yaml'", "SET enable_external_access = true", "ATTACH 'x.db'"):
        with pytest.raises(duckdb.Error):
            connection.execute(query)
    assert sorted(root.rglob("*")) == before


def test_a_connection_with_a_timeout_answers_and_is_cut(root: Path) -> None:
    connection = dataplane.connect(root, timeout=0.3)
    assert connection.sql("SELECT count(*) FROM documents").fetchall() == [(30,)]
    with pytest.raises(DataError, match=r"cut after 0\.3 s"):
        connection.sql("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7").fetchall()


def test_a_connection_has_a_memory_limit(root: Path) -> None:
    assert dataplane.connect(root, memory="100MiB").sql("SELECT current_setting('memory_limit')").fetchall() == [("100.0 MiB",)]
    with pytest.raises(UsageError, match="no amount of memory"):
        dataplane.connect(root, memory="-1")


def test_sql_answers_as_the_command_does(root: Path) -> None:
    assert dataplane.sql("SELECT count(*) AS n FROM documents AT (VERSION => 'v1')", root).to_pylist() == [{"n": 20}]
    with pytest.raises(UsageError, match="only one reading statement"):
        dataplane.sql("CREATE TABLE t AS SELECT 1", root)


def test_importing_the_package_loads_no_database() -> None:
    code = "import sys, dataplane; print([m for m in ('duckdb', 'lance', 'pyarrow.dataset', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_public_names_are_there() -> None:
    assert [name for name in dataplane.__all__ if getattr(dataplane, name) is None] == []
    with pytest.raises(AttributeError, match="'dataplane' has no attribute 'nothing'"):
        _ = dataplane.nothing
