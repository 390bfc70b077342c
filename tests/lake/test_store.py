"""Both formats keep the same promises: order, ranges, places, filters, versions, sweeping, and equal digests."""

import itertools
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.errors import DataError
from dataplane.lake.lance import LanceStore
from dataplane.lake.parquet import ParquetStore
from dataplane.lake.store import Fragment, Store
from dataplane.snapshot import Snapshot, commit_parts, open_store, write_part

SCHEMA = pa.schema([
    ("doc_id", pa.string()), ("text", pa.large_string()), ("n", pa.int64()), ("share", pa.float32()), ("ok", pa.bool_()),
    ("ids", pa.large_list(pa.int32())), ("signature", pa.list_(pa.uint32(), 2)), ("at", pa.timestamp("us", tz="UTC")),
    ("spans", pa.list_(pa.struct([("doc_id", pa.string()), ("start", pa.int32())]))), ("payload", pa.large_binary()),
])  # fmt: skip


def row(i: int) -> dict[str, object]:
    return {
        "doc_id": f"{i:032x}", "text": None if i % 7 == 3 else f"text {i} \u4e2d\u6587\u0000" * (i % 5), "n": i, "share": i / 3,
        "ok": i % 2 == 0, "ids": list(range(i % 4)), "signature": [i, 2 * i], "at": i * 1000,
        "spans": [{"doc_id": "x", "start": i}] * (i % 3), "payload": bytes([i % 256]) * i,
    }  # fmt: skip


def batch(start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row(i) for i in range(start, stop)], schema=SCHEMA)


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    return tmp_path


def write(root: Path, *borders: int, table: str = "t") -> Snapshot:
    spans = list(itertools.pairwise(borders))
    return commit_parts(table, SCHEMA, [write_part(table, SCHEMA, [batch(*span)], root) for span in spans], root)


def test_rows_come_back_whole_and_in_order(root: Path) -> None:
    snapshot = write(root, 0, 3, 50, 51, 120)
    assert snapshot.schema.equals(SCHEMA)
    assert snapshot.to_table().to_pylist() == batch(0, 120).to_pylist()
    assert snapshot.to_table(["n", "doc_id"]).to_pydict() == {"n": list(range(120)), "doc_id": [f"{i:032x}" for i in range(120)]}


def test_any_range_of_rows_is_read(root: Path) -> None:
    snapshot = write(root, 0, 3, 50, 51, 120)
    rng = random.Random(3)
    for _ in range(40):
        offset, limit = rng.randint(0, 130), rng.choice([None, rng.randint(0, 130)])
        stop = 120 if limit is None else offset + limit
        found = [
            n for part in snapshot.batches(["n"], batch_size=rng.randint(1, 60), offset=offset, limit=limit) for n in part["n"].to_pylist()
        ]
        assert found == list(range(120))[offset:stop]


def test_rows_are_taken_by_place_in_the_order_asked(root: Path) -> None:
    snapshot = write(root, 0, 3, 50, 51, 120)
    places = [119, 0, 3, 50, 2, 51]
    assert snapshot.take(places, ["n", "text"]).to_pylist() == [{"n": i, "text": row(i)["text"]} for i in places]


def test_a_filter_keeps_what_it_says(root: Path) -> None:
    snapshot = write(root, 0, 3, 120)
    wanted = [f"{i:032x}" for i in (5, 2, 77)]
    assert snapshot.to_table(["n"], {"doc_id": wanted})["n"].to_pylist() == [2, 5, 77]
    assert snapshot.to_table(["n"], {"n": [9, 1], "doc_id": wanted[:1]})["n"].to_pylist() == []
    assert snapshot.to_table(["n"], {"n": []}).num_rows == 0


def test_both_formats_give_the_same_digest(tmp_path: Path) -> None:
    digests = set()
    for form in ("lance", "parquet"):
        root = tmp_path / form
        root.mkdir()
        (root / "settings.yaml").write_text(f"lake:\n  format: {form}\n")
        digests.add(write(root, 0, 40, 90).digest)
    assert len(digests) == 1


def test_duckdb_reads_the_relation(root: Path) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.register("t", write(root, 0, 50, 120).dataset())
    assert connection.execute("SELECT count(*), sum(n) FROM t WHERE ok").fetchall() == [(60, sum(range(0, 120, 2)))]


def test_the_books_name_each_fragment_with_its_rows_and_sum(root: Path) -> None:
    snapshot = write(root, 0, 3, 120)
    assert [fragment.rows for fragment in snapshot.fragments()] == [3, 117]
    parts = [write_part("u", SCHEMA, [batch(*span)], root)[0] for span in ((0, 3), (3, 120))]
    assert [fragment.total for fragment in snapshot.fragments()] == [part.total for part in parts]


