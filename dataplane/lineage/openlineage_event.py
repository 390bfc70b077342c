"""A run's record as an OpenLineage event. Nothing in it comes from a document: names, types, counts, digests and identities.

An event is a plain mapping. The classes of the official client, against which the tests hold it, take a third of a second to
import, and each of a pipeline's stages would pay for them.

Source: OpenLineage 2-0-2, https://openlineage.io/docs/spec/object-model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dataplane.errors import TerraplaneError
from dataplane.lake.objectstore import is_remote
from dataplane.lake.store import Version
from dataplane.lineage.columns import CHOSEN, COPIED, computed
from dataplane.snapshot import open_store

Facet = dict[str, Any]

PRODUCER = f"pkg:pypi/terraplane@{version('terraplane')}"
SPEC = "https://openlineage.io/spec"
STATES = {"RUNNING": "START", "COMPLETE": "COMPLETE", "FAIL": "FAIL", "ABORT": "ABORT"}
# Facets of the specification, with the version of each one's schema.
VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "DatasetVersionDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ProcessingEngineRunFacet": "1-1-1",
    "SchemaDatasetFacet": "1-2-0",
}
IDENTITY = {"type": "DIRECT", "subtype": "IDENTITY"}
TRANSFORMATION = {"type": "DIRECT", "subtype": "TRANSFORMATION"}
FILTER = {"type": "INDIRECT", "subtype": "FILTER"}


def _facet(kind: str, **values: Any) -> Facet:
    """A facet of the specification, or one of ours, whose JSON schema is a file of the release that sent it."""
    of_spec = f"{SPEC}/facets/{VERSIONS[kind]}/{kind}.json#/$defs/{kind}" if kind in VERSIONS else f"{PRODUCER}#docs/schemas/{kind}.json"
    return {"_producer": PRODUCER, "_schemaURL": of_spec, **values}


def run_event(record: Mapping[str, Any], *, namespace: str, root: Path = Path()) -> dict[str, Any]:
    """The event that tells of a record.

    Args:
        record: What `lake/runs/RUN.json` holds, and where it is known `metrics` and `origins` (see `StageRun.came_from`).
        namespace: Namespace of the jobs, and of the tables that lie in the project.
        root: Folder of the project.
    """
    # The store may be what failed, and then asking it would take long: the digests must do.
    tables = _Tables(root, namespace, ask=record["status"] in ("RUNNING", "COMPLETE"))
    job_type = _facet("JobTypeJobFacet", processingType="BATCH", integration="TERRAPLANE", jobType="STAGE")
    sources = [_dataset((namespace, f"sources/{source['name']}"), {}, inputFacets={}) for source in record["params"].get("sources") or []]
    return {
        "eventTime": datetime.now(UTC).isoformat(),
        "eventType": STATES[record["status"]],
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": record["run_id"], "facets": _run_facets(record)},
        "job": {"namespace": namespace, "name": record["stage"], "facets": {"jobType": job_type}},
        "inputs": sources + [tables.read(table, digest) for table, digest in record["inputs"].items()],
        "outputs": [tables.written(table, digest, record) for table, digest in record["outputs"].items()],
    }


def _run_facets(record: Mapping[str, Any]) -> dict[str, Facet]:
    facets = {
        "processing_engine": _facet("ProcessingEngineRunFacet", version=record["version"], name="terraplane"),
        # What the outputs depend on beside the inputs.
        "terraplane_params": _facet(
            "TerraplaneParamsRunFacet", digest=record["params_digest"], code=record["code"], op_ids=record["op_ids"]
        ),
    }
    if record["error"]:
        # A message may quote what it could not read; the class cannot.
        kind = str(record["error"]).partition(":")[0]
        message = f"{kind}; lake/runs/{record['run_id']}.json says more"
        facets["errorMessage"] = _facet("ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON")
    return facets


def dataset_name(table: str, uri: str, namespace: str) -> tuple[str, str]:
    """Namespace and name of a table: those of the object store that it lies in, for others may read it there, else the project's."""
    if not is_remote(uri):
        return namespace, table
    protocol, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{protocol}://{bucket}", key


def _dataset(name: tuple[str, str], facets: dict[str, Facet], **more: dict[str, Facet]) -> dict[str, Any]:
    return {"namespace": name[0], "name": name[1], "facets": facets, **more}


