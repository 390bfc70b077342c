"""Which rows an export holds, and that it is there whole, once, and always the same."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.engine.cuts import Cuts
from dataplane.errors import DataError, LakeBusy, UsageError
from dataplane.pipeline import text_hash
from dataplane.publish import export as export_module
from dataplane.publish.export import Options, export
from dataplane.publish.folder import verify, whole_folder
from dataplane.publish.rows import CHUNK_ROWS, Request, open_rows, rechunk
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import DOCUMENTS, IDS, MIXTURE, TEXTS, ids, make

TOLD = ("doc_id", "text", "n_bytes", "text_hash")
EVERY_FORMAT = [("documents", "parquet"), ("documents", "jsonl"), ("tokens", "megatron"), ("packed", "mds")]


def doc_ids(table: str = "documents", select: str = "", at: str = "current") -> list[str]:
    rows = open_rows(Request(table, select, at, ("doc_id",)))
    return [doc_id for batch in rows.batches() for doc_id in batch.column("doc_id").to_pylist()]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("storage", ["lance", "parquet"])
@pytest.mark.parametrize(
    ("select", "expected"),
    [("all", IDS), ("selected", IDS[:5]), ("decontaminated", IDS[:5]), ("held_out", [IDS[4]]), ("mixture", MIXTURE), ("", IDS[:5])],
)
def test_a_selection_is_the_documents_of_its_table_and_the_mixture_comes_in_training_order_with_repetitions(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, storage: str, select: str, expected: list[str]
) -> None:
    monkeypatch.setenv("TERRAPLANE_LAKE_FORMAT", storage)
    request.getfixturevalue("lake")
    assert doc_ids(select=select) == expected


def test_tokens_are_those_of_the_mixture_unless_others_are_asked_for(lake: dict[str, Snapshot]) -> None:
    assert doc_ids("tokens") == MIXTURE
    assert doc_ids("tokens", "all") == IDS[:5]


def test_a_tag_fixes_the_table_and_what_chooses(lake: dict[str, Snapshot], put: Any, project: Path) -> None:
    tag = {"v1": {"documents": lake["documents"].digest, "selected": lake["selected"].digest}}
    (project / "snapshots.yaml").write_text(json.dumps(tag))
    put("selected", ids(IDS[5]))
    assert doc_ids(select="selected", at="v1") == IDS[:5]
    assert doc_ids(select="selected") == [IDS[5]]


@pytest.mark.parametrize("select", ["selected", "mixture"])
def test_versions_that_do_not_belong_together_are_refused_and_leave_nothing(lake: dict[str, Snapshot], put: Any, select: str) -> None:
    put("documents", DOCUMENTS.slice(1))
    with pytest.raises(DataError, match=rf"1 (of 5 )?documents .*of {select} {lake[select].digest} are not in documents"):
        export(Request("documents", select), "jsonl", Path("out"), Options())
    assert [path.name for path in Path().iterdir() if "out" in path.name] == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Request("document"), r"no table 'document', did you mean 'documents'\?"),
        (Request("documents", "selekted"), r"no selection 'selekted', did you mean 'selected'\?"),
        (Request("documents", columns=("txt",)), r"no column 'txt', did you mean 'text'\?"),
        (Request("packed", "selected"), "'packed' has no doc_id to select by"),
    ],
)
def test_a_wrong_name_is_named_with_the_right_one(lake: dict[str, Snapshot], wanted: Request, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_rows(wanted)


def test_columns_may_be_named_as_sql_shows_them(lake: dict[str, Snapshot]) -> None:
    rows = open_rows(Request("documents", columns=("language.lang", "doc_id")))
    assert rows.schema.equals(pa.schema([("language__lang", pa.string()), ("doc_id", pa.string())]))


def test_batches_are_cut_by_number_of_rows_alone() -> None:
    schema = pa.schema([("n", pa.int64())])
    borders = [0, 1, 3, 1000, 1000, 1024, 3000, 3100]
    pieces = [pa.record_batch([range(a, b)], schema=schema) for a, b in pairwise(borders)]
    found = list(rechunk(pieces, schema))
    assert [len(batch) for batch in found] == [CHUNK_ROWS, CHUNK_ROWS, CHUNK_ROWS, 28]
    assert pa.Table.from_batches(found).column("n").to_pylist() == list(range(3100))
    assert list(rechunk([], schema)) == []


@pytest.mark.parametrize(("table", "to"), EVERY_FORMAT)
def test_equal_versions_give_equal_files_however_they_are_stored(
    lake: dict[str, Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, to: str
) -> None:
    export(Request(table), to, tmp_path / "one", Options())
    other = tmp_path / "other"
    monkeypatch.setenv("TERRAPLANE_LAKE_FORMAT", "parquet")
    make(other, rows_together=1)
    export(Request(table), to, tmp_path / "two", Options(), other)
    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_a_folder_that_holds_something_is_refused_and_untouched(lake: dict[str, Snapshot]) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("mine")
    with pytest.raises(UsageError, match="out is there and not empty"):
        export(Request("documents"), "jsonl", Path("out"), Options())
    assert files(Path("out")) == {"mine": b"mine"}


def test_an_empty_folder_is_taken(lake: dict[str, Snapshot]) -> None:
    Path("out").mkdir()
    export(Request("held_out"), "jsonl", Path("out"), Options())
    assert sorted(files(Path("out"))) == ["README.md", "croissant.json", "data/train-00000-of-00001.jsonl", "terraplane.json"]


def test_an_export_that_fails_leaves_nothing(lake: dict[str, Snapshot], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(rows: Any, folder: Path, options: Options) -> dict[str, Any]:
        (folder / "half").write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setitem(export_module.FORMATS, "parquet", fails)
    with pytest.raises(OSError, match="no space"):
        export(Request("documents"), "parquet", Path("out"), Options())
    assert [path.name for path in Path().iterdir() if "out" in path.name] == []


def test_a_killed_export_leaves_no_folder_and_the_next_one_takes_its_place(lake: dict[str, Snapshot]) -> None:
    killed = """if True:
        import os, signal
        from pathlib import Path
        from dataplane.publish.folder import whole_folder
        with whole_folder(Path("out")) as folder:
            (folder / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", killed], env=environment, check=False).returncode == -signal.SIGKILL
    assert [Path("out").exists(), files(Path(".out.partial"))] == [False, {"half": b"half"}]
    export(Request("packed"), "mds", Path("out"), Options())
    assert sorted(files(Path("out"))) == ["index.json", "shard.00000.mds", "terraplane.json"]
    assert not Path(".out.partial").exists()


def test_two_exports_to_one_folder_do_not_meet(project: Path) -> None:
    with whole_folder(Path("out")) as folder:
        (folder / "first").write_text("first")
        with pytest.raises(LakeBusy, match="another export is writing to out"), whole_folder(Path("out")):
            pass
    assert files(Path("out")) == {"first": b"first"}


def test_a_changed_or_lost_file_is_named_by_check(lake: dict[str, Snapshot]) -> None:
    record = export(Request("packed"), "mds", Path("out"), Options())
    assert verify(Path("out")) == record
    Path("out/index.json").write_text("{}")
    Path("out/shard.00000.mds").unlink()
    with pytest.raises(DataError, match=r"shard\.00000\.mds is missing; index\.json differs"):
        verify(Path("out"))


def test_the_command_line_exports_and_prints_what_it_wrote(lake: dict[str, Snapshot]) -> None:
    command = ["export", "documents", "--to", "parquet", "--out", "out", "--select", "held_out", "--columns", "doc_id,text", "--json"]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, json.loads(done.output)) == (0, json.loads(Path("out/terraplane.json").read_text()))
    (path,) = Path("out/data").iterdir()
    assert pq.read_table(path).to_pylist() == [{"doc_id": IDS[4], "text": TEXTS[IDS[4]]}]
    for name in ("card", "croissant"):
        file = {"card": "README.md", "croissant": "croissant.json"}[name]
        assert CliRunner().invoke(main, ["publish", name, "out"]).output == Path("out", file).read_text()
    assert CliRunner().invoke(main, ["publish", "check", "out"]).output == "out: 1 files as they were exported\n"
    again = CliRunner().invoke(main, command)
    assert (again.exit_code, again.stderr.splitlines()[0]) == (2, "error: out is there and not empty")


