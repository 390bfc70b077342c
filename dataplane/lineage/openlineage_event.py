"""A run's record as an OpenLineage event. Nothing in it comes from a document: names, types, counts, digests and identities.

Source: OpenLineage 2-0-2, https://openlineage.io/docs/spec/object-model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

from dataplane.errors import TerraplaneError
from dataplane.lake.objectstore import is_remote
from dataplane.lake.store import Version
from dataplane.lineage.columns import CHOSEN, COPIED, computed
from dataplane.snapshot import open_store

PRODUCER = f"pkg:pypi/terraplane@{version('terraplane')}"
STATES = {"RUNNING": RunState.START, "COMPLETE": RunState.COMPLETE, "FAIL": RunState.FAIL, "ABORT": RunState.ABORT}
IDENTITY = column_lineage_dataset.Transformation("DIRECT", "IDENTITY")
TRANSFORMATION = column_lineage_dataset.Transformation("DIRECT", "TRANSFORMATION")
FILTER = column_lineage_dataset.Transformation("INDIRECT", "FILTER")


def _schema_url(name: str) -> str:
    """The JSON schema of a facet of ours, as a file of the release that sent it."""
    return f"{PRODUCER}#docs/schemas/{name}.json"


@attr.define
class ParamsFacet(RunFacet):
    """What the outputs depend on beside the inputs: docs/schemas/TerraplaneParamsRunFacet.json."""

    digest: str
    code: dict[str, str]
    op_ids: dict[str, str]

    @staticmethod
    def _get_schema() -> str:
        return _schema_url("TerraplaneParamsRunFacet")


@attr.define
class DecisionsFacet(OutputDatasetFacet):
    """The books of the run: docs/schemas/TerraplaneDecisionsOutputDatasetFacet.json."""

    rows: dict[str, int]
    reasons: dict[str, int]

    @staticmethod
    def _get_schema() -> str:
        return _schema_url("TerraplaneDecisionsOutputDatasetFacet")


def run_event(record: Mapping[str, Any], *, namespace: str, root: Path = Path()) -> RunEvent:
    """The event that tells of a record.

    Args:
        record: What `lake/runs/RUN.json` holds, and where it is known `metrics` and `origins` (see `StageRun.came_from`).
        namespace: Namespace of the jobs, and of the tables that lie in the project.
        root: Folder of the project.
    """
    # The store may be what failed, and then asking it would take long: the digests must do.
    tables = _Tables(root, namespace, ask=record["status"] in ("RUNNING", "COMPLETE"))
    job_type = job_type_job.JobTypeJobFacet("BATCH", "TERRAPLANE", "STAGE", producer=PRODUCER)
    sources = [InputDataset(namespace, f"sources/{source['name']}") for source in record["params"].get("sources") or []]
    return RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=STATES[record["status"]],
        producer=PRODUCER,
        run=Run(record["run_id"], _run_facets(record)),
        job=Job(namespace, record["stage"], {"jobType": job_type}),
        inputs=sources + [tables.read(table, digest) for table, digest in record["inputs"].items()],
        outputs=[tables.written(table, digest, record) for table, digest in record["outputs"].items()],
    )


def _run_facets(record: Mapping[str, Any]) -> dict[str, RunFacet]:
    facets: dict[str, RunFacet] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(record["version"], "terraplane", producer=PRODUCER),
        "terraplane_params": ParamsFacet(record["params_digest"], record["code"], record["op_ids"], producer=PRODUCER),
    }
    if record["error"]:
        # A message may quote what it could not read; the class cannot.
        kind = str(record["error"]).partition(":")[0]
        message = f"{kind}; lake/runs/{record['run_id']}.json says more"
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON", producer=PRODUCER)
    return facets


def dataset_name(table: str, uri: str, namespace: str) -> tuple[str, str]:
    """Namespace and name of a table: those of the object store that it lies in, for others may read it there, else the project's."""
    if not is_remote(uri):
        return namespace, table
    protocol, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{protocol}://{bucket}", key


