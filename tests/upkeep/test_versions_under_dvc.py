"""History under Git and DVC, in both modes and formats: an older commit gives its rows, and only what nothing names is removed."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataplane.errors import DataError, UsageError
from dataplane.lake.sql import ask, connect
from dataplane.settings import LakeSettings, load_settings
from dataplane.snapshot import Snapshot, open_store
from dataplane.upkeep.move import move
from dataplane.upkeep.space import drop, measure, unreferenced
from dataplane.upkeep.verify import verify
from dataplane.upkeep.versions import compare, list_versions, tag, untag

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def drop_ending_in(digit: str) -> Callable[[dict[str, Any]], None]:
    def edit(params: dict[str, Any]) -> None:
        params["select"]["rules"][0] = {"use": "gopher_quality", "params": {"min_words": 9999}, "when": f"url LIKE '%{digit}'"}

    return edit


def selected(root: Path) -> set[str]:
    query = "SELECT raw.url FROM selected JOIN raw USING (doc_id)"
    return set(ask(connect(root), query).column("url").to_pylist())


def urls(without: str = "") -> set[str]:
    return {f"http://h.test/{i}" for i in range(60) if not without or not str(i).endswith(without)}


def test_an_older_commit_gives_the_older_rows(made: Any) -> None:
    root = made.root
    assert selected(root) == urls()
    made.edit_params(drop_ending_in("1"))
    done = made.repro()
    made.commit("two")
    assert (selected(root), {"ingest", "train_lm", "clean"} & set(done)) == (urls(without="1"), set())
    made.call("git", "checkout", "--quiet", "HEAD~1")
    made.dvc("checkout", "--quiet")
    assert (selected(root), made.repro()) == (urls(), [])
    made.call("git", "checkout", "--quiet", "master")
    made.dvc("checkout", "--quiet")
    assert (selected(root), made.repro()) == (urls(without="1"), [])


def test_only_what_nothing_refers_to_is_removed(made: Any) -> None:
    root = made.root
    first = Snapshot.load("selected", root).digest
    digests = {}
    for digit in ("1", "2", "3"):
        made.edit_params(drop_ending_in(digit))
        made.repro()
        digests[digit] = Snapshot.load("selected", root).digest
        if digit == "2":
            tag("two", root=root)
    refers = {row["digest"]: row["referred_to_by"] for row in list_versions(["selected"], root)}
    assert refers == {digests["3"]: "current, git", digests["2"]: "tag two", digests["1"]: "", first: "git"}
    freed = drop(unreferenced(root), root)
    assert {entry.table: entry.digests for entry in freed}["selected"] == [digests["1"]]
    assert {version.digest for version in open_store(root).versions("selected")} == {digests["3"], digests["2"], first}
    assert {space.orphan_bytes for space in measure(root)} == {0}
    assert verify(root, history=True) == []
    assert made.repro() == []
    made.edit_params(drop_ending_in("1"))
    made.repro()  # what was removed is made again, not taken from DVC's memory of runs
    assert selected(root) == urls(without="1")


def test_versions_are_compared_by_table(made: Any) -> None:
    root = made.root
    tag("before", root=root)
    made.edit_params(drop_ending_in("1"))
    made.repro()
    rows = {row["table"]: (row["same"], row["rows_before"], row["rows_after"]) for row in compare("before", "current", root=root)}
    assert (rows["documents"], rows["selected"], rows["select_decisions"]) == ((True, 60, 60), (False, 60, 54), (False, 0, 6))
    untag("before", root)
    with pytest.raises(UsageError, match="no tag 'before'; known: none"):
        untag("before", root)


def test_nothing_is_removed_where_a_commit_cannot_be_told(made: Any) -> None:
    root = made.root
    made.edit_params(drop_ending_in("1"))
    made.repro()
    made.commit("two")
    made.edit_params(drop_ending_in("2"))
    made.repro()
    made.dvc("gc", "--workspace", "--force", "--quiet")
    with pytest.raises(DataError, match="versions that DVC's cache cannot tell"):
        unreferenced(root)


def test_a_damaged_file_is_named_and_its_cure_works(made: Any) -> None:
    root = made.root
    store = open_store(root)
    (version,) = store.versions("documents")
    (name,) = store.files(version.fragments[0].data)
    path = Path(store.table_uri("documents")) / "data" / name
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0x10
    path.unlink()
    path.write_bytes(content)
    (fault,) = verify(root)
    assert (fault.table, Path(fault.file)) == ("documents", path)
    if load_settings(root).lake.held:
        made.call("bash", "-c", fault.fix.replace("dvc ", f"{sys.executable} -m dvc "))
    else:
        path.unlink()
        made.dvc("repro", "--force", "--single-item", "clean")
    assert (verify(root), Snapshot.load("documents", root).digest) == ([], version.digest)


def test_a_lake_moves_with_its_content(made: Any) -> None:
    root = made.root
    digests = {path.name: path.read_text() for path in (root / "lake").glob("*.json")}
    tag("first", root=root)
    old = load_settings(root).lake
    other = {"lance": "parquet", "parquet": "lance"}[old.format]
    keeper = {"cached": "referenced", "referenced": "cached"}[old.dvc]
    move(LakeSettings.parse({"format": other, "dvc": keeper}, where="lake"), root)
    assert {path.name: path.read_text() for path in (root / "lake").glob("*.json")} == digests
    assert (load_settings(root).lake.format, load_settings(root).lake.dvc) == (other, keeper)
    shutil.rmtree(root / "lake" / f"documents.{old.format}")
    assert (verify(root, history=True), made.repro()) == ([], [])
    made.edit_params(drop_ending_in("1"))
    assert made.repro()[0] == "select"
    assert selected(root) == urls(without="1")
