"""stats summarises any version of a table, and documents with their tokens and duplicates."""

import json
import statistics
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.errors import DataError, UsageError
from dataplane.lineage.stats import overview, stats
from dataplane.snapshot import Snapshot
from tests.lineage.random_documents import CODES, documents, write_params

N = 50


@pytest.fixture(params=["lance", "parquet"])
def lake(project: Path, put, request: pytest.FixtureRequest) -> Path:
    (project / "settings.yaml").write_text(f"lake: {{format: {request.param}}}\n")
    write_params(project)
    put("documents", documents(project, N))
    put("documents", documents(project, N - 10))
    return project


def column(found: dict, name: str) -> dict:
    return next(row for row in found["columns"] if row["column_name"] == name)


def test_columns_are_summarised_without_the_text(lake: Path) -> None:
    found, rows = stats("documents"), documents(lake, N - 10).to_pylist()
    size = [row["n_bytes"] for row in rows]
    summary = column(found, "n_bytes")
    assert [summary[name] for name in ("column_type", "min", "max", "count")] == ["BIGINT", str(min(size)), str(max(size)), len(size)]
    assert float(summary["avg"]) == pytest.approx(statistics.mean(size))
    nulls = sum(row["language__score"] is None for row in rows)
    assert float(column(found, "language__score")["null_percentage"]) == pytest.approx(100 * nulls / len(rows), abs=0.01)
    names = Snapshot.load("documents").schema.names
    assert [row["column_name"] for row in found["columns"]] == [name for name in names if name != "text"]
    assert [row["column_name"] for row in stats("documents", huge=True)["columns"]] == names


def test_rows_and_bytes_are_those_of_the_version(lake: Path) -> None:
    (now,) = overview()
    folder = Path(Snapshot.load("documents").uri, "data")
    assert (now["table"], now["rows"]) == ("documents", N - 10)
    assert 0 < now["bytes"] < sum(path.stat().st_size for path in folder.iterdir())


def test_an_older_version_is_found_by_digest_and_by_tag(lake: Path, put) -> None:
    old = put("documents", documents(lake, N))
    put("documents", documents(lake, 7))
    (lake / "snapshots.yaml").write_text(f"v1: {{documents: {old.digest}}}\n")
    versions = [stats("documents", at=at) for at in ("v1", old.digest[:8], "current")]
    assert [(found["digest"] == old.digest, found["rows"]) for found in versions] == [(True, N), (True, N), (False, 7)]
    with pytest.raises(DataError, match="'v2' is no version of 'documents'"):
        stats("documents", at="v2")


def test_tokens_are_summed_by_source_and_language(lake: Path, put) -> None:
    rows = documents(lake, N - 10).to_pylist()
    tokens = {row["doc_id"]: i + 1 for i, row in enumerate(rows) if i % 3}
    columns = {"doc_id": list(tokens), "n_tokens": list(tokens.values()), "n_words": [1] * len(tokens), "input_ids": [[1]] * len(tokens)}
    put("tokens", pa.table(columns, schema=schema.TOKENS))
    found = stats("documents")
    for name, key in (("source", "source"), ("language", "language__lang")):
        expected = {}
        for row in rows:
            if row["doc_id"] in tokens:
                documents_, size, count = expected.get(row[key], (0, 0, 0))
                expected[row[key]] = (documents_ + 1, size + row["n_bytes"], count + tokens[row["doc_id"]])
        assert {row[name]: (row["documents"], row["bytes"], row["tokens"]) for row in found[f"tokens_by_{name}"]} == expected
        assert [row["bytes_per_token"] for row in found[f"tokens_by_{name}"]] == [
            pytest.approx(row["bytes"] / row["tokens"]) for row in found[f"tokens_by_{name}"]
        ]


def test_duplicates_are_counted_by_cluster(lake: Path, put) -> None:
    def row(i: int, cluster: int, kept: bool, how: str | None) -> dict:
        return {"doc_id": CODES[i], "cluster_id": CODES[cluster], "kept": kept, "representative": CODES[cluster], "how": how}

    rows = [row(0, 0, True, None), row(1, 0, False, "exact"), row(2, 0, False, "minhash"), row(3, 3, True, None), row(4, 3, False, "exact")]
    put("duplicates", pa.Table.from_pylist(rows, schema=schema.DUPLICATES))
    assert stats("documents")["duplicates"] == {
        "clusters": 2,
        "dropped": {"exact": 2, "minhash": 1},
        "largest": [
            {"cluster_id": CODES[0], "representative": CODES[0], "documents": 3},
            {"cluster_id": CODES[3], "representative": CODES[3], "documents": 2},
        ],
    }


def test_nested_columns_and_empty_tables_are_summarised(project: Path, put) -> None:
    put("packed", pa.Table.from_pylist([{"seq_id": 1, "n_tokens": 4, "input_ids": [1, 2, 3, 4], "spans": []}], schema=schema.packed(4)))
    put("mixture", schema.MIXTURE.empty_table())
    assert [row["column_name"] for row in stats("packed")["columns"]] == ["seq_id", "n_tokens", "spans"]
    assert {row["count"] for row in stats("mixture")["columns"]} == {0}


def test_an_unknown_table_is_named(lake: Path) -> None:
    with pytest.raises(UsageError, match="no table 'document', did you mean 'documents'"):
        stats("document")


def test_the_command_prints_json_and_tables(lake: Path) -> None:
    runner = CliRunner()
    assert json.loads(runner.invoke(main, ["stats", "--json"]).stdout) == overview()
    found = json.loads(runner.invoke(main, ["stats", "documents", "--json"]).stdout)
    assert found == json.loads(json.dumps(stats("documents"), default=str))
    page = runner.invoke(main, ["stats", "documents"])
    assert [page.exit_code, "n_bytes" in page.stdout] == [0, True]