def test_texts_go_out_as_they_are_trained_on_by_the_cuts_of_the_tag(lake: dict[str, Snapshot], put: Any, project: Path) -> None:
    def cuts(*rows: tuple[str, int, int]) -> pa.RecordBatch:
        values = [{"doc_id": doc_id, "start": start, "stop": stop, "how": "x"} for doc_id, start, stop in rows]
        return pa.RecordBatch.from_pylist(values, schema=schema.CUTS)

    def exported(at: str, select: str = "decontaminated", columns: tuple[str, ...] = TOLD) -> list[dict]:
        return [row for batch in open_rows(Request("documents", select, at, columns)).batches() for row in batch.to_pylist()]

    whole = exported("current")
    first = put("cuts", cuts((IDS[0], 0, 4)))
    (project / "snapshots.yaml").write_text(json.dumps({"v1": {name: lake[name].digest for name in lake} | {"cuts": first.digest}}))
    put("cuts", cuts())
    assert exported("current") == whole
    left = Cuts.load(first).texts(pa.array([IDS[0]]), pa.array([TEXTS[IDS[0]]], pa.large_string()))[0].as_py()
    assert len(left) < len(TEXTS[IDS[0]])
    told = {"doc_id": IDS[0], "text": left, "n_bytes": len(left.encode()), "text_hash": text_hash(left)}
    assert exported("v1") == [told, *whole[1:]]
    assert exported("v1", columns=("n_bytes",)) == [{"n_bytes": row["n_bytes"]} for row in [told, *whole[1:]]]
    assert exported("v1", select="selected") == whole
    record = export(Request("documents", "decontaminated", "v1", TOLD), "jsonl", Path("out"), Options())
    assert record["snapshots"]["cuts"] == first.digest
    assert [row for batch in export_module.reopen(Path("out"))[1].batches() for row in batch.to_pylist()] == [told, *whole[1:]]
