"""clean: raw -> documents, edits, clean_decisions, clean_quarantine. Bytes become text, and the pipeline runs over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import schema
from dataplane.engine.tables import TableTask
from dataplane.lineage.record import StageRun, stage_main
from dataplane.params import digest
from dataplane.pipeline import CleanParams, Outcome, Pipeline, Step, build, documents_schema, quarantine_batch, text_hash
from dataplane.snapshot import Snapshot
from dataplane.sources.decode import decode

UNIT_ROWS = 2048
BATCH_ROWS = 512
COLUMNS = ["doc_id", "source", "kind", "uri", "member", "offset", "url", "mime", "charset", "payload"]
DECODE_VERSION = "1"  # bump when decode gives another text for some payload


class Clean(TableTask):
    """Cleans one range of rows of `raw`."""

    def __init__(self, root: Path, raw: Snapshot, steps: list[Step], run_id: str) -> None:
        tables = {
            "documents": documents_schema(build(steps)),
            "edits": schema.EDITS,
            "clean_decisions": schema.DECISIONS,
            "clean_quarantine": schema.QUARANTINE,
        }
        super().__init__(root, tables)
        self.raw, self.steps, self.run_id = raw, steps, run_id

    def open(self) -> None:
        """Loads the operators."""
        self.pipeline = Pipeline(self.steps, self.run_id)
        self.pipeline.open()

    def run(self, unit: tuple[int, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Cleans the rows from `unit[0]`, `unit[1]` of them."""
        scanner = self.raw.dataset().scanner(columns=COLUMNS, offset=unit[0], limit=unit[1], batch_size=BATCH_ROWS, scan_in_order=True)
        for batch in scanner.to_batches():
            decoded, edits = _decode(batch, self.run_id)
            outcome = self.pipeline.run(decoded)
            yield "edits", edits
            yield from _rows(outcome)


def _rows(outcome: Outcome) -> Iterator[tuple[str, pa.RecordBatch]]:
    if outcome.documents is not None:
        yield "documents", outcome.documents
    for batch in outcome.edits:
        yield "edits", batch
    for batch in outcome.decisions:
        yield "clean_decisions", batch
    if outcome.quarantine:
        yield "clean_quarantine", quarantine_batch(outcome.quarantine)


def _decode(batch: pa.RecordBatch, run_id: str) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Bytes to text, and the edits of the rows that were not plain UTF-8."""
    texts, edits = [], []
    op_id = digest({"name": "decode", "version": DECODE_VERSION})
    for row in batch.to_pylist():
        payload = row["payload"]
        result = decode(payload, row["mime"], row["charset"])
        texts.append(result.text)
        kinds = {"charset_" + result.charset.replace("-", "_"): 0 if result.charset == "utf-8" else 1, "undecodable": result.replaced}
        for kind, count in kinds.items():
            if count:
                edits.append({
                    "doc_id": row["doc_id"], "run_id": run_id, "operator": "decode", "op_id": op_id, "kind": kind, "count": count,
                    "hash_before": _bytes_hash(payload), "hash_after": text_hash(result.text),
                })  # fmt: skip
    kept = {name: batch.column(name) for name in ("doc_id", "source", "kind", "url", "mime")}
    decoded = pa.record_batch(kept | {"text": pa.array(texts, pa.large_string())})
    return decoded, pa.RecordBatch.from_pylist(edits, schema=schema.EDITS)


def _bytes_hash(payload: bytes) -> str:
    import xxhash

    return xxhash.xxh3_128_hexdigest(payload)


def _counts(run: StageRun, written: dict[str, Snapshot]) -> dict[str, Any]:
    """How many rows were decided on, and why: read from the committed tables, not from memory."""
    import duckdb

    edits = written["edits"].to_table(columns=["operator", "kind", "count"])
    decisions = written["clean_decisions"].to_table(columns=["doc_id", "operator", "reason"])
    connection = duckdb.connect()
    connection.register("e", edits)
    connection.register("d", decisions)
    return {
        "edits": {
            f"{operator}.{kind}": {"documents": documents, "edits": count}
            for operator, kind, documents, count in connection.execute(
                "SELECT operator, kind, count(*), sum(count)::BIGINT FROM e GROUP BY ALL ORDER BY ALL"
            ).fetchall()
        },
        "reasons": {
            f"{operator}.{reason}": count
            for operator, reason, count in connection.execute(
                "SELECT operator, reason, count(*) FROM d GROUP BY ALL ORDER BY ALL"
            ).fetchall()
        },
        "dropped": connection.execute("SELECT count(DISTINCT doc_id) FROM d").fetchone()[0],
    }


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("clean", inputs=("raw",), params=("clean",)) as run:
        params = CleanParams.parse(run.params["clean"], where="clean")
        raw = run.inputs["raw"]
        task = Clean(run.root, raw, params.pipeline, run.run_id)
        op_ids = {operator.name: operator.op_id for operator in build(params.pipeline)}
        run.used(op_ids)
        units = [(start, min(UNIT_ROWS, raw.rows - start)) for start in range(0, raw.rows, UNIT_ROWS)]
        written = run.map(task, units, identity={"op_ids": op_ids})
        counts = _counts(run, written)
        dropped = counts.pop("dropped")
        run.account(rows_in=raw.rows, kept=written["documents"].rows, dropped=dropped, quarantined=written["clean_quarantine"].rows)
        run.metrics(counts)


if __name__ == "__main__":
    stage_main(main)
