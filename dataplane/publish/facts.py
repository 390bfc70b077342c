"""What can be said of an export without showing a text: sources, licences, languages, what was dropped, found and replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.engine.documents import sized
from dataplane.engine.rows import BATCH_ROWS
from dataplane.kernels.members import Members
from dataplane.publish.origin import Stage, stages
from dataplane.publish.rows import ALL, Rows
from dataplane.snapshot import Snapshot

UNKNOWN = "unknown"
LANGUAGE = "language__lang"
# Where a publisher's files lie is nobody's business, and the same data lies elsewhere on another machine.
PRIVATE_PARAMS = frozenset({"paths", "path", "root"})


@dataclass(frozen=True)
class SourceFacts:
    """One source of an export.

    Attributes:
        name: Its name.
        kind: Kind of its texts.
        license: SPDX expression, as params.yaml states it.
        ingested: Records that were read of it; None where that is not known any more.
        documents: Documents of it that are in the export.
        n_bytes: Bytes of their texts (UTF-8).
    """

    name: str
    kind: str
    license: str
    ingested: int | None
    documents: int
    n_bytes: int


@dataclass(frozen=True)
class Facts:
    """What is known of an export.

    Attributes:
        stages: What made it, in order.
        sources: By name.
        languages: Language -> share of the documents' bytes, largest first; empty where none was measured.
        reasons: Stage, rule and reason with the documents dropped for it.
        pii: Kind with replacements and documents.
        contamination: Benchmark with items found and documents that quoted them.
    """

    stages: Sequence[Stage]
    sources: Sequence[SourceFacts]
    languages: Mapping[str, float]
    reasons: Sequence[Mapping[str, Any]]
    pii: Sequence[Mapping[str, Any]]
    contamination: Sequence[Mapping[str, Any]]

    def stage(self, name: str) -> Stage | None:
        """The last stage of this name, None where the export does not stand on one."""
        return next((stage for stage in reversed(self.stages) if stage.name == name), None)

    def licenses(self) -> list[str]:
        """Licences of the sources, each once."""
        return sorted({source.license for source in self.sources})


def gather(rows: Rows) -> Facts:
    """Reads the facts about an export from the lake's versions that it stands on."""
    root = rows.snapshot.root
    made = stages([rows.snapshot, *([rows.ids] if rows.ids else [])], root)
    documents = _documents(rows, made, root)
    return Facts(
        stages=made,
        sources=_sources(documents, made, root),
        languages=_languages(documents),
        reasons=_reasons(made, root),
        pii=_grouped(made, root, "clean", "edits", "scrub_pii", "kind", ("count", "sum")),
        contamination=_grouped(made, root, "decontaminate", "contamination", None, "benchmark", ("item_id", "count_distinct")),
    )


def public(params: Any) -> Any:
    """Params without what only means something on the machine they were written for."""
    if isinstance(params, Mapping):
        return {key: public(value) for key, value in params.items() if key not in PRIVATE_PARAMS}
    if isinstance(params, list):
        return [public(value) for value in params]
    return params


def _documents(rows: Rows, made: Sequence[Stage], root: Path) -> pa.Table:
    """source, kind, n_bytes and, where measured, language of each document that is in the export, once."""
    snapshot = rows.snapshot
    if snapshot.table != "documents":
        digests = [stage.outputs["documents"] for stage in made if "documents" in stage.outputs]
        if not digests:
            return pa.table({"source": pa.array([], pa.string())})
        snapshot = Snapshot("documents", digests[-1], 0, root)
    data = snapshot.open()
    columns = [name for name in ("doc_id", "source", "kind", "n_bytes", LANGUAGE) if name in data.schema.names]
    wanted = _doc_ids(rows)
    batches = data.batches(columns, None, BATCH_ROWS, 0, None)
    if wanted is not None:
        batches = map(Members.of(wanted).rows, batches)
    found = pa.Table.from_batches(batches, schema=pa.schema([data.schema.field(name) for name in columns]))
    return sized(found, snapshot, rows.cuts) if rows.cuts is not None and "n_bytes" in columns else found


