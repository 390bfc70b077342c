"""clean: raw -> documents, edits, clean_decisions, clean_quarantine. Bytes become text, and the pipeline runs over it.

What was cleaned before is not cleaned again: a range of `raw` whose content and pipeline are known keeps its rows, a range in which
some records are new takes over those of the others, and where only annotators changed, their columns are computed from the stored
text and put beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.engine.rows import I64, Part, RowsTask, read_rows
from dataplane.engine.tables import Present, Result
from dataplane.engine.units import Unit, ranges
from dataplane.lineage.columns import made_by
from dataplane.lineage.record import StageRun, stage_main
from dataplane.params import digest
from dataplane.pipeline import (
    READ_ROWS,
    CleanParams,
    Outcome,
    Pipeline,
    Step,
    batches,
    build,
    documents_schema,
    quarantine_batch,
    text_hash,
)
from dataplane.pipeline_change import Earlier, EarlierRun, find_earlier, planned, renew, to_json
from dataplane.snapshot import Snapshot
from dataplane.sources.decode import decode

UNIT_ROWS = 2048
COLUMNS = ["doc_id", "source", "kind", "url", "mime", "charset", "payload"]
DECODE_VERSION = "2"  # bump when decode gives another text for some payload


@dataclass(frozen=True)
class Work:
    """One range of rows of `raw`.

    Attributes:
        part: The rows.
        earlier: What an earlier pipeline made of them, where its documents can serve again.
        result: What it left behind.
    """

    part: Part
    earlier: Earlier | None = None
    result: Any = None


class Clean(RowsTask):
    """Cleans one range of rows of `raw`."""

    def __init__(self, root: Path, raw: Snapshot, steps: list[Step], run_id: str) -> None:
        super().__init__(root, tables(steps), [raw], COLUMNS)
        self.steps, self.run_id = steps, run_id

    def open(self) -> None:
        """Loads the operators."""
        super().open()
        self.pipeline = Pipeline(self.steps, self.run_id)
        self.pipeline.open()

    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        """Ranges of rows, known by the fragment that they are a part of."""
        return [Unit(unit.key, np.arange(unit.work[0], sum(unit.work))) for unit in ranges(inputs[0], UNIT_ROWS)]

    def new_bytes(self, works: Sequence[Work]) -> int:
        """Bytes of the payloads that have to be worked on: a web page of 150 kB takes as long as a hundred short texts."""
        raw = self.inputs[0].open()
        return sum(batch.nbytes for work in works for batch in read_rows(raw, work.part.new(), ["payload"], READ_ROWS))

    def work(self, unit: Work) -> Result:
        """The range's rows: only the columns that are new, where the rest is there."""
        renewed = renew(self.root, self.pipeline, unit.earlier, Result.parse(unit.result)) if unit.earlier else None
        return renewed or super().work(unit.part)

    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Cleans rows from the raw bytes."""
        for batch in batches(read_rows(self.inputs[0].open(), rows, COLUMNS, READ_ROWS)):
            decoded, edits = _decode(batch, self.run_id)
            outcome = self.pipeline.run(decoded)
            yield "edits", edits
            yield from _rows(outcome)


def tables(steps: list[Step]) -> dict[str, pa.Schema]:
    """What the stage writes."""
    return {
        "documents": documents_schema(build(steps)),
        "edits": schema.EDITS,
        "clean_decisions": schema.DECISIONS,
        "clean_quarantine": schema.QUARANTINE,
    }


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


def _with_earlier(unit: Unit, earlier: Sequence[EarlierRun], present: Present) -> Unit:
    for run in earlier:
        result = run.result(unit.key)
        if result is not None and present(result):
            return Unit(unit.key, Work(unit.work, run.documents, result), unit.rows)
    return Unit(unit.key, Work(unit.work), unit.rows)


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("clean", inputs=("raw",), params=("clean",)) as run:
        params = CleanParams.parse(run.params["clean"], where="clean")
        raw, operators = run.inputs["raw"], build(params.pipeline)
        plan = planned(params.pipeline, operators)
        op_ids = {operator.name: operator.op_id for operator in operators}
        run.used(op_ids)
        run.came_from("documents", columns=made_by(operators))
        journal = run.journal(pipeline=to_json(plan), decode=DECODE_VERSION)
        earlier = find_earlier(journal, plan, operators, run.root)
        task, present = Clean(run.root, raw, params.pipeline, run.run_id), Present(run.root)
        units = [_with_earlier(unit, earlier, present) for unit in task.units(journal)]
        written = run.map(task, units, journal)
        journal.note({"pipeline": to_json(plan), **task.made(written)})
        counts = _counts(run, written)
        dropped = counts.pop("dropped")
        run.account(rows_in=raw.rows, kept=written["documents"].rows, dropped=dropped, quarantined=written["clean_quarantine"].rows)
        run.metrics(counts)


if __name__ == "__main__":
    stage_main(main)
