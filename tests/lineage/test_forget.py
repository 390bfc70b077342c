"""Who is meant by `forget`, what descends from a document, and that ingest leaves it out from then on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from dataplane import schema, tombstones
from dataplane.errors import DataError, UsageError
from dataplane.lineage.forget import Chosen, bury, choose, copies, descendants
from dataplane.snapshot import Snapshot
from dataplane.stages import ingest

Put = Callable[[str, pa.Table], Snapshot]


def rows_of(table: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(table.names) | row for row in rows], schema=table)


A, B, C, D = (letter * 32 for letter in "abcd")


@pytest.fixture
def lake(project: Path, put: Put) -> Path:
    """Four documents, of which C is a copy of A and D a near-duplicate of B; a model that saw some, and two made of it."""
    records = [(A, "web", "http://h.test/a"), (B, "web", "http://h.test/b"), (C, "mail", None), (D, "web", "http://h.test/d")]
    put("raw", rows_of(schema.RAW, [
        {"doc_id": i, "source": s, "url": u, "uri": f"data/{i[0]}.txt", "payload": b"x"} for i, s, u in records
    ]))  # fmt: skip
    put("documents", rows_of(schema.DOCUMENTS, [
        {"doc_id": i, "source": s, "url": u, "text": f"text of {i[0]}", "text_hash": "same" if i in (A, C) else i} for i, s, u in records
    ]))  # fmt: skip
    put("duplicates", rows_of(schema.DUPLICATES, [
        {"doc_id": B, "cluster_id": B, "kept": True, "representative": B, "similarity": 1.0, "how": "minhash"},
        {"doc_id": D, "cluster_id": B, "kept": False, "representative": B, "similarity": 0.9, "how": "minhash"},
    ]))  # fmt: skip
    spans = {0: [A], 1: [A, B], 2: [C], 3: [B, B]}
    packed = put("packed", rows_of(schema.packed(4), [
        {"seq_id": i, "n_tokens": 4, "input_ids": [1, 2, 3, 4],
         "spans": [{"doc_id": d, "seq_start": 0, "doc_start": 0, "length": 1} for d in ids]} for i, ids in spans.items()
    ]))  # fmt: skip
    put("consumed", rows_of(schema.CONSUMED, [
        {"run_id": "r1", "stage": "pretrain", "step": step, "seq_ids": seq_ids} for step, seq_ids in ((1, [2, 3]), (2, [0]), (3, [1, 2]))
    ]))  # fmt: skip
    put("checkpoints", rows_of(schema.CHECKPOINTS, [
        {"run_id": "r1", "stage": "pretrain", "step": 1, "digest": "w1", "data_digest": packed.digest, "path": "models/pretrain/1"},
        {"run_id": "r1", "stage": "pretrain", "step": 3, "digest": "w3", "data_digest": packed.digest, "path": "models/pretrain"},
        {"run_id": "r0", "stage": "pretrain", "step": 9, "digest": "w0", "data_digest": "f" * 32, "path": "models/old"},
    ]))  # fmt: skip
    put("evals", rows_of(schema.EVALS, [
        {"run_id": "e", "checkpoint": c, "stage": "x", "task": "t", "group": "all", "metric": "m", "value": 1.0} for c in ("w1", "w3", "s1")
    ]))  # fmt: skip
    (project / "models/sft").mkdir(parents=True)
    (project / "models/sft/run.json").write_text(json.dumps({"digest": "s1", "parent": "w3", "stage": "sft", "steps": 5}))
    return project


def test_a_document_is_meant_by_id_by_address_or_by_predicate(lake: Path) -> None:
    def ids(chosen: Chosen) -> list[str]:
        return list(choose(chosen, lake).column("doc_id").to_pylist())

    assert ids(Chosen(doc_ids=["aaaa"], urls=["http://h.test/d"])) == [A, D]
    assert ids(Chosen(match="source = 'mail' OR text LIKE '%of b'")) == [B, C]
    assert ids(Chosen(doc_ids=[A], copies=True)) == [A, C]
    assert ids(Chosen(urls=["http://h.test/b"], copies=True)) == [B, D]


def test_who_is_not_there_is_said(lake: Path) -> None:
    with pytest.raises(DataError, match="no record fits"):
        choose(Chosen(urls=["http://h.test/x"]), lake)
    with pytest.raises(UsageError, match="no document is named"):
        choose(Chosen(), lake)
    with pytest.raises(UsageError):
        choose(Chosen(match="nothing ="), lake)


def test_copies_are_named_with_what_they_copy(lake: Path) -> None:
    assert copies([A, B], lake) == [
        {"doc_id": C, "like": A, "how": "same text"},
        {"doc_id": D, "like": B, "how": "minhash"},
    ]


def test_everything_that_descends_from_a_document_is_listed(lake: Path) -> None:
    packed = Snapshot.load("packed", lake).digest
    assert descendants([A], lake) == {
        "rows": {"documents": 1, "packed": 2, "raw": 1},
        "sequences": [{"packed": packed, "seq_id": 0}, {"packed": packed, "seq_id": 1}],
        "steps": [
            {"run_id": "r1", "stage": "pretrain", "step": 2, "seq_ids": [0]},
            {"run_id": "r1", "stage": "pretrain", "step": 3, "seq_ids": [1]},
        ],
        "checkpoints": [
            {"digest": "w3", "stage": "pretrain", "run_id": "r1", "step": 3, "path": "models/pretrain"},
            {"digest": "s1", "stage": "sft", "run_id": None, "step": 5, "path": "models/sft"},
        ],
        "scores": [
            {"checkpoint": c, "stage": "x", "task": "t", "group": "all", "metric": "m", "value": 1.0} for c in ("w3", "s1")
        ],
        "untold": ["f" * 32],
    }  # fmt: skip
    assert (descendants([D], lake)["sequences"], descendants([D], lake)["scores"]) == ([], [])
    assert [row["step"] for row in descendants([C], lake)["steps"]] == [1, 3]


def test_a_tombstone_has_an_id_and_a_reason_and_no_address(lake: Path) -> None:
    bury(choose(Chosen(doc_ids=[A]), lake), "request 7", lake)
    bury(choose(Chosen(doc_ids=[A, B]), lake), "request 8", lake)
    assert [(t.doc_id, t.why) for t in tombstones.read(lake)] == [(A, "request 7"), (B, "request 8")]
    text = (lake / tombstones.FILE).read_text()
    assert [word for word in ("h.test", "data/", ".txt", "text of") if word in text] == []


def test_a_damaged_list_of_tombstones_stops_everything(lake: Path) -> None:
    (lake / tombstones.FILE).write_text('{"doc_id": "a')
    with pytest.raises(DataError, match="damaged"):
        tombstones.read(lake)


@pytest.fixture
def files(project: Path) -> Path:
    """Two sources of JSON lines."""
    for source in ("one", "two"):
        (project / "data" / source).mkdir(parents=True)
        for i in range(4):
            lines = [json.dumps({"text": f"{source} {i} {j}", "url": f"http://h.test/{source}/{i}/{j}"}) for j in range(3)]
            (project / "data" / source / f"{i}.jsonl").write_text("\n".join(lines))
    sources = [{"name": name, "kind": "prose", "paths": [f"data/{name}/*.jsonl"]} for name in ("one", "two")]
    (project / "params.yaml").write_text(yaml.safe_dump({"sources": sources}))
    return project


def test_a_forgotten_document_does_not_come_back(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "UNIT_BYTES", 1)  # a unit for each file
    ingest.main()
    before = Snapshot.load("raw", files).to_table().to_pylist()
    bury(choose(Chosen(urls=["http://h.test/two/1/2"]), files), "request 9", files)
    ingest.main()
    after = Snapshot.load("raw", files).to_table().to_pylist()
    assert after == [row for row in before if row["url"] != "http://h.test/two/1/2"]
    (effort,) = [r["effort"]["done"] for r in map(_json, (files / "lake/runs").glob("*.json")) if r["rows"].get("dropped")]
    books = _json(files / "metrics/ingest.json")
    assert (effort, books["rows"], books["forgotten"]) == (1, {"in": 24, "kept": 23, "dropped": 1, "quarantined": 0}, 1)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