def _doc_ids(rows: Rows) -> pa.Array | None:
    """The documents that the export's rows are of; None for all."""
    if rows.select != ALL:
        return rows.chosen.unique()
    if rows.snapshot.table == "documents":
        return None
    names = rows.snapshot.schema.names
    if "doc_id" in names:
        return rows.chosen.unique()
    if "spans" not in names:
        return pa.array([], pa.string())
    parts = [batch.column("spans").flatten().field("doc_id").unique() for batch in rows.snapshot.batches(["spans"])]
    return pa.chunked_array(parts, pa.string()).unique()


def _sources(documents: pa.Table, made: Sequence[Stage], root: Path) -> list[SourceFacts]:
    if "n_bytes" not in documents.column_names:
        return []
    licenses, read = _licenses(made), _ingested(made, root)
    groups = documents.group_by(["source", "kind"]).aggregate([("n_bytes", "sum"), ("n_bytes", "count")]).to_pylist()
    return [
        SourceFacts(
            name=row["source"],
            kind=row["kind"],
            license=licenses.get(row["source"]) or UNKNOWN,
            ingested=read.get(row["source"], 0) if read is not None else None,
            documents=row["n_bytes_count"],
            n_bytes=row["n_bytes_sum"],
        )
        for row in sorted(groups, key=lambda row: (row["source"], row["kind"]))
    ]


def _licenses(made: Sequence[Stage]) -> dict[str, str | None]:
    """Source -> licence, as params.yaml had it when the records were read."""
    return {source["name"]: source.get("license") for stage in made for source in stage.params.get("sources") or []}


def _ingested(made: Sequence[Stage], root: Path) -> Counter[str] | None:
    """Source -> records that were read, None where that version of `raw` is not kept."""
    tables = [table for stage in made if (table := stage.output("raw", ["source"], root)) is not None]
    if not tables:
        return None
    return Counter({row["values"].as_py(): row["counts"].as_py() for row in pc.value_counts(tables[-1].column("source"))})


def _languages(documents: pa.Table) -> dict[str, float]:
    if LANGUAGE not in documents.column_names:
        return {}
    sums = documents.group_by(LANGUAGE).aggregate([("n_bytes", "sum")]).to_pylist()
    total = sum(row["n_bytes_sum"] for row in sums)
    shares = {row[LANGUAGE] or UNKNOWN: row["n_bytes_sum"] / total for row in sums if total}
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))


def _reasons(made: Sequence[Stage], root: Path) -> list[dict[str, Any]]:
    """Documents dropped for each reason; one that failed several rules counts for each."""
    found = []
    for stage in made:
        decisions = stage.output(f"{stage.name}_decisions", ["doc_id", "operator", "reason"], root)
        if decisions is not None:
            counted = decisions.group_by(["operator", "reason"]).aggregate([("doc_id", "count_distinct")]).to_pylist()
            rows = [
                {"stage": stage.name, "reason": f"{row['operator']}.{row['reason']}", "documents": row["doc_id_count_distinct"]}
                for row in counted
            ]
            found += sorted(rows, key=lambda row: row["reason"])
    return found


def _grouped(
    made: Sequence[Stage], root: Path, stage: str, table: str, operator: str | None, by: str, what: tuple[str, str]
) -> list[dict[str, Any]]:
    """Rows of a stage's table counted by a column: {by: value, "found": `what` aggregated, "documents": distinct doc_ids}."""
    column, how = what
    maker = next((made_by for made_by in reversed(made) if made_by.name == stage), None)
    columns = ["doc_id", by, column, *(["operator"] if operator else [])]
    rows = maker.output(table, columns, root) if maker else None
    if rows is None:
        return []
    if operator:
        rows = rows.filter(pc.equal(rows.column("operator"), operator))
    counted = rows.group_by(by).aggregate([(column, how), ("doc_id", "count_distinct")]).to_pylist()
    found = [{by: row[by], "found": row[f"{column}_{how}"], "documents": row["doc_id_count_distinct"]} for row in counted]
    return sorted(found, key=lambda row: str(row[by]))
