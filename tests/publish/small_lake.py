"""A small lake as the pipeline would leave it: tables, run records and a tokenizer, with text that formats trip over."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import schema
from dataplane.snapshot import Snapshot, commit_parts, write_part

TEXTS = {
    "a" * 32: "The first text.\nIt has two lines, and a tab:\t.",
    "b" * 32: "第二篇文字，有“引号”和\\反斜杠。",
    "c" * 32: 'A third one: "quotes", \u2028 a line separator, \x00 a null, \r\n and 🦀.',
    "d" * 32: "",
    "e" * 32: "Held out, to be measured on.",
    "f" * 32: "Dropped by a rule and published by nobody.",
}
IDS = list(TEXTS)
MIXTURE = [IDS[2], IDS[0], IDS[3], IDS[1], IDS[0]]
EOS_ID = 0
SEQUENCE_LENGTH = 8
SCORES = [0.9, float("nan"), None, float("inf"), 0.25, 0.5]

DOCUMENTS = pa.record_batch({
    "doc_id": pa.array(IDS), "source": ["web", "news", "web", "web", "books", "web"], "kind": ["web", "news", "web", "web", "books", "web"],
    "url": ["https://example.org/1", None, None, None, None, None], "mime": ["text/plain"] * 6,
    "n_bytes": pa.array([len(text.encode()) for text in TEXTS.values()], pa.int64()),
    "text_hash": [f"{i:032x}" for i in range(6)], "text": pa.array(list(TEXTS.values()), pa.large_string()),
    "language__lang": ["en", "zh", "en", None, "en", "en"], "language__score": pa.array(SCORES, pa.float32()),
}, schema=pa.schema([*schema.DOCUMENTS, ("language__lang", pa.string()), ("language__score", pa.float32())]))  # fmt: skip


def token_lists() -> dict[str, list[int]]:
    """Tokens of each document: what is said of them is only that they differ, and that one has none."""
    return {doc_id: [1 + (7 * i + j) % 250 for j in range(0 if not text else 5 + i)] for i, (doc_id, text) in enumerate(TEXTS.items())}


def ids(*doc_ids: str) -> pa.RecordBatch:
    """A table of ids."""
    return pa.record_batch({"doc_id": pa.array(doc_ids, pa.string())}, schema=schema.IDS)


def tables() -> dict[str, pa.RecordBatch]:
    """Name -> rows, in the order in which the stages write them."""
    return {
        "raw": _raw(), "documents": DOCUMENTS, "edits": _edits(), "selected": ids(*IDS[:5]), "select_decisions": _decisions(),
        "deduplicated": ids(*IDS[:5]), "contamination": _contamination(), "decontaminated": ids(*IDS[:5]),
        "held_out": pa.record_batch({"doc_id": [IDS[4]], "source": ["books"], "kind": ["books"]}, schema=schema.HELD_OUT),
        "mixture": _mixture(), "tokens": _tokens(), "packed": _packed(),
    }  # fmt: skip


def _batch(rows: list[dict[str, Any]], columns: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=columns)


def _raw() -> pa.RecordBatch:
    return pa.record_batch({
        "doc_id": pa.array(IDS), "source": DOCUMENTS["source"], "payload": pa.array([b"raw"] * 6, pa.large_binary()),
    })  # fmt: skip


def _edits() -> pa.RecordBatch:
    scrubbed = [(IDS[0], "scrub_pii", "email", 2), (IDS[0], "scrub_pii", "phone", 1), (IDS[1], "scrub_pii", "email", 3)]
    made = [*scrubbed, (IDS[2], "html_text", "html", 1)]
    return _batch(
        [{"doc_id": doc_id, "run_id": "r", "operator": operator, "kind": kind, "count": count} for doc_id, operator, kind, count in made],
        schema.EDITS,
    )


def _decisions() -> pa.RecordBatch:
    reasons = [("gopher_quality", "too_few_words"), ("language", "low_confidence")]
    return _batch(
        [{"doc_id": IDS[5], "stage": "select", "operator": operator, "reason": reason} for operator, reason in reasons], schema.DECISIONS
    )


def _contamination() -> pa.RecordBatch:
    return _batch([{"doc_id": IDS[5], "benchmark": "quiz", "item_id": "1", "n": 13, "hits": 2, "covered": 0.5}], schema.CONTAMINATION)


def _mixture() -> pa.RecordBatch:
    """Stored in another order than that of the positions."""
    rows = [
        {"doc_id": doc_id, "source": "web", "kind": "web", "weight": 1.0, "epoch": int(i == 4), "position": i}
        for i, doc_id in enumerate(MIXTURE)
    ]
    return _batch(rows[::-1], schema.MIXTURE)


def _tokens() -> pa.RecordBatch:
    tokens = token_lists()
    return _batch([{"doc_id": i, "n_tokens": len(tokens[i]), "n_words": 1, "input_ids": tokens[i]} for i in IDS[:5]], schema.TOKENS)


def sequences() -> list[list[int]]:
    """The packed sequences."""
    return [list(range(i * SEQUENCE_LENGTH, (i + 1) * SEQUENCE_LENGTH)) for i in range(3)]


def _packed() -> pa.RecordBatch:
    rows = [
        {
            "seq_id": i,
            "n_tokens": SEQUENCE_LENGTH,
            "input_ids": sequence,
            "spans": [{"doc_id": MIXTURE[i], "seq_start": 0, "doc_start": 0, "length": SEQUENCE_LENGTH}],
        }
        for i, sequence in enumerate(sequences())
    ]
    return _batch(rows, schema.packed(SEQUENCE_LENGTH))


@dataclass(frozen=True)
class Run:
    """What a stage's record says."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: dict[str, Any]
    counts: tuple[int, int, int, int]  # in, kept, dropped, quarantined
    op_ids: dict[str, str] = field(default_factory=dict)


