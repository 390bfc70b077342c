"""ingest: raw files -> raw, ingest_quarantine. Every record with its locator; what cannot be read is put aside with the reason."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema, tombstones
from dataplane.engine.tables import TableTask
from dataplane.engine.units import Unit, content_groups
from dataplane.errors import DataError
from dataplane.kernels.members import Members
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.params import digest
from dataplane.snapshot import Snapshot
from dataplane.sources.files import InputFile, SourceSpec, expand, parse_specs
from dataplane.sources.records import Reader, check_formats
from dataplane.tombstones import Tombstone, file_hash

UNIT_BYTES = 8 << 20


class Ingest(TableTask):
    """Reads a group of files, and leaves out what is to be forgotten."""

    def __init__(self, root: Path, specs: Sequence[SourceSpec], forgotten: Sequence[str], run_id: str) -> None:
        super().__init__(root, {"raw": schema.RAW, "ingest_quarantine": schema.QUARANTINE})
        self.specs, self.forgotten, self.run_id = list(specs), list(forgotten), run_id

    def run(self, unit: Sequence[InputFile]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The records of the files, in order."""
        forgotten = Members.of(pa.array(self.forgotten, pa.string()))
        for file in unit:
            reader = Reader(self.specs[file.spec], file, self.run_id)
            for table, batch in reader.batches():
                kept = batch if table != "raw" else batch.filter(pa.array(~forgotten.hold(batch.column("doc_id"))))
                self.counts["forgotten"] += len(batch) - len(kept)
                if len(kept):
                    self._count(table, kept)
                    yield table, kept
            self.counts["found"] += reader.found

    def _count(self, table: str, batch: pa.RecordBatch) -> None:
        """Records and bytes of a batch, which has one source and kind, by format."""
        if table != "raw":
            return
        first = [batch.column(name)[0].as_py() for name in ("source", "kind")]
        sizes = pa.table({"format": batch.column("format"), "bytes": pc.binary_length(batch.column("payload"))})
        for row in sizes.group_by("format").aggregate([("bytes", "sum"), ("bytes", "count")]).to_pylist():
            for what, count in (("records", row["bytes_count"]), ("bytes", row["bytes_sum"])):
                self.counts[json.dumps([*first, row["format"], what])] += count


def units(files: Sequence[InputFile], specs: Sequence[SourceSpec], forgotten: Sequence[Tombstone]) -> list[Unit]:
    """Neighbouring files together, so that a unit is worth a worker's while; a file that comes or goes moves no border far off."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # hashing lets go of the interpreter
        digests = dict(zip(files, threads.map(lambda file: file_digest(file.path), files), strict=True))
    found = []
    buried: dict[str, list[str]] = defaultdict(list)
    for tombstone in forgotten:
        buried[tombstone.file].append(tombstone.doc_id)
    for group in content_groups(files, UNIT_BYTES, weight=lambda file: file.path.stat().st_size, name=lambda file: file.uri):
        content = [
            (file.uri, file.key, digests[file], specs[file.spec].model_dump(mode="json"), sorted(buried[file_hash(file.uri)]))
            for file in group
        ]
        found.append(Unit(digest(content), group))
    return found


def _sources(counts: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Source -> kind, formats, records and bytes of payload, from what the units counted."""
    found: dict[str, dict[str, Any]] = {}
    for key, count in sorted(counts.items()):
        if key.startswith("["):
            source, kind, form, what = json.loads(key)
            entry = found.setdefault(source, {"kind": kind, "formats": [], "records": 0, "bytes": 0})
            entry["formats"] = sorted({*entry["formats"], form})
            entry[what] += count
    return found


def _faults(quarantine: Snapshot) -> dict[str, int]:
    """What was put aside, by source and error, from the committed table."""
    rows = quarantine.to_table(columns=["source", "error"]).group_by(["source", "error"]).aggregate([([], "count_all")]).to_pylist()
    return {f"{row['source']}.{row['error']}": row["count_all"] for row in sorted(rows, key=lambda row: (row["source"], row["error"]))}


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("ingest", params=("sources",)) as run:
        specs = parse_specs(run.params["sources"])
        check_formats(specs)
        files = expand(specs, run.root)
        forgotten = tombstones.read(run.root)
        task = Ingest(run.root, specs, [tombstone.doc_id for tombstone in forgotten], run.run_id)
        written = run.map(task, units(files, specs, forgotten), run.journal())
        raw, quarantine = written["raw"], written["ingest_quarantine"]
        if not raw.rows:
            raise DataError(
                f"none of {len(files)} files gave a record; {quarantine.rows} were put aside",
                where="ingest",
                fix="`dataplane sql 'SELECT uri, error, message FROM quarantine'` says why",
            )
        _check_ids(raw)
        run.account(rows_in=run.counts["found"], kept=raw.rows, dropped=run.counts["forgotten"], quarantined=quarantine.rows)
        run.metrics(
            {"files": len(files), "forgotten": run.counts["forgotten"], "sources": _sources(run.counts), "quarantined": _faults(quarantine)}
        )


def _check_ids(raw: Snapshot) -> None:
    """Every doc_id is there once."""
    ids = raw.to_table(columns=["doc_id"]).column("doc_id")
    if doubled := len(ids) - len(ids.unique()):
        fix = "two sources read the same record under one name: rename one"
        raise DataError(f"{doubled} doc_ids are there twice", where="ingest", fix=fix)


if __name__ == "__main__":
    stage_main(main)
