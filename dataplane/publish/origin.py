"""What an export was made by: the stages behind its snapshots, as their run records tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.lake.runs import read_records
from dataplane.snapshot import Snapshot, open_store


@dataclass(frozen=True)
class Stage:
    """One stage that an export stands on. Nothing here differs between two equal runs.

    Attributes:
        name: Name of the stage.
        params: Its part of params.yaml, by dotted path.
        params_digest: Digest of them.
        op_ids: Operator or rule set -> identity.
        inputs: Table -> digest of what it read.
        outputs: Table -> digest of what it wrote.
        rows: in, kept, dropped, quarantined; empty where the stage keeps no such books.
        version: Version of terraplane.
    """

    name: str
    params: Mapping[str, Any]
    params_digest: str
    op_ids: Mapping[str, str]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    rows: Mapping[str, int]
    version: str

    def output(self, table: str, columns: Sequence[str], root: Path = Path()) -> pa.Table | None:
        """Columns of a table that it wrote; None where it wrote none, or where that version is no longer kept."""
        digest = self.outputs.get(table)
        if digest is None or open_store(root).version(table, digest) is None:
            return None
        return Snapshot(table, digest, 0, root).to_table(columns)


def stages(snapshots: Sequence[Snapshot], root: Path = Path()) -> list[Stage]:
    """The stages that made these versions and all that those were made from, each after what it read.

    A version that no run record knows (its lake was copied from elsewhere) has nothing before it.
    """
    makers = {
        (table, digest): record
        for record in read_records(root)
        if record["status"] == "COMPLETE"
        for table, digest in record["outputs"].items()
    }
    found: dict[str, Stage] = {}

    def visit(table: str, digest: str) -> None:
        record = makers.get((table, digest))
        if record is None or record["run_id"] in found or (table, digest) in open_visits:
            return
        open_visits.add((table, digest))
        for name, read in sorted(record["inputs"].items()):
            visit(name, read)
        found[record["run_id"]] = _stage(record)

    open_visits: set[tuple[str, str]] = set()
    for snapshot in snapshots:
        visit(snapshot.table, snapshot.digest)
    return list(found.values())


def _stage(record: Mapping[str, Any]) -> Stage:
    copied = ("params", "params_digest", "op_ids", "inputs", "outputs", "rows", "version")
    return Stage(name=record["stage"], **{name: record[name] for name in copied})