SOURCES = [
    {"name": "web", "kind": "web", "paths": ["/home/somebody/web/*.warc.gz"], "license": "MIT"},
    {"name": "news", "kind": "news", "paths": ["news/*"], "license": None},
    {"name": "books", "kind": "books", "paths": ["books/*"], "license": "ODC-By-1.0"},
]
BENCHMARKS = [{"name": "quiz", "paths": ["quiz.jsonl"]}, {"name": "unseen", "paths": ["unseen.jsonl"]}]
STAGES = {
    "ingest": Run((), ("raw",), {"sources": SOURCES}, (6, 6, 0, 0)),
    "clean": Run(("raw",), ("documents", "edits"), {"clean": {"pipeline": [{"use": "scrub_pii"}]}}, (6, 6, 0, 0), {"scrub_pii": "1" * 32}),
    "select": Run(
        ("documents",),
        ("selected", "select_decisions"),
        {"select": {"rules": [{"use": "gopher_quality", "params": {"min_words": 3}}]}},
        (6, 5, 1, 0),
        {"gopher_quality": "2" * 32},
    ),
    "dedup": Run(("documents", "selected"), ("deduplicated",), {"dedup": {"minhash": {"bands": 14}}}, (5, 5, 0, 0)),
    "decontaminate": Run(
        ("documents", "deduplicated"), ("decontaminated", "contamination"), {"decontaminate": {"benchmarks": BENCHMARKS}}, (5, 5, 0, 0)
    ),
    "mix": Run(("documents", "decontaminated"), ("held_out", "mixture"), {"mix": {"by": "kind"}}, (5, 5, 0, 0)),
    "tokenize": Run(("documents", "mixture", "held_out"), ("tokens",), {"tokenize": {}}, (5, 5, 0, 0)),
    "pack": Run(("mixture", "tokens"), ("packed",), {"pack": {"sequence_length": SEQUENCE_LENGTH}}, (5, 5, 0, 0)),
}


def make(project: Path, rows_together: int = 1 << 20) -> dict[str, Snapshot]:
    """Writes the lake, in fragments of so many rows: name -> snapshot."""
    snapshots = {name: _put(project, name, rows, rows_together) for name, rows in tables().items()}
    write_runs(project, snapshots)
    write_tokenizer(project)
    return snapshots


def _put(project: Path, name: str, rows: pa.RecordBatch, rows_together: int) -> Snapshot:
    parts = [write_part(name, rows.schema, [rows.slice(start, rows_together)], project) for start in range(0, rows.num_rows, rows_together)]
    return commit_parts(name, rows.schema, parts, project)


def write_runs(project: Path, snapshots: dict[str, Snapshot]) -> None:
    """The run records of STAGES."""
    (project / "lake" / "runs").mkdir(parents=True, exist_ok=True)
    for i, (stage, run) in enumerate(STAGES.items()):
        values = {
            "run_id": f"run-{stage}", "stage": stage, "status": "COMPLETE", "started_at": f"2026-01-01T00:0{i}:00+00:00", "seconds": 1.0,
            "version": "0.1.0", "params": run.params, "params_digest": f"{i:032x}", "op_ids": run.op_ids, "workers": 1, "error": None,
            "rows": dict(zip(("in", "kept", "dropped", "quarantined"), run.counts, strict=True)),
            "inputs": {name: snapshots[name].digest for name in run.inputs},
            "outputs": {name: snapshots[name].digest for name in run.outputs},
        }  # fmt: skip
        (project / "lake" / "runs" / f"run-{stage}.json").write_text(json.dumps(values))


def write_tokenizer(project: Path) -> None:
    """A tokenizer trained on TEXTS."""
    from dataplane.corpus import tokenizer
    from dataplane.corpus.tokenizer import TokenizerParams

    params = TokenizerParams.parse({"vocab_size": 300}, where="tokenizer")
    tokenizer.save(tokenizer.train([pa.array(list(TEXTS.values()))], params), project / tokenizer.FOLDER)
