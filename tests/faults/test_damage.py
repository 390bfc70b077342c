"""Damaged files: whatever reads them says which file it is and what to do, and never shows a traceback of somebody's library."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.engine.journal import Journal
from dataplane.errors import DataError
from dataplane.lake.sql import ask, connect
from dataplane.snapshot import Snapshot, commit_parts, open_store, snapshot_path, write_part

SCHEMA = pa.schema([("doc_id", pa.string()), ("text", pa.large_string()), ("n", pa.int64())])


def batch(start: int, stop: int) -> pa.RecordBatch:
    rows = [{"doc_id": f"{i:032x}", "text": f"row {i} of the table " * (i % 40), "n": i * i} for i in range(start, stop)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@pytest.fixture(params=["lance", "parquet"])
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshot:
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    parts = [write_part("t", SCHEMA, [batch(*span)], tmp_path) for span in ((0, 300), (300, 600))]
    return commit_parts("t", SCHEMA, parts, tmp_path)


def data_file(snapshot: Snapshot, place: int) -> Path:
    """The file of the fragment at this place."""
    store = open_store(snapshot.root)
    (name,) = store.files(snapshot.fragments()[place].data)
    return Path(store.table_uri("t"), "data", name)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


READS: dict[str, Callable[[Snapshot], object]] = {
    "all": lambda snapshot: snapshot.to_table(),
    "range": lambda snapshot: list(snapshot.batches(["text"], offset=310, limit=20)),
    "filter": lambda snapshot: snapshot.to_table(among={"n": [400 * 400]}),
    "places": lambda snapshot: snapshot.take([599, 301]),
}
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "a byte short": lambda data: data[:-1],
    "footer flipped": lambda data: flipped(data, len(data) - 6),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_data_file_is_named(snapshot: Snapshot, damage: Callable[[bytes], bytes], read: Callable[[Snapshot], object]) -> None:
    path = data_file(snapshot, 1)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError) as error:
        read(snapshot)
    assert error.value.message.startswith(f"{path} cannot be read: ")
    assert error.value.fix == "`dataplane lake verify` names all that is damaged, and what restores it"


def test_a_missing_data_file_is_named(snapshot: Snapshot) -> None:
    path = data_file(snapshot, 0)
    path.unlink()
    with pytest.raises(DataError, match=f"{path.name} cannot be read"):
        snapshot.to_table()


def test_what_is_not_damaged_is_read_beside_what_is(snapshot: Snapshot) -> None:
    data_file(snapshot, 1).write_bytes(b"")
    assert snapshot.take([5, 299], ["n"])["n"].to_pylist() == [25, 299 * 299]


def told(snapshot: Snapshot, whole: pa.Table) -> str:
    """What reading the table shows: `same` rows, `other` rows, or the message of the error."""
    try:
        return "same" if snapshot.to_table().equals(whole) else "other"
    except DataError as error:
        return error.message


def test_every_flipped_bit_of_a_parquet_file_is_named_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("lake: {format: parquet}\n")
    snapshot = commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(0, 300)], tmp_path)], tmp_path)
    path, whole = data_file(snapshot, 0), snapshot.to_table()
    data = path.read_bytes()
    silent = []
    for place in range(4, len(data) // 2, 97):
        path.write_bytes(flipped(data, place))
        found = told(snapshot, whole)
        if found != "same" and not found.startswith(f"{path} cannot be read"):
            silent.append((place, found))
    assert silent == []


def test_a_flipped_bit_in_lance_is_named_by_verify_where_it_changes_what_is_read(tmp_path: Path) -> None:
    from dataplane.upkeep.verify import verify

    snapshot = commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(0, 300)], tmp_path)], tmp_path)
    path, whole = data_file(snapshot, 0), snapshot.to_table()
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 25):
        path.write_bytes(flipped(data, place))
        wanted = [] if told(snapshot, whole) == "same" else [str(path)]
        assert [fault.file for fault in verify(tmp_path)] == wanted, place


def test_a_question_in_sql_says_that_the_table_is_damaged(snapshot: Snapshot) -> None:
    connection = connect(snapshot.root)
    path = data_file(snapshot, 1)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError) as error:
        ask(connection, "SELECT sum(length(text)) FROM t")
    assert (error.value.where, error.value.fix[:24]) == ("sql", "`dataplane lake verify` ")


@pytest.mark.parametrize("text", ["", "{", '{"digest": "x"}', "[]", "\x00\x00"], ids=["empty", "cut", "keys gone", "no object", "zeros"])
def test_a_damaged_manifest_is_named_and_written_anew_once_it_is_removed(snapshot: Snapshot, text: str) -> None:
    (path,) = Path(snapshot.uri, "_snapshots").glob("*.json")
    path.write_text(text)
    with pytest.raises(DataError, match=f"manifest {path} is damaged") as error:
        snapshot.fragments()
    assert str(path) in error.value.fix
    path.unlink()
    parts = [write_part("t", SCHEMA, [batch(0, 600)], snapshot.root)]
    assert commit_parts("t", SCHEMA, parts, snapshot.root) == snapshot
    assert snapshot.to_table()["n"].to_pylist() == [i * i for i in range(600)]


LANCE_BOOKS = {"list of files": "_versions/*.manifest", "tag": "_refs/tags/*.json"}


@pytest.mark.parametrize("pattern", LANCE_BOOKS.values(), ids=LANCE_BOOKS)
def test_a_damaged_file_of_lances_own_books_is_named(tmp_path: Path, pattern: str) -> None:
    snapshot = commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(0, 9)], tmp_path)], tmp_path)
    (path,) = Path(snapshot.uri).glob(pattern)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=f"{path} cannot be read"):
        snapshot.to_table()


def test_a_damaged_schema_of_a_parquet_table_is_named_and_written_anew(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("lake: {format: parquet}\n")
    snapshot = commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(0, 9)], tmp_path)], tmp_path)
    (path,) = Path(snapshot.uri, "_snapshots").glob("*.schema")
    path.write_text("zz")
    with pytest.raises(DataError, match=f"{path} cannot be read"):
        snapshot.to_table()
    path.unlink()
    commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch(0, 9)], tmp_path)], tmp_path)
    assert snapshot.to_table().num_rows == 9


BAD_SNAPSHOTS = {
    "empty": "", "cut": '{"digest": "a', "no object": "[1]", "keys gone": "{}", "zeros": "\x00" * 40,
    "other table": json.dumps({"table": "u", "digest": "0" * 32, "rows": 1}),
    "rows are no number": json.dumps({"table": "t", "digest": "0" * 32, "rows": "1"}),
    "digest is no text": json.dumps({"table": "t", "digest": 5, "rows": 1}),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS)
def test_a_damaged_snapshot_file_is_named(snapshot: Snapshot, text: str) -> None:
    path = snapshot_path("t", snapshot.root)
    path.write_text(text)
    with pytest.raises(DataError, match=f"snapshot file {path} is damaged") as error:
        Snapshot.load("t", snapshot.root)
    assert "dvc checkout" in error.value.fix


def test_a_flipped_digit_of_a_digest_is_no_version(snapshot: Snapshot) -> None:
    path = snapshot_path("t", snapshot.root)
    wrong = ("0" if snapshot.digest[0] != "0" else "1") + snapshot.digest[1:]
    path.write_text(path.read_text().replace(snapshot.digest, wrong))
    with pytest.raises(DataError, match=f"no version with digest {wrong}"):
        Snapshot.load("t", snapshot.root).to_table()


def test_a_damaged_entry_of_the_journal_is_work_not_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "s", "identity")
    journal.begin()
    journal.put("unit", {"a": 1})
    (journal.folder / "unit.json").write_text('{"a"')
    (journal.folder / "about").write_text("")
    assert (journal.get("unit"), journal.about()) == (None, {})
