"""Snapshots: the digest is of content, versions stay readable, and a killed run leaves the last one whole."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from dataplane.errors import DataError
from dataplane.snapshot import Snapshot, commit_parts, read_tags, resolve, tables, write_part

SCHEMA = pa.schema([("doc_id", pa.string()), ("run_id", pa.string()), ("n", pa.int64())])


def rows(start: int, stop: int, run: str = "r") -> pa.RecordBatch:
    return pa.record_batch(
        {"doc_id": [f"d{i}" for i in range(start, stop)], "run_id": [run] * (stop - start), "n": list(range(start, stop))}, schema=SCHEMA
    )


def write(root: Path, *groups: list[pa.RecordBatch]) -> Snapshot:
    return commit_parts("t", SCHEMA, [write_part("t", SCHEMA, group, root) for group in groups], root)


def test_digest_does_not_depend_on_fragments_batches_or_the_run(tmp_path: Path) -> None:
    one = write(tmp_path / "a", [rows(0, 10)])
    many = write(tmp_path / "b", [rows(0, 3, "other"), rows(3, 4)], [], [rows(4, 10)])
    assert (one.digest, one.rows) == (many.digest, many.rows)
    assert many.to_table(columns=["doc_id", "n"]).equals(one.to_table(columns=["doc_id", "n"]))


def test_digest_tells_other_content_and_other_schemas_apart(tmp_path: Path) -> None:
    digests = {
        write(tmp_path / "a", [rows(0, 10)]).digest,
        write(tmp_path / "b", [rows(0, 9)]).digest,
        write(tmp_path / "c", [rows(1, 11)]).digest,
        write(tmp_path / "d", [rows(0, 10), rows(0, 1)]).digest,
        write(tmp_path / "e", []).digest,
    }
    assert len(digests) == 5


def test_equal_content_makes_no_new_version_and_leaves_no_file(tmp_path: Path) -> None:
    first = write(tmp_path, [rows(0, 10)])
    before = sorted(path.name for path in Path(first.uri).rglob("*"))
    second = write(tmp_path, [rows(0, 5)], [rows(5, 10)])
    assert second == first
    assert sorted(path.name for path in Path(first.uri).rglob("*")) == before


def test_older_versions_stay_readable_by_their_digest(tmp_path: Path) -> None:
    old = write(tmp_path, [rows(0, 10)])
    new = write(tmp_path, [rows(5, 8)])
    assert [old.to_table()["n"].to_pylist(), new.to_table()["n"].to_pylist()] == [list(range(10)), [5, 6, 7]]
    assert Snapshot.load("t", tmp_path) == new


def test_going_back_to_older_content_makes_it_the_newest(tmp_path: Path) -> None:
    write(tmp_path, [rows(0, 10)])
    write(tmp_path, [rows(0, 3)])
    back = write(tmp_path, [rows(0, 10)])
    assert lance.dataset(back.uri).count_rows() == back.rows == 10


def test_a_run_that_dies_before_its_commit_leaves_the_last_version_and_its_files_are_swept(tmp_path: Path) -> None:
    last = write(tmp_path, [rows(0, 10)])
    write_part("t", SCHEMA, [rows(0, 99)], tmp_path)  # fragments are on disk, no version names them
    assert Snapshot.load("t", tmp_path).to_table().num_rows == 10
    assert len(list(Path(last.uri, "data").iterdir())) == 2
    write(tmp_path, [rows(0, 10)])
    assert len(list(Path(last.uri, "data").iterdir())) == 1


def test_an_empty_table_keeps_its_schema(tmp_path: Path) -> None:
    assert write(tmp_path, []).to_table().schema.equals(SCHEMA)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"table": "t"}'])
def test_a_damaged_snapshot_file_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path, [rows(0, 1)])
    (tmp_path / "lake" / "t.json").write_text(text)
    with pytest.raises(DataError, match=r"t\.json is damaged"):
        Snapshot.load("t", tmp_path)


def test_a_version_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    write(tmp_path, [rows(0, 1)])
    missing = Snapshot("t", "0" * 32, 1, tmp_path)
    with pytest.raises(DataError, match="dvc checkout"):
        missing.dataset()


def test_a_version_is_found_by_tag_by_the_start_of_its_digest_and_as_current(tmp_path: Path) -> None:
    old, new = write(tmp_path, [rows(0, 10)]), write(tmp_path, [rows(5, 8)])
    (tmp_path / "snapshots.yaml").write_text(f"v1:\n  t: {old.digest}\n")
    assert read_tags(tmp_path) == {"v1": {"t": old.digest}}
    assert [resolve("t", name, tmp_path) for name in ("v1", old.digest[:8], "current")] == [old, old, new]
    assert tables(tmp_path) == ["t"]
    with pytest.raises(DataError, match=rf"'v2' is no version of 't'; known: v1, .*{new.digest}"):
        resolve("t", "v2", tmp_path)


@pytest.mark.parametrize("text", ["a: [", "- a", "v1: x"])
def test_damaged_tags_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "snapshots.yaml").write_text(text)
    with pytest.raises(DataError, match=r"snapshots\.yaml"):
        read_tags(tmp_path)
