"""The ingest stage as a whole: what is committed, counted and put aside, and that a second run gives the same."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest
import yaml

from dataplane.snapshot import Snapshot
from dataplane.sources.files import parse_specs
from dataplane.sources.locator import read_payload
from dataplane.stages import ingest

SOURCES = [
    {"name": "web", "kind": "web", "paths": ["data/web/**"], "license": "CC0"},
    {"name": "talk", "kind": "dialogue", "paths": ["data/talk/*.jsonl.gz"], "options": {"text": "said", "id": "n"}},
]


@pytest.fixture
def filled(project: Path) -> Path:
    """A project of two sources, with two bad files and a bad line among the good ones."""
    (project / "data/web").mkdir(parents=True)
    (project / "data/talk").mkdir()
    (project / "data/web/a.html").write_bytes("<p>网页 one</p>".encode("gb18030"))
    (project / "data/web/b.html").write_bytes(b"")
    (project / "data/web/c.bin").write_bytes(b"\0\1")
    with zipfile.ZipFile(project / "data/web/d.zip", "w") as archive:
        archive.writestr("in/e.html.gz", gzip.compress(b"<p>two</p>"))
    lines = [json.dumps({"n": i, "said": f"说 {i}"}) for i in range(5)]
    (project / "data/talk/t.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines, "no json"]).encode()))
    (project / "params.yaml").write_text(yaml.safe_dump({"sources": SOURCES}))
    return project


def test_records_are_committed_and_counted_and_faults_are_put_aside(filled: Path) -> None:
    ingest.main()
    raw = Snapshot.load("raw", filled).to_table().to_pylist()
    faults = Snapshot.load("ingest_quarantine", filled).to_table().to_pylist()
    assert [row["payload"] for row in raw] == [
        "<p>网页 one</p>".encode("gb18030"), b"<p>two</p>", *(f"说 {i}".encode() for i in range(5)),
    ]  # fmt: skip
    assert sorted((fault["source"], fault["uri"], fault["error"]) for fault in faults) == [
        ("talk", "data/talk/t.jsonl.gz", "NotJson"), ("web", "data/web/b.html", "Empty"), ("web", "data/web/c.bin", "UnknownFormat"),
    ]  # fmt: skip
    metrics = json.loads((filled / "metrics/ingest.json").read_text())
    assert {name: (entry["records"], entry["kind"]) for name, entry in metrics["sources"].items()} == {
        "talk": (5, "dialogue"), "web": (2, "web"),
    }  # fmt: skip
    assert metrics["quarantined"] == {"talk.NotJson": 1, "web.Empty": 1, "web.UnknownFormat": 1}


def test_every_record_is_read_back_from_its_locator(filled: Path) -> None:
    ingest.main()
    specs = parse_specs(SOURCES)
    for row in Snapshot.load("raw", filled).to_table().to_pylist():
        assert read_payload(filled, row, specs) == row["payload"]


def test_a_second_run_gives_the_same_table(filled: Path) -> None:
    digests = []
    for _ in range(2):
        ingest.main()
        digests.append(Snapshot.load("raw", filled).digest)
    assert digests[0] == digests[1]


def test_changed_content_under_one_id_keeps_its_doc_id(filled: Path) -> None:
    ingest.main()
    before = {row["payload"]: row["doc_id"] for row in Snapshot.load("raw", filled).to_table().to_pylist()}
    lines = [json.dumps({"n": i, "said": f"changed {i}"}) for i in range(5)]
    (filled / "data/talk/t.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    ingest.main()
    after = {row["payload"]: row["doc_id"] for row in Snapshot.load("raw", filled).to_table().to_pylist()}
    assert [after[f"changed {i}".encode()] for i in range(5)] == [before[f"说 {i}".encode()] for i in range(5)]
    assert after[b"<p>two</p>"] == before[b"<p>two</p>"]
