"""MDS shards, read by streaming.StreamingDataset in an environment of its own, and by a reader written from the layout."""

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataplane.errors import DataError, UsageError
from dataplane.publish.export import Options, export
from dataplane.publish.export_mds import write
from dataplane.publish.rows import Request, open_rows
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import DOCUMENTS, IDS, MIXTURE, sequences, token_lists

ROOT = Path(__file__).parents[2]


@pytest.fixture
def oracle() -> Any:
    """Calls mosaicml-streaming: oracle("read" | "write", folder, request) gives what it prints."""
    python = Path(os.environ.get("TERRAPLANE_STREAMING_PYTHON", ROOT / ".venv-streaming" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"no {python}: `make streaming` makes it (mosaicml-streaming cannot be installed beside transformers 5)")

    def call(what: str, folder: Path, request: Any = None) -> str:
        command = [str(python), str(Path(__file__).with_name("streaming_oracle.py")), what, str(folder)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def decoded(encoding: str, data: bytes) -> Any:
    if encoding == "str":
        return data.decode()
    if encoding == "bytes":
        return data.decode("latin-1")
    if not encoding.startswith("ndarray"):
        return np.frombuffer(data, {"int": "<i8"}.get(encoding, encoding))[0].item()
    _, dtype, *shape = encoding.split(":")
    if not shape:  # a byte: number of axes << 2 | log2 of the bytes of the length; then the length
        width = 1 << (data[0] & 3)
        assert (data[0] >> 2, int.from_bytes(data[1 : 1 + width], "little") * np.dtype(dtype).itemsize) == (1, len(data) - 1 - width)
        data = data[1 + width :]
    return np.frombuffer(data, dtype).tolist()


def read_by_layout(folder: Path) -> list[dict[str, Any]]:
    """The samples, by the layout of the format alone."""
    samples = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert (len(data), shard["samples"]) == (shard["raw_data"]["bytes"], np.frombuffer(data, "<u4", 1)[0])
        starts = np.frombuffer(data, "<u4", shard["samples"] + 1, 4).tolist()
        for start, stop in pairwise(starts):
            sizes = np.frombuffer(data, "<u4", shard["column_sizes"].count(None), start).tolist()
            at, sample = start + 4 * len(sizes), {}
            for name, encoding, size in zip(shard["column_names"], shard["column_encodings"], shard["column_sizes"], strict=True):
                width = size if size is not None else sizes.pop(0)
                sample[name] = decoded(encoding, data[at : at + width])
                at += width
            assert at == stop
            samples.append(sample)
    return samples


def expected(table: str) -> list[dict[str, Any]]:
    tokens = token_lists()
    if table == "tokens":
        return [{"doc_id": doc_id, "input_ids": tokens[doc_id]} for doc_id in MIXTURE]
    if table == "packed":
        return [{"seq_id": i, "input_ids": sequence} for i, sequence in enumerate(sequences())]
    return DOCUMENTS.slice(0, 5).select(["doc_id", "source", "text"]).to_pylist()


@pytest.mark.parametrize("table", ["documents", "tokens", "packed"])
def test_the_shards_hold_every_row(lake: dict[str, Snapshot], table: str) -> None:
    export(Request(table), "mds", Path("out"), Options())
    assert read_by_layout(Path("out")) == expected(table)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["documents", "tokens", "packed"])
def test_streaming_dataset_reads_every_row(lake: dict[str, Snapshot], oracle: Any, table: str) -> None:
    export(Request(table), "mds", Path("out"), Options())
    assert json.loads(oracle("read", Path("out"))) == expected(table)


def numbers(n: int) -> pa.RecordBatch:
    """Rows of each type that has an encoding, in columns that are not in the order of their names."""
    rng = np.random.default_rng(n)
    return pa.record_batch({
        "text": [f"文字 {i}" * (i % 7) for i in range(n)],
        "lists": [rng.integers(0, 1 << 30, 1 + i % 300).tolist() for i in range(n)],
        "i64": pa.array(range(n), pa.int64()), "i32": pa.array(range(n), pa.int32()),
        "f32": pa.array([i / 4 for i in range(n)], pa.float32()), "f64": pa.array([i / 3 for i in range(n)], pa.float64()),
        "fixed": pa.array([[i, i + 1, i + 2] for i in range(n)], pa.list_(pa.int32(), 3)),
    }, schema=pa.schema([
        ("text", pa.string()), ("lists", pa.list_(pa.int32())), ("i64", pa.int64()), ("i32", pa.int32()), ("f32", pa.float32()),
        ("f64", pa.float64()), ("fixed", pa.list_(pa.int32(), 3)),
    ]))  # fmt: skip


@pytest.mark.slow
def test_the_files_are_byte_for_byte_those_of_mdswriter(project: Path, put: Any, oracle: Any) -> None:
    rows = numbers(1000)
    put("numbers", rows)
    Path("ours").mkdir()
    write(open_rows(Request("numbers")), Path("ours"), shard_bytes=50_000)
    columns = {"text": "str", "lists": "ndarray:int32", "fixed": "ndarray:int32:3"}
    columns |= {"i64": "int", "i32": "int32", "f32": "float32", "f64": "float64"}
    oracle("write", Path("theirs"), {"columns": columns, "size_limit": 50_000, "samples": rows.to_pylist()})
    names = sorted(path.name for path in Path("theirs").iterdir())
    assert (len(names), sorted(path.name for path in Path("ours").iterdir())) == (15, names)
    assert [Path("ours", name).read_bytes() for name in names] == [Path("theirs", name).read_bytes() for name in names]


def test_a_shard_is_no_larger_than_asked(project: Path, put: Any) -> None:
    rows = numbers(1000)
    put("numbers", rows)
    write(open_rows(Request("numbers")), project, shard_bytes=50_000)
    sizes = [path.stat().st_size for path in sorted(project.glob("shard.*.mds"))]
    assert (max(sizes) <= 50_000, min(sizes[:-1]) > 48_000) == (True, True)
    assert read_by_layout(project) == [dict(sorted(row.items())) for row in rows.to_pylist()]


def test_nulls_and_types_without_an_encoding_are_refused_by_name(lake: dict[str, Snapshot]) -> None:
    with pytest.raises(DataError, match="'url' is null in 5 of 6 rows, and MDS has no null"):
        export(Request("documents", "all", columns=("doc_id", "url")), "mds", Path("out"), Options())
    with pytest.raises(UsageError, match="MDS has no encoding for 'spans'"):
        export(Request("packed", columns=("spans",)), "mds", Path("out"), Options())


def test_the_order_of_the_mixture_is_kept(lake: dict[str, Snapshot]) -> None:
    export(Request("documents", "mixture", columns=("doc_id",)), "mds", Path("out"), Options())
    assert [row["doc_id"] for row in read_by_layout(Path("out"))] == MIXTURE
    assert len(set(MIXTURE)) < len(MIXTURE) < len(IDS)
