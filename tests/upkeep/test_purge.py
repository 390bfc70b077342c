"""A purge leaves nothing of a document in raw files, tables, their history and DVC's cache, and nothing else is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from dataplane.errors import DataError
from dataplane.lineage.forget import Chosen, bury, choose
from dataplane.snapshot import Snapshot, open_store, read_tags, resolve, tables
from dataplane.upkeep.purge import purge
from dataplane.upkeep.verify import verify
from dataplane.upkeep.versions import tag

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
VICTIM = "http://h.test/7"


def holding(root: Path, needle: bytes) -> list[Path]:
    """The files below `root` in which it stands, as `grep -r` finds it."""
    return [path for path in root.rglob("*") if path.is_file() and needle in path.read_bytes()]


def texts(root: Path) -> dict[str, str]:
    rows = Snapshot.load("documents", root).to_table(columns=["url", "text"]).to_pylist()
    return {row["url"]: row["text"] for row in rows}


def test_nothing_is_left_of_a_purged_document(made: Any) -> None:
    root = made.root
    before = texts(root)
    doc_id = choose(Chosen(urls=[VICTIM]), root).column("doc_id")[0].as_py()
    needle = before[VICTIM][100:160].encode()
    files = {path.relative_to(root).parts[0] for path in holding(root, needle)}
    assert files >= {"data", ".dvc"}  # the raw file, and DVC's copy of it
    tag("first", root=root)
    made.edit_params(lambda params: params["pack"].update(sequence_length=256))
    made.repro()
    made.commit("two")
    bury(choose(Chosen(urls=[VICTIM]), root), "request 7", root)
    done = purge(root)
    assert (done.erased, done.left, sorted(done.dropped)) == (
        ["data/web/rows.jsonl"],
        [],
        ["decontaminated", "deduplicated", "documents", "mixture", "packed", "raw", "selected", "signatures", "tokens"],
    )
    assert holding(root, needle) == []
    assert texts(root) == {url: text for url, text in before.items() if url != VICTIM}
    kept = [
        row for version in open_store(root).versions("tokens") for row in resolve("tokens", version.digest, root).to_table().to_pylist()
    ]
    assert [row for row in kept if row["doc_id"] == doc_id] == []
    assert (set(read_tags(root)["first"]) & set(done.dropped), verify(root, history=True)) == (set(), [])
    made.repro()
    assert made.repro() == []


def test_a_purge_that_was_killed_is_done_again(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made.root
    needle = texts(root)[VICTIM][100:160].encode()
    bury(choose(Chosen(urls=[VICTIM]), root), "request 7", root)
    with monkeypatch.context() as dying:
        dying.setattr("dataplane.upkeep.purge.drop", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            purge(root)
    done = purge(root)
    assert (done.left, "raw" in done.dropped, holding(root, needle)) == ([], True, [])


def test_the_document_stays_away_when_its_raw_file_comes_back(made: Any) -> None:
    root = made.root
    raw = (root / "data/web/rows.jsonl").read_bytes()
    bury(choose(Chosen(urls=[VICTIM]), root), "request 7", root)
    purge(root)
    (root / "data/web/rows.jsonl").unlink()
    (root / "data/web/rows.jsonl").write_bytes(raw)
    made.dvc("add", "--quiet", "data/web")
    made.repro()
    assert VICTIM not in texts(root)
    books = json.loads((root / "metrics/ingest.json").read_text())
    assert (books["forgotten"], books["rows"]["kept"]) == (1, 59)


def test_an_older_commit_says_that_its_version_is_gone(made: Any) -> None:
    root = made.root
    digest = Snapshot.load("documents", root).digest
    bury(choose(Chosen(urls=[VICTIM]), root), "request 7", root)
    purge(root)
    with pytest.raises(DataError, match="no version"):
        Snapshot("documents", digest, 60, root).open()
    assert sorted(tables(root)) == sorted(path.stem for path in (root / "lake").glob("*.json"))