class _Tables:
    """Versions of the project's tables as datasets."""

    def __init__(self, root: Path, namespace: str, *, ask: bool) -> None:
        self.store, self.namespace, self.ask = open_store(root), namespace, ask

    def read(self, table: str, digest: str) -> dict[str, Any]:
        """An input."""
        return _dataset(self.name(table), _facets(digest, self.version(table, digest)), inputFacets={})

    def written(self, table: str, digest: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """An output."""
        known = self.version(table, digest)
        facets, more = _facets(digest, known), _decisions(record)
        if known:
            names = [name for name, _ in known.columns]
            facets |= self.column_lineage(table, names, record)
            more |= self.statistics(table, known)
        return _dataset(self.name(table), facets, outputFacets=more)

    def name(self, table: str) -> tuple[str, str]:
        """Namespace and name of a table."""
        return dataset_name(table, self.store.table_uri(table), self.namespace)

    def version(self, table: str, digest: str) -> Version | None:
        """The manifest, if it is to be had; a damaged one is the stage's own trouble, not the event's."""
        try:
            return self.store.version(table, digest) if self.ask else None
        except (TerraplaneError, OSError):
            return None

    def statistics(self, table: str, known: Version) -> dict[str, Facet]:
        """Rows, bytes and files."""
        sizes = self.store.data_files(table)
        files = {name for fragment in known.fragments for name in self.store.files(fragment.data)}
        size = sum(sizes[name] for name in files if name in sizes)
        return {"outputStatistics": _facet("OutputStatisticsOutputDatasetFacet", rowCount=known.rows, size=size, fileCount=len(files))}

    def column_lineage(self, table: str, names: Sequence[str], record: Mapping[str, Any]) -> dict[str, Facet]:
        """Which columns of the inputs each column was made from; nothing for tables of which it is not known."""
        origins = record.get("origins", {}).get(table, {})
        sources = {
            column: self._fields(found, TRANSFORMATION, record) for column, found in computed(table, origins.get("columns", {})).items()
        }
        for given, copied in COPIED.get(table, {}).items():
            sources |= {column: self._fields([f"{given}.{column}"], IDENTITY, record) for column in copied}
        rows = self._fields([*CHOSEN.get(table, []), *origins.get("rows", [])], FILTER, record)
        fields = {name: {"inputFields": sources[name]} for name in names if sources.get(name)}
        return {"columnLineage": _facet("ColumnLineageDatasetFacet", fields=fields, dataset=rows)} if fields or rows else {}

    def _fields(self, columns: Iterable[str], how: Mapping[str, str], record: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Columns, named TABLE.COLUMN, of the run's inputs."""
        found = []
        for given, column in (column.split(".", 1) for column in dict.fromkeys(columns)):
            if given in record["inputs"]:
                namespace, name = self.name(given)
                found.append({"namespace": namespace, "name": name, "field": column, "transformations": [how]})
        return found


def _facets(digest: str, known: Version | None) -> dict[str, Facet]:
    """Version and, where the manifest is there, schema."""
    facets = {"version": _facet("DatasetVersionDatasetFacet", datasetVersion=digest)}
    if known:
        fields = [
            {"name": name, "type": kind, "ordinal_position": place, "fields": []} for place, (name, kind) in enumerate(known.columns, 1)
        ]
        facets["schema"] = _facet("SchemaDatasetFacet", fields=fields)
    return facets


def _decisions(record: Mapping[str, Any]) -> dict[str, Facet]:
    """The books of the run."""
    if not record["rows"]:
        return {}
    reasons = _reasons(record["stage"], record.get("metrics", {}))
    return {"terraplane_decisions": _facet("TerraplaneDecisionsOutputDatasetFacet", rows=record["rows"], reasons=reasons)}


def _reasons(stage: str, metrics: Mapping[str, Any]) -> dict[str, int]:
    """What dropped rows or put them aside, from a stage's metrics, each name with a dot in it."""
    found: dict[str, int] = {}
    for key in ("reasons", "dropped", "quarantined"):
        counts = metrics.get(key)
        if isinstance(counts, Mapping):
            found |= {name if "." in name else f"{stage}.{name}": count for name, count in counts.items()}
    return found
