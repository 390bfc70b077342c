"""The data stages over a small corpus of several kinds: same digests for any number of workers and after kills, books that add up."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dataplane.lake.sql import ask, connect
from dataplane.lineage.query import payload, why
from dataplane.snapshot import Snapshot
from tests.faults.corpus import STAGES, TABLES, make


def run(root: Path, stage: str, workers: int = 1, kill_after: float | None = None) -> int:
    environment = os.environ | {"TERRAPLANE_WORKERS": str(workers)}
    process = subprocess.Popen([sys.executable, "-m", f"dataplane.stages.{stage}"], cwd=root, env=environment, stderr=subprocess.PIPE)
    if kill_after is not None:
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    if process.returncode and kill_after is None:
        raise AssertionError(errors.decode())
    return process.returncode


def digests(root: Path) -> dict[str, str]:
    return {table: Snapshot.load(table, root).digest for table in TABLES}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after an undisturbed run with one worker."""
    root = make(tmp_path_factory.mktemp("undisturbed") / "project")
    for stage in STAGES:
        run(root, stage)
    return root


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_two_workers_give_the_digests_of_one(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "project")
    for stage in STAGES:
        run(root, stage, workers=2)
    assert digests(root) == digests(done)
    assert (root / "models/tokenizer/tokenizer.json").read_bytes() == (done / "models/tokenizer/tokenizer.json").read_bytes()


def test_killed_stages_end_with_the_digests_of_an_undisturbed_run(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "project")
    rng = random.Random(1)
    for stage in STAGES:
        run(root, stage, kill_after=rng.uniform(0.2, 2.5))
        run(root, stage)
    assert digests(root) == digests(done)


def test_every_record_is_accounted_for(done: Path) -> None:
    for stage in STAGES:
        metrics = json.loads((done / "metrics" / f"{stage}.json").read_text())
        rows = metrics.get("rows")
        if rows:
            assert rows["in"] == rows["kept"] + rows["dropped"] + rows["quarantined"], stage
    found = ask(connect(done), "SELECT source, error FROM quarantine ORDER BY 1, 2").to_pylist()
    assert found == [{"source": "en", "error": "NotJson"}, {"source": "web", "error": "Empty"}]


def test_each_raw_payload_is_read_back_from_its_file(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(done)
    doc_ids = Snapshot.load("raw").to_table(columns=["doc_id"]).column("doc_id").to_pylist()
    assert len(doc_ids) == 63 + 25 + 1
    for doc_id in doc_ids:
        stored, found = payload(doc_id)
        assert stored == found


def doc_id_of(root: Path, where: str) -> str:
    return ask(connect(root), f"SELECT doc_id FROM raw WHERE {where}").to_pylist()[0]["doc_id"]


def test_why_tells_each_kind_of_fate(done: Path) -> None:
    leak = why(doc_id_of(done, "source = 'en' AND contains(payload::VARCHAR, 'SEVEN RIVERS')"), done)
    assert leak["verdict"] == "dropped in decontaminate"
    assert [(hit["benchmark"], hit["item_id"], hit["covered"]) for hit in leak["contamination"]] == [("bench", "q1", 1.0)]

    pii = why(doc_id_of(done, "source = 'en' AND contains(payload::VARCHAR, 'ann.lee')"), done)
    assert [(edit["operator"], edit["kind"], edit["count"]) for edit in pii["edits"]] == [("scrub_pii", "email", 1)]

    page = why(doc_id_of(done, "source = 'web'"), done)
    assert page["edits"][0]["operator"] == "html_text"
    text = ask(connect(done), "SELECT text FROM documents WHERE source = 'web'").to_pylist()[0]["text"]
    assert "About us" not in text
    assert page["document"]["html_text"]["title"] == "A page"

    duplicates = Snapshot.load("duplicates", done).to_table().to_pylist()
    dropped = [row for row in duplicates if not row["kept"]]
    assert [(row["how"], row["similarity"]) for row in dropped if row["how"] == "exact"] == [("exact", 1.0)]
    assert why(dropped[0]["doc_id"], done)["verdict"].startswith("dropped in dedup: ")


def test_chinese_files_in_gb18030_are_decoded(done: Path) -> None:
    found = ask(connect(done), "SELECT count(*) AS n FROM edits WHERE operator = 'decode' AND kind = 'charset_gb18030'").to_pylist()
    assert found == [{"n": 12}]


def test_held_out_documents_are_not_trained_on(done: Path) -> None:
    held_out = set(Snapshot.load("held_out", done).to_table().column("doc_id").to_pylist())
    spans = Snapshot.load("packed", done).to_table(columns=["spans"]).column("spans").to_pylist()
    packed = {span["doc_id"] for row in spans for span in row}
    mixture = set(Snapshot.load("mixture", done).to_table().column("doc_id").to_pylist())
    assert packed == mixture
    assert packed & held_out == set()
    assert len(held_out) >= 2


def test_moving_the_project_changes_no_digest(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "another" / "place" / "project")
    run(root, "ingest")
    assert Snapshot.load("raw", root).digest == Snapshot.load("raw", done).digest