def test_going_back_takes_the_files_of_the_older_version(root: Path) -> None:
    old = write(root, 0, 10, 20)
    new = write(root, 0, 5)
    files = {f.data for f in old.fragments()}
    again = write(root, 0, 20)
    assert (again.digest, {f.data for f in again.fragments()}) == (old.digest, files)
    store = open_store(root)
    assert [store.is_newest("t", version.digest) for version in (old, new)] == [True, False]
    assert again.to_table().num_rows == 20


def test_a_version_that_is_dropped_takes_only_its_own_files_with_it(root: Path) -> None:
    store = open_store(root)
    shared = write_part("t", SCHEMA, [batch(0, 10)], root)
    old = commit_parts("t", SCHEMA, [shared, write_part("t", SCHEMA, [batch(10, 20)], root)], root)
    new = commit_parts("t", SCHEMA, [shared, write_part("t", SCHEMA, [batch(30, 40)], root)], root)
    assert len(store.data_files("t")) == 3
    store.drop("t", [old.digest])
    assert len(store.data_files("t")) == 2
    assert [version.digest for version in store.versions("t")] == [new.digest]
    assert new.to_table()["n"].to_pylist() == [*range(10), *range(30, 40)]
    with pytest.raises(DataError, match=old.digest):
        old.to_table()


def test_orphans_go_and_in_a_shared_lake_only_old_ones(root: Path) -> None:
    snapshot = write(root, 0, 10)
    write_part("t", SCHEMA, [batch(0, 3)], root)
    kind = type(open_store(root))
    assert kind(str(root / "lake"), grace_seconds=3600.0).sweep("t") == []
    assert len(kind(str(root / "lake")).sweep("t")) == 1
    assert snapshot.to_table().num_rows == 10


def test_a_version_whose_files_are_gone_is_made_again(root: Path) -> None:
    store = open_store(root)
    lost = write(root, 0, 10)
    for name in store.data_files("t"):
        (root / "lake" / f"t.{store.suffix}" / "data" / name).unlink()
    again = write(root, 0, 10)
    assert again.digest == lost.digest
    assert again.to_table()["n"].to_pylist() == list(range(10))


def test_columns_are_added_replaced_and_removed_without_touching_the_files_of_the_others(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    before = pa.schema([("doc_id", pa.string()), ("a__x", pa.list_(pa.int32())), ("b__y", pa.float32()), ("text", pa.large_string())])
    rows = pa.record_batch({"doc_id": ["p", "q"], "a__x": [[1], [2, 3]], "b__y": [0.5, 1.5], "text": ["one", "two"]}, schema=before)
    old = commit_parts("d", before, [write_part("d", before, [rows], tmp_path)], tmp_path)
    after = pa.schema(
        [
            ("doc_id", pa.string()),
            ("c__s", pa.struct([("k", pa.int8())])),
            ("b__y", pa.float32()),
            ("a__x", pa.list_(pa.int32())),
            ("text", pa.large_string()),
        ]
    )
    new = pa.schema([after.field("c__s"), after.field("b__y")])
    columns = pa.record_batch([pa.array([{"k": 1}, None], new.field("c__s").type), pa.array([9, None], pa.float32())], schema=new)
    files = store.data_files("d")
    data = store.add_columns("d", old.fragments()[0].data, before, after, [columns])
    whole = [
        {"doc_id": "p", "c__s": {"k": 1}, "b__y": 9.0, "a__x": [1], "text": "one"},
        {"doc_id": "q", "c__s": None, "b__y": None, "a__x": [2, 3], "text": "two"},
    ]
    from_scratch = write_part("e", after, [pa.RecordBatch.from_pylist(whole, schema=after)], tmp_path)[0]
    grown = commit_parts("d", after, [[Fragment(data, 2, from_scratch.total)]], tmp_path)
    assert grown.to_table().to_pylist() == whole
    assert grown.take([1]).to_pylist() == whole[1:]
    assert {name: size for name, size in store.data_files("d").items() if name in files} == files
    assert store.files(data)[0] in files
    fewer = pa.schema([before.field("text"), after.field("c__s")])
    kept = store.keep_columns(data, after, fewer)
    assert len(json.loads(kept)["files"]) == 2
    small = commit_parts("d", fewer, [[Fragment(kept, 2, "0")]], tmp_path)
    assert small.to_table().to_pylist() == [{"text": "one", "c__s": {"k": 1}}, {"text": "two", "c__s": None}]
    assert old.to_table().to_pylist() == rows.to_pylist()


def test_a_format_without_column_files_says_so(tmp_path: Path) -> None:
    kinds: list[type[Store]] = [LanceStore, ParquetStore]
    assert [kind.adds_columns for kind in kinds] == [True, False]
    with pytest.raises(NotImplementedError, match="parquet"):
        ParquetStore(str(tmp_path)).add_columns("t", "{}", SCHEMA, SCHEMA, [])