class _Tables:
    """Versions of the project's tables as datasets."""

    def __init__(self, root: Path, namespace: str, *, ask: bool) -> None:
        self.store, self.namespace, self.ask = open_store(root), namespace, ask

    def read(self, table: str, digest: str) -> InputDataset:
        """An input."""
        return InputDataset(*self.name(table), facets=_facets(digest, self.version(table, digest)))

    def written(self, table: str, digest: str, record: Mapping[str, Any]) -> OutputDataset:
        """An output."""
        known = self.version(table, digest)
        facets, more = _facets(digest, known), _decisions(record)
        if known:
            names = [name for name, _ in known.columns]
            facets |= self.column_lineage(table, names, record)
            more |= self.statistics(table, known)
        return OutputDataset(*self.name(table), facets=facets, outputFacets=more)

    def name(self, table: str) -> tuple[str, str]:
        """Namespace and name of a table."""
        return dataset_name(table, self.store.table_uri(table), self.namespace)

    def version(self, table: str, digest: str) -> Version | None:
        """The manifest, if it is to be had; a damaged one is the stage's own trouble, not the event's."""
        try:
            return self.store.version(table, digest) if self.ask else None
        except (TerraplaneError, OSError):
            return None

    def statistics(self, table: str, known: Version) -> dict[str, OutputDatasetFacet]:
        """Rows, bytes and files."""
        sizes = self.store.data_files(table)
        files = {name for fragment in known.fragments for name in self.store.files(fragment.data)}
        size = sum(sizes[name] for name in files if name in sizes)
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(known.rows, size, len(files), producer=PRODUCER)
        return {"outputStatistics": facet}

    def column_lineage(self, table: str, names: Sequence[str], record: Mapping[str, Any]) -> dict[str, DatasetFacet]:
        """Which columns of the inputs each column was made from; nothing for tables of which it is not known."""
        origins = record.get("origins", {}).get(table, {})
        sources = {
            column: self._fields(found, TRANSFORMATION, record) for column, found in computed(table, origins.get("columns", {})).items()
        }
        for given, copied in COPIED.get(table, {}).items():
            sources |= {column: self._fields([f"{given}.{column}"], IDENTITY, record) for column in copied}
        rows = self._fields([*CHOSEN.get(table, []), *origins.get("rows", [])], FILTER, record)
        fields = {name: column_lineage_dataset.Fields(sources[name]) for name in names if sources.get(name)}
        if not (fields or rows):
            return {}
        return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields, rows, producer=PRODUCER)}

    def _fields(
        self, columns: Iterable[str], how: column_lineage_dataset.Transformation, record: Mapping[str, Any]
    ) -> list[column_lineage_dataset.InputField]:
        """Columns, named TABLE.COLUMN, of the run's inputs."""
        pairs = [column.split(".", 1) for column in dict.fromkeys(columns)]
        return [column_lineage_dataset.InputField(*self.name(given), name, [how]) for given, name in pairs if given in record["inputs"]]


def _facets(digest: str, known: Version | None) -> dict[str, DatasetFacet]:
    """Version and, where the manifest is there, schema."""
    facets: dict[str, DatasetFacet] = {"version": dataset_version_dataset.DatasetVersionDatasetFacet(digest, producer=PRODUCER)}
    if known:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name, kind, ordinal_position=place)
            for place, (name, kind) in enumerate(known.columns, 1)
        ]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)
    return facets


def _decisions(record: Mapping[str, Any]) -> dict[str, OutputDatasetFacet]:
    if not record["rows"]:
        return {}
    return {"terraplane_decisions": DecisionsFacet(record["rows"], _reasons(record["stage"], record.get("metrics", {})), producer=PRODUCER)}


def _reasons(stage: str, metrics: Mapping[str, Any]) -> dict[str, int]:
    """What dropped rows or put them aside, from a stage's metrics, each name with a dot in it."""
    found: dict[str, int] = {}
    for key in ("reasons", "dropped", "quarantined"):
        counts = metrics.get(key)
        if isinstance(counts, Mapping):
            found |= {name if "." in name else f"{stage}.{name}": count for name, count in counts.items()}
    return found
