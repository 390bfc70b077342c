"""A lake on S3 keeps the promises of a lake in a folder, in both formats, and says what is wrong when the store does not answer."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dataplane.errors import DataError, EnvironmentFault
from dataplane.lake import objectstore, parquet
from dataplane.lake.sql import ask, connect
from dataplane.snapshot import Snapshot, commit_parts, open_store, write_part
from tests.lake.s3_server import BUCKET, KEY, SECRET, Gateway, environment, serve

SCHEMA = pa.schema([("doc_id", pa.string()), ("n", pa.int64()), ("text", pa.large_string()), ("ids", pa.list_(pa.int32()))])


def batch(start: int, stop: int) -> pa.RecordBatch:
    rows = [{"doc_id": f"{i:032x}", "n": i, "text": f"text {i}", "ids": list(range(i % 4))} for i in range(start, stop)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def write(*spans: tuple[int, int], root: Path = Path()) -> Snapshot:
    return commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(*span)], root) for span in spans], root)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serve(tmp_path_factory.mktemp("s3")) as port:
        yield port


def forget_sessions() -> None:
    """Clients are kept for the life of a process, with the credentials that they were made with."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(params=["lance", "parquet"])
def gateway(request: pytest.FixtureRequest, server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A project with its lake on S3 as the current folder, and what stands between it and the server."""
    monkeypatch.chdir(tmp_path)
    with Gateway(server).running() as gateway:
        for name, value in environment(gateway.url, tmp_path.name, request.param).items():
            monkeypatch.setenv(name, value)
        forget_sessions()
        yield gateway
    forget_sessions()


def test_rows_are_read_in_every_way_and_the_digest_is_that_of_a_local_lake(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = write((0, 3), (3, 50), (50, 120))
    assert snapshot.uri.startswith(f"s3://{BUCKET}/")
    loaded = Snapshot.load("t")
    assert loaded == snapshot
    assert loaded.schema.equals(SCHEMA)
    assert loaded.to_table().to_pylist() == batch(0, 120).to_pylist()
    assert [n for part in loaded.batches(["n"], batch_size=7, offset=45, limit=10) for n in part["n"].to_pylist()] == list(range(45, 55))
    assert loaded.take([119, 0, 3], ["text", "n"]).to_pylist() == [{"text": f"text {i}", "n": i} for i in (119, 0, 3)]
    assert loaded.to_table(["n"], {"doc_id": [f"{i:032x}" for i in (5, 77)]})["n"].to_pylist() == [5, 77]
    assert [fragment.rows for fragment in loaded.fragments()] == [3, 47, 70]
    monkeypatch.delenv("TERRAPLANE_LAKE_URI")
    assert write((0, 120)).digest == snapshot.digest
    assert sorted(path.name for path in Path("lake").iterdir()) == ["t.json", f"t.{os.environ['TERRAPLANE_LAKE_FORMAT']}"]


def test_an_older_version_is_read_until_it_is_dropped(gateway: Gateway) -> None:
    shared = write_part("t", SCHEMA, [batch(0, 10)])
    old = commit_parts("t", SCHEMA, [shared, write_part("t", SCHEMA, [batch(10, 20)])])
    new = commit_parts("t", SCHEMA, [shared, write_part("t", SCHEMA, [batch(30, 40)])])
    store = open_store()
    assert [(v.digest, v.rows, len(v.fragments)) for v in store.versions("t")] == [(old.digest, 20, 2), (new.digest, 20, 2)]
    assert [store.is_newest("t", snapshot.digest) for snapshot in (old, new)] == [False, True]
    assert old.to_table()["n"].to_pylist() == list(range(20))
    waiting = write_part("t", SCHEMA, [batch(50, 60)])  # another run is about to commit it
    store.drop("t", [old.digest])
    files = {name for fragment in (*new.fragments(), *waiting) for name in store.files(fragment.data)}
    assert set(store.data_files("t")) == files
    assert [version.digest for version in store.versions("t")] == [new.digest]
    with pytest.raises(DataError, match=old.digest):
        old.to_table()
    assert commit_parts("t", SCHEMA, [waiting]).to_table()["n"].to_pylist() == list(range(50, 60))
    assert new.to_table()["n"].to_pylist() == [*range(10), *range(30, 40)]


def test_a_file_that_nobody_committed_goes_once_it_is_older_than_the_grace(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    snapshot = write((0, 10))
    orphan = [name for fragment in write_part("t", SCHEMA, [batch(0, 3)]) for name in open_store().files(fragment.data)]
    store = open_store()
    assert store.sweep("t") == []
    later = time.time() + store.grace_seconds + 60
    monkeypatch.setattr("dataplane.lake.store.time", SimpleNamespace(time=lambda: later))
    assert store.sweep("t") == orphan
    assert snapshot.to_table().num_rows == 10


@pytest.mark.slow
def test_writers_at_the_same_time_lose_no_commit(gateway: Gateway, tmp_path: Path) -> None:
    made: dict[str, list[int]] = {}

    def commit(writer: int) -> None:
        for i in range(3):
            start = 100 * writer + 10 * i
            made[write((start, start + 5), root=tmp_path / str(writer)).digest] = list(range(start, start + 5))

    threads = [threading.Thread(target=commit, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 9
    assert {version.digest for version in open_store().versions("t")} == set(made)
    assert {digest: Snapshot("t", digest, 5).to_table()["n"].to_pylist() for digest in made} == made


def test_a_reader_sees_the_old_rows_at_every_step_of_a_commit(gateway: Gateway) -> None:
    old = write((0, 10))
    part = write_part("t", SCHEMA, [batch(20, 25)])
    seen: list[list[int]] = []

    def read(method: str, key: str) -> None:
        if method == "PUT":
            seen.append(Snapshot.load("t").to_table()["n"].to_pylist())

    gateway.before = read
    commit_parts("t", SCHEMA, [part])
    gateway.before = lambda method, key: None
    assert len(seen) >= 3
    assert seen == [list(range(10))] * len(seen)
    assert Snapshot.load("t").to_table()["n"].to_pylist() == list(range(20, 25))
    assert old.to_table()["n"].to_pylist() == list(range(10))


def test_sql_is_answered_and_cut_when_it_takes_too_long(gateway: Gateway) -> None:
    write((0, 100), (100, 150))
    connection = connect()
    assert ask(connection, "SELECT count(*) AS c, sum(n) AS s FROM t WHERE n >= 90").to_pylist() == [{"c": 60, "s": sum(range(90, 150))}]
    with pytest.raises(DataError, match="the question was cut after"):
        ask(connection, "SELECT count(*) FROM t a, t b, t c, t d, t e, t f WHERE hash(a.n, b.n, c.n, d.n, e.n, f.n) = 1", timeout=0.3)
    assert ask(connection, "SELECT max(n) AS m FROM t").to_pylist() == [{"m": 149}]


def read_bytes(gateway: Gateway, action: Callable[[], Any]) -> int:
    gateway.requests.clear()
    action()
    return sum(request.sent for request in gateway.requests if "/data/" in request.key and request.method == "GET")


def test_only_the_rows_and_columns_that_are_asked_for_are_fetched(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1 << 20)
    rng = random.Random(5)
    texts = [rng.randbytes(50_000).hex() for _ in range(80)]  # 4 MB when compressed
    rows = [pa.record_batch({"n": [i], "text": pa.array([text], pa.large_string())}) for i, text in enumerate(texts)]
    snapshot = commit_parts("t", rows[0].schema, [write_part("t", rows[0].schema, rows)])
    (whole,) = open_store().data_files("t").values()
    assert whole > 3_900_000
    connection = connect()
    asked: dict[str, Callable[[], Any]] = {
        "a column": lambda: snapshot.to_table(["n"]),
        "a column of some rows": lambda: snapshot.take([70, 2, 40], ["n"]),
        "a row": lambda: snapshot.take([41]),
        "neighbours": lambda: list(snapshot.batches(offset=41, limit=2)),
        "rows of a value": lambda: snapshot.to_table(None, {"n": [41]}),
        "a count by SQL": lambda: ask(connection, "SELECT count(*) FROM t WHERE n > 40"),
        "a text by SQL": lambda: ask(connection, "SELECT text FROM t WHERE n = 41"),
    }
    fetched = {name: read_bytes(gateway, action) / whole for name, action in asked.items()}
    assert {name: share for name, share in fetched.items() if share > 0.36} == {}
    assert max(fetched["a column"], fetched["a column of some rows"], fetched["a count by SQL"]) < 0.05
    assert snapshot.take([41])["text"].to_pylist() == [texts[41]]


FAULTS = {
    "refuses access": {"AWS_SECRET_ACCESS_KEY": "not-the-right-one"},
    "bucket is not there": {"TERRAPLANE_LAKE_URI": "s3://no-such-bucket/lake"},
    "does not answer": {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
}


@pytest.mark.parametrize("message", ["refuses access", *(pytest.param(fault, marks=pytest.mark.slow) for fault in list(FAULTS)[1:])])
def test_a_store_that_cannot_be_used_says_why_and_tells_no_secret(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    import s3fs

    snapshot = write((0, 10))
    part = write_part("t", SCHEMA, [batch(0, 3)])
    monkeypatch.setattr(objectstore, "MAX_RETRIES", 1)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name, value in FAULTS[message].items():
        monkeypatch.setenv(name, value)
    forget_sessions()
    actions: list[Callable[[], Any]] = [
        lambda: write_part("t", SCHEMA, [batch(0, 3)]),
        lambda: commit_parts("t", SCHEMA, [part]),
        snapshot.to_table,
        snapshot.fragments,
        connect,
    ]
    for action in actions:
        with pytest.raises(EnvironmentFault, match=message) as error:
            action()
        assert error.value.fix != ""
        assert [secret for secret in (KEY, SECRET, "not-the-right-one") if secret in error.value.render()] == []


def test_a_question_that_is_refused_halfway_is_told_so_and_never_hangs(gateway: Gateway) -> None:
    write((0, 100))
    connection = connect()
    said = f"<Error><Code>InvalidAccessKeyId</Code><Message>It is unknown.</Message><AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>"
    gateway.fault, gateway.busy = (403, said.encode()), 1000
    for _ in range(10):
        with pytest.raises(EnvironmentFault, match="refuses access") as error:
            ask(connection, "SELECT sum(n), max(text) FROM t")
        assert KEY not in error.value.render()
    gateway.busy = 0
    assert ask(connection, "SELECT max(n) AS m FROM t").to_pylist() == [{"m": 99}]


@pytest.mark.slow
def test_a_busy_server_is_asked_again(gateway: Gateway) -> None:
    part = write_part("t", SCHEMA, [batch(0, 10)])
    gateway.busy = 2
    assert [fragment.rows for fragment in write_part("t", SCHEMA, [batch(0, 3)])] == [3]
    gateway.busy += 2
    snapshot = commit_parts("t", SCHEMA, [part])
    gateway.busy += 2
    assert snapshot.to_table()["n"].to_pylist() == list(range(10))
    assert gateway.busy == 0


def test_sequences_on_s3_are_copied_to_this_machine_once(gateway: Gateway, tmp_path: Path) -> None:
    import numpy as np

    from dataplane import schema
    from trainplane.data.local_copy import local_copy

    spans = [{"doc_id": f"{7:032x}", "seq_start": 0, "doc_start": 0, "length": 4}]
    rows = [{"seq_id": i, "n_tokens": 4, "input_ids": [i, i + 1, i + 2, i + 3], "spans": spans} for i in range(9)]
    table = pa.Table.from_pylist(rows, schema=schema.packed(4))
    snapshot = commit_parts("packed", table.schema, [write_part("packed", table.schema, table.to_batches(), Path())], Path())
    first = local_copy(snapshot, 100, tmp_path / "ssd")
    gateway.requests.clear()
    again = local_copy(snapshot, 100, tmp_path / "ssd")
    for flat in (first, again):
        assert flat.batch(np.array([8, 0])).input_ids.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert gateway.requests == []
