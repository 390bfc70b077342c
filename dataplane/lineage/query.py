"""Questions about one document: its whole life, and its raw bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dataplane.errors import UsageError
from dataplane.lake.sql import connect
from dataplane.lake.views import signals_by_operator
from dataplane.params import load_params
from dataplane.schema import DOC_ID_HEX_CHARS
from dataplane.snapshot import Snapshot, snapshot_path

MIN_PREFIX_CHARS = 4
LOCATOR = ("source", "kind", "format", "uri", "member", "offset", "length", "row", "url", "mime", "charset", "fetched_at", "meta")
# Ids tables in pipeline order: what a document passed.
GATES = {"select": "selected", "dedup": "deduplicated", "decontaminate": "decontaminated"}


def find_doc_id(connection: Any, prefix: str) -> str:
    """The one doc_id that starts with `prefix`.

    Raises:
        UsageError: It is no hex, too short, unknown, or several documents start with it.
    """
    prefix = prefix.lower()
    if not (MIN_PREFIX_CHARS <= len(prefix) <= DOC_ID_HEX_CHARS and all(c in "0123456789abcdef" for c in prefix)):
        fix = "`dataplane sql 'SELECT doc_id FROM documents LIMIT 5'` shows some"
        raise UsageError(f"{prefix!r} is not a doc_id: expected {MIN_PREFIX_CHARS} to {DOC_ID_HEX_CHARS} hex characters", fix=fix)
    found = connection.execute("SELECT DISTINCT doc_id FROM raw WHERE starts_with(doc_id, ?) ORDER BY 1 LIMIT 5", [prefix]).fetchall()
    if not found:
        raise UsageError(f"no document {prefix!r} in this project", fix="look it up with `dataplane sql`, for example by url")
    if len(found) > 1:
        raise UsageError(f"{prefix!r} is the start of several: {', '.join(row[0] for row in found)}", fix="give more characters")
    return str(found[0][0])


def why(doc_id: str, root: Path = Path()) -> dict[str, Any]:
    """A document's life: where from, each edit, each signal, each decision, its cluster, its sequences, its steps.

    Args:
        doc_id: The id or its start.
        root: Folder of the project.

    Raises:
        UsageError: No such document.
        DataError: `raw` is not there yet.
    """
    Snapshot.load("raw", root)
    connection = connect(root)
    doc_id = find_doc_id(connection, doc_id)
    tables = {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}

    def rows(table: str, columns: str = "*", where: str = "doc_id = ?", given: Any = doc_id) -> list[dict[str, Any]]:
        if table not in tables:
            return []
        return list(connection.sql(f'SELECT {columns} FROM "{table}" WHERE {where}', params=[given]).to_arrow_table().to_pylist())

    life: dict[str, Any] = {
        "doc_id": doc_id,
        "origin": rows("raw", ", ".join(f'"{name}"' for name in LOCATOR))[0],
        "edits": rows("edits", 'operator, kind, "count", hash_before, hash_after, run_id'),
        "document": next(iter(rows("documents", _signal_columns(root))), None),
        "decisions": [
            row | {"signals": json.loads(row["signals"])} for row in rows("decisions", "stage, operator, reason, signals, op_id, run_id")
        ],
        "quarantine": rows("quarantine", "stage, operator, error, message"),
        "duplicate": next(iter(rows("duplicates", "cluster_id, kept, representative, similarity, how")), None),
        "repeats": rows("repeats", "start, stop, tokens, how, first, first_start, effect"),
        "cuts": rows("cuts", "start, stop, how"),
        "contamination": rows("contamination", "benchmark, item_id, n, hits, covered"),
        "passed": {stage: bool(rows(table)) for stage, table in GATES.items() if table in tables},
        "held_out": bool(rows("held_out")),
        "mixture": rows("mixture", "epoch, position, weight"),
    }
    life["sequences"] = _sequences(rows, doc_id)
    life["steps"] = _steps(rows, [sequence["seq_id"] for sequence in life["sequences"]])
    life["verdict"] = _verdict(life)
    return life


def _signal_columns(root: Path) -> str:
    """Everything of `documents` but the text."""
    if not snapshot_path("documents", root).exists():
        return "*"
    operators = signals_by_operator(Snapshot.load("documents", root).schema)
    return ", ".join(["n_bytes", "text_hash", *(f'"{operator}"' for operator in operators)])


def _sequences(rows: Any, doc_id: str) -> list[dict[str, Any]]:
    found = rows(
        "packed",
        f"seq_id, list_filter(spans, lambda s: s.doc_id = '{doc_id}') AS spans",  # find_doc_id has proved it to be hex
        where="list_contains(list_transform(spans, lambda s: s.doc_id), ?)",
    )
    return [{"seq_id": row["seq_id"], **{k: v for k, v in span.items() if k != "doc_id"}} for row in found for span in row["spans"]]


def _steps(rows: Any, seq_ids: list[int]) -> list[dict[str, Any]]:
    if not seq_ids:
        return []
    return list(rows("consumed", "stage, run_id, step, epoch, loss", where="list_has_any(seq_ids, ?) ORDER BY stage, step", given=seq_ids))


def _verdict(life: dict[str, Any]) -> str:
    if life["quarantine"]:
        return f"quarantined in {life['quarantine'][0]['stage']}: {life['quarantine'][0]['error']}"
    if life["decisions"]:
        return f"dropped in {life['decisions'][0]['stage']}: " + ", ".join(f"{d['operator']}.{d['reason']}" for d in life["decisions"])
    if life["duplicate"] and not life["duplicate"]["kept"]:
        return f"dropped in dedup: {life['duplicate']['how']} duplicate of {life['duplicate']['representative']}"
    if dropped := [repeat for repeat in life["repeats"] if repeat["effect"] == "dropped"]:
        return f"dropped in dedup: {sum(repeat['tokens'] for repeat in dropped)} of its tokens stand elsewhere, as in {dropped[0]['first']}"
    if life["passed"].get("dedup") and life["passed"].get("decontaminate") is False:
        return "dropped in decontaminate"
    if life["held_out"]:
        return "held out for evaluation"
    if life["steps"]:
        return f"trained on in {len(life['steps'])} step(s)"
    if life["mixture"]:
        return "in the mixture"
    if life["passed"].get("decontaminate"):
        return "kept, but left out of the mixture"
    return "still on its way: run `dvc repro`"


def payload(doc_id: str, root: Path = Path()) -> tuple[bytes, bytes]:
    """The payload as stored, and as read again from the raw file at its locator."""
    from dataplane.sources.files import parse_specs
    from dataplane.sources.locator import read_payload

    connection = connect(root)
    doc_id = find_doc_id(connection, doc_id)
    row = Snapshot.load("raw", root).to_table(among={"doc_id": [doc_id]}).to_pylist()[0]
    specs = parse_specs(load_params(root / "params.yaml").get("sources"))
    return row["payload"], read_payload(root, row, specs)


def examples(root: Path = Path()) -> list[str]:
    """Where the report is, and three commands that have an answer in this project, as lines to print."""
    connection = connect(root)
    lines = [f"report: {(root / 'report' / 'index.html').resolve()}", "", "ask it:"]
    lines.append('  dataplane sql "SELECT operator, reason, count(*) AS documents FROM decisions GROUP BY ALL ORDER BY documents DESC"')
    step = 1
    tables = {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    if {"consumed", "packed"} <= tables:
        query = "SELECT step, seq_ids[1] FROM consumed WHERE stage = 'pretrain' ORDER BY loss DESC, step LIMIT 1"
        step, seq_id = connection.execute(query).fetchone()
        doc_id = connection.execute("SELECT spans[1].doc_id FROM packed WHERE seq_id = ?", [seq_id]).fetchone()[0]
    else:
        doc_id = connection.execute("SELECT min(doc_id) FROM documents").fetchone()[0]
    lines.append(f"  dataplane why {doc_id}")
    if "consumed" in tables:
        lines.append(f"  trainplane trace --run latest --step {step}")
    return lines
