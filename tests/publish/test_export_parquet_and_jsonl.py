"""Parquet and JSON lines, read again by `datasets`, pandas and orjson, and compared with the lake's rows."""

import gzip
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dataplane.publish.export import Options, export
from dataplane.publish.rows import Request
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import DOCUMENTS, IDS, MIXTURE


def plain(value: Any) -> Any:
    """A value that equals itself: NaN is text."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def same(rows: Any) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def in_training_order() -> list[dict[str, Any]]:
    by_id = {row["doc_id"]: row for row in DOCUMENTS.to_pylist()}
    return [by_id[doc_id] for doc_id in MIXTURE]


def load(folder: Path, tmp_path: Path, **more: Any) -> Any:
    from datasets import load_dataset

    return load_dataset(**more, cache_dir=str(tmp_path / "cache"))


@pytest.mark.parametrize(("select", "expected"), [("all", DOCUMENTS.to_pylist()), ("mixture", in_training_order())])
def test_datasets_reads_the_parquet_files_as_the_lake_has_them(
    lake: dict[str, Snapshot], tmp_path: Path, select: str, expected: list[dict[str, Any]]
) -> None:
    export(Request("documents", select), "parquet", Path("out"), Options())
    found = load(Path("out"), tmp_path, path="parquet", data_files="out/data/*.parquet", split="train")
    assert same(found) == same(expected)


@pytest.mark.parametrize(("table", "select", "split"), [("packed", "", "train"), ("tokens", "held_out", "validation")])
def test_datasets_reads_the_folder_by_its_card(lake: dict[str, Snapshot], tmp_path: Path, table: str, select: str, split: str) -> None:
    export(Request(table, select), "parquet", Path("out"), Options())
    found = load(Path("out"), tmp_path, path="out")
    rows = lake[table].to_table().to_pylist()
    assert {name: list(rows) for name, rows in found.items()} == {split: rows if table == "packed" else [rows[4]]}


def test_shards_end_where_they_are_full_and_are_numbered_by_how_many_there_are(lake: dict[str, Snapshot], put: Any) -> None:
    keys = [hashlib.sha256(bytes([i // 256, i % 256])).hexdigest() for i in range(5000)]
    rows = pa.record_batch({"key": keys, "n": range(5000)})
    put("many", rows)
    record = export(Request("many"), "parquet", Path("out"), Options(shard_bytes=50_000))  # 1024 rows take over 32 bytes each
    names = [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]
    assert list(record["files"]) == names
    tables = [pq.read_table(Path("out", name)) for name in names]
    assert [table.num_rows for table in tables] == [2048, 2048, 904]
    assert pa.concat_tables(tables).to_pylist() == rows.to_pylist()


def test_a_table_without_rows_keeps_its_columns(lake: dict[str, Snapshot], put: Any) -> None:
    put("none", DOCUMENTS.slice(0, 0))
    assert export(Request("none"), "parquet", Path("out"), Options())["rows"] == 0
    table = pq.read_table("out/data/train-00000-of-00001.parquet")
    assert (table.num_rows, table.schema.names) == (0, DOCUMENTS.schema.names)


READ: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "gz": gzip.decompress,
    "zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data).read(),
}
SUFFIX = {"none": "", "gz": ".gz", "zst": ".zst"}


def finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with null for the numbers that JSON has not."""
    return [{k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()} for row in rows]


@pytest.mark.parametrize("compression", ["none", "gz", "zst"])
def test_orjson_reads_each_line_as_a_row_with_null_for_what_json_cannot_say(lake: dict[str, Snapshot], compression: str) -> None:
    export(Request("documents", "mixture"), "jsonl", Path("out"), Options(compression=compression))
    data = READ[compression](Path(f"out/data/train-00000-of-00001.jsonl{SUFFIX[compression]}").read_bytes())
    assert [orjson.loads(line) for line in data.split(b"\n")[:-1]] == finite(in_training_order())


def test_pandas_reads_the_lines(lake: dict[str, Snapshot]) -> None:
    export(Request("documents", "all", columns=("doc_id", "text", "n_bytes")), "jsonl", Path("out"), Options(compression="gz"))
    found = pd.read_json("out/data/train-00000-of-00001.jsonl.gz", lines=True, dtype=False)
    assert found.to_dict("records") == DOCUMENTS.select(["doc_id", "text", "n_bytes"]).to_pylist()


def test_lists_structs_times_and_bytes_have_a_form_in_json(lake: dict[str, Snapshot], put: Any) -> None:
    moment = pa.array([0], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"when": moment, "data": pa.array([b"\xff\x00"]), "nested": [{"list": [1.5, float("nan")]}]})
    put("odd", rows)
    export(Request("odd"), "jsonl", Path("out"), Options())
    expected = b'{"when": "1970-01-01T00:00:00+00:00", "data": "/wA=", "nested": {"list": [1.5, null]}}\n'
    assert Path("out/data/train-00000-of-00001.jsonl").read_bytes() == expected


def test_lines_are_cut_into_shards_between_rows(lake: dict[str, Snapshot], put: Any) -> None:
    put("many", pa.record_batch({"n": range(5000)}))
    record = export(Request("many"), "jsonl", Path("out"), Options(shard_bytes=20_000))
    lines = [Path("out", name).read_text().splitlines() for name in record["files"]]
    assert [len(shard) for shard in lines] == [2048, 2048, 904]
    assert [orjson.loads(line)["n"] for shard in lines for line in shard] == list(range(5000))


def test_one_id_is_held_out_and_published_as_validation(lake: dict[str, Snapshot]) -> None:
    record = export(Request("documents", "held_out"), "jsonl", Path("out"), Options())
    assert (record["rows"], list(record["files"])) == (1, ["data/validation-00000-of-00001.jsonl"])
    assert orjson.loads(Path("out/data/validation-00000-of-00001.jsonl").read_bytes())["doc_id"] == IDS[4]
