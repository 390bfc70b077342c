"""OpenLineage events: what a run tells, and that the official client can read it."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import yaml
from openlineage.client import event_v2, facet_v2
from openlineage.client.serde import Serde

from dataplane import lockfile, schema
from dataplane.errors import AccountingError
from dataplane.lineage.openlineage_event import dataset_name
from dataplane.lineage.record import StageRun
from dataplane.snapshot import Snapshot
from dataplane.stages import clean, ingest, select

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
PRODUCER = f"pkg:pypi/terraplane@{version('terraplane')}"
SPEC = "https://openlineage.io/spec"
NUMBERS = pa.schema([("n", pa.int64())])
SECRET = "ol-key-4711"
TEXT = "Wombats dig long burrows"

PARAMS = {
    "sources": [{"name": "tales", "kind": "web", "paths": ["data/*.jsonl"], "license": "CC0"}],
    "clean": {"pipeline": [{"use": "wikitext"}, {"use": "text_signals"}]},
    "select": {"rules": [{"use": "gopher_repetition", "when": "text_signals.n_words > 5"}]},
}


def sent(root: Path) -> list[dict[str, Any]]:
    """The events in the project's file."""
    return [json.loads(line) for line in (root / "lake/runs/openlineage.jsonl").read_text().splitlines()]


def facet(name: str, spec: str, /, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{spec}/{name}.json#/$defs/{name}"} | values


def custom(name: str, /, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{PRODUCER}#docs/schemas/{name}.json"} | values


def columns(fields: pa.Schema) -> dict[str, Any]:
    shown = [{"name": field.name, "type": str(field.type), "ordinal_position": i, "fields": []} for i, field in enumerate(fields, 1)]
    return facet("SchemaDatasetFacet", "1-2-0", fields=shown)


def table_version(table: str, root: Path) -> dict[str, Any]:
    return facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=Snapshot.load(table, root).digest)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project in which ingest, clean and select have run, over two good records and a bad one."""
    root = tmp_path_factory.mktemp("told")
    (root / "data").mkdir()
    lines = [json.dumps({"text": text}) for text in (f"{TEXT} at night, and sleep by day.", "Again and again.\n" * 30)]
    (root / "data/t.jsonl").write_text("\n".join([*lines, "no json"]))
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("TERRAPLANE_WORKERS", "1")
        patch.setenv("OPENLINEAGE_API_KEY", SECRET)
        lockfile.write(root)
        for stage in (ingest, clean, select):
            stage.main()
        yield root


def test_a_run_tells_that_it_starts_and_what_it_made(told: Path) -> None:
    start, complete = sent(told)[:2]
    record = json.loads(next(p for p in (told / "lake/runs").glob("*.json") if '"ingest"' in p.read_text()).read_text())
    run = {
        "runId": record["run_id"],
        "facets": {
            "processing_engine": facet("ProcessingEngineRunFacet", "1-1-1", name="terraplane", version=version("terraplane")),
            "terraplane_params": custom("TerraplaneParamsRunFacet", digest=record["params_digest"], code=record["code"], op_ids={}),
        },
    }
    job_type = facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="TERRAPLANE", jobType="STAGE")
    expected = {
        "eventType": "START", "producer": PRODUCER, "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent", "run": run,
        "job": {"namespace": "terraplane", "name": "ingest", "facets": {"jobType": job_type}},
        "inputs": [{"namespace": "terraplane", "name": "sources/tales", "facets": {}, "inputFacets": {}}],
        "outputs": [],
    }  # fmt: skip
    assert {key: value for key, value in start.items() if key != "eventTime"} == expected
    decisions = custom(
        "TerraplaneDecisionsOutputDatasetFacet",
        rows={"in": 3, "kept": 2, "dropped": 0, "quarantined": 1}, reasons={"tales.NotJson": 1},
    )  # fmt: skip
    outputs = [
        {
            "namespace": "terraplane", "name": table,
            "facets": {"version": table_version(table, told), "schema": columns(fields)},
            "outputFacets": {
                "terraplane_decisions": decisions,
                "outputStatistics": facet(
                    "OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=rows, fileCount=1,
                    size=sum(path.stat().st_size for path in (told / f"lake/{table}.lance/data").iterdir()),
                ),
            },
        }
        for table, fields, rows in (("raw", schema.RAW, 2), ("ingest_quarantine", schema.QUARANTINE, 1))
    ]  # fmt: skip
    assert {key: value for key, value in complete.items() if key != "eventTime"} == expected | {"eventType": "COMPLETE", "outputs": outputs}


def test_every_run_has_one_start_and_one_end_in_the_order_of_time(told: Path) -> None:
    events = sent(told)
    assert [(event["job"]["name"], event["eventType"]) for event in events] == [
        (stage, kind) for stage in ("ingest", "clean", "select") for kind in ("START", "COMPLETE")
    ]
    runs = [event["run"]["runId"] for event in events]
    assert runs == [run for run in dict.fromkeys(runs) for _ in range(2)]
    assert sorted(events, key=lambda event: event["eventTime"]) == events


def output(root: Path, job: str, table: str) -> dict[str, Any]:
    (event,) = [event for event in sent(root) if (event["job"]["name"], event["eventType"]) == (job, "COMPLETE")]
    (found,) = [dataset for dataset in event["outputs"] if dataset["name"] == table]
    return dict(found)


def origins(fields: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    found = set()
    for field in fields:
        (how,) = field["transformations"]
        found.add((field["namespace"], f"{field['name']}.{field['field']}", how["type"], how["subtype"]))
    return found


def test_columns_of_documents_come_from_raw_and_signals_from_what_their_operators_read(told: Path) -> None:
    lineage = output(told, "clean", "documents")["facets"]["columnLineage"]
    payload = {("terraplane", f"raw.{name}", "DIRECT", "TRANSFORMATION") for name in ("payload", "mime", "charset")}
    expected = {name: {("terraplane", f"raw.{name}", "DIRECT", "IDENTITY")} for name in ("doc_id", "source", "kind", "url", "mime")}
    computed = [
        "text",
        "n_bytes",
        "text_hash",
        *(n for n in Snapshot.load("documents", told).schema.names if n.startswith("text_signals__")),
    ]
    assert {name: origins(field["inputFields"]) for name, field in lineage["fields"].items()} == expected | dict.fromkeys(computed, payload)
    assert lineage["dataset"] == []


def test_selected_rows_come_from_documents_by_the_signals_that_the_rules_name(told: Path) -> None:
    lineage = output(told, "select", "selected")["facets"]["columnLineage"]
    assert {name: origins(field["inputFields"]) for name, field in lineage["fields"].items()} == {
        "doc_id": {("terraplane", "documents.doc_id", "DIRECT", "IDENTITY")}
    }
    text = (Path(select.__file__).parents[1] / "rules/gopher_repetition.yaml").read_text()
    signals = [
        n
        for n in Snapshot.load("documents", told).schema.names
        if ("__" in n and n.replace("__", ".") in text) or n == "text_signals__n_words"
    ]
    assert origins(lineage["dataset"]) == {("terraplane", f"documents.{name}", "INDIRECT", "FILTER") for name in signals}


def test_decisions_are_counted_by_operator_and_reason(told: Path) -> None:
    decisions = output(told, "select", "selected")["outputFacets"]["terraplane_decisions"]
    rows = Snapshot.load("select_decisions", told).to_table().to_pylist()
    counted: dict[str, int] = {}
    for row in rows:
        name = f"{row['operator']}.{row['reason']}"
        counted[name] = counted.get(name, 0) + 1
    assert decisions == custom(
        "TerraplaneDecisionsOutputDatasetFacet", rows={"in": 2, "kept": 1, "dropped": 1, "quarantined": 0}, reasons=counted
    )
    assert len(counted) > 1


OFFICIAL = {
    "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
    "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
    "jobType": facet_v2.job_type_job.JobTypeJobFacet,
    "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
    "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
    "columnLineage": facet_v2.column_lineage_dataset.ColumnLineageDatasetFacet,
    "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
}
OURS = {"terraplane_params": "TerraplaneParamsRunFacet", "terraplane_decisions": "TerraplaneDecisionsOutputDatasetFacet"}


def read_facets(facets: dict[str, Any]) -> dict[str, Any]:
    """Facets read by the official classes (which know their fields and miss what is required), ours by their schemas."""
    found = {}
    for name, values in facets.items():
        if name in OURS:
            json_schema = json.loads((SCHEMAS / f"{OURS[name]}.json").read_text())
            jsonschema.Draft202012Validator.check_schema(json_schema)
            jsonschema.validate(values, json_schema, cls=jsonschema.Draft202012Validator)
            assert values["_schemaURL"] == f"{PRODUCER}#docs/schemas/{OURS[name]}.json"
            found[name] = values
        else:
            given = {key: _nested(name, key, value) for key, value in values.items() if not key.startswith("_")}
            found[name] = OFFICIAL[name](**given, producer=values["_producer"])
    return found


def _nested(facet_name: str, key: str, value: Any) -> Any:
    lineage = facet_v2.column_lineage_dataset

    def inputs(fields: list[dict[str, Any]]) -> list[Any]:
        made = [[lineage.Transformation(**t) for t in field["transformations"]] for field in fields]
        return [lineage.InputField(**field | {"transformations": how}) for field, how in zip(fields, made, strict=True)]

    if (facet_name, key) == ("schema", "fields"):
        return [facet_v2.schema_dataset.SchemaDatasetFacetFields(**field) for field in value]
    if (facet_name, key) == ("columnLineage", "fields"):
        return {name: lineage.Fields(**field | {"inputFields": inputs(field["inputFields"])}) for name, field in value.items()}
    return inputs(value) if (facet_name, key) == ("columnLineage", "dataset") else value


def read_event(values: dict[str, Any]) -> event_v2.RunEvent:
    """An event as the official client reads it.

    Raises:
        TypeError: A field is unknown or missing.
        ValueError: A value is not of the form that the client checks.
    """

    def datasets(kind: Any, which: str, more: str) -> list[Any]:
        return [kind(**d | {"facets": read_facets(d["facets"]), more: read_facets(d[more])}) for d in values[which]]

    read = values | {
        "eventType": event_v2.RunState(values["eventType"]),
        "run": event_v2.Run(**values["run"] | {"facets": read_facets(values["run"]["facets"])}),
        "job": event_v2.Job(**values["job"] | {"facets": read_facets(values["job"]["facets"])}),
        "inputs": datasets(event_v2.InputDataset, "inputs", "inputFacets"),
        "outputs": datasets(event_v2.OutputDataset, "outputs", "outputFacets"),
    }
    assert read.pop("schemaURL") == event_v2.RunEvent._get_schema()
    return event_v2.RunEvent(**read)


def test_events_are_what_the_official_client_and_our_schemas_allow(told: Path) -> None:
    events = sent(told)
    assert [Serde.to_dict(read_event(event)) for event in events] == events


def test_no_event_holds_text_of_a_document_or_a_credential(told: Path) -> None:
    lines = (told / "lake/runs/openlineage.jsonl").read_text()
    assert [word for word in (TEXT, "Wombats", "Again", "no json", SECRET, str(told)) if word in lines] == []


@pytest.fixture
def ready(project: Path) -> Path:
    (project / "params.yaml").write_text("x: 1\n")
    return project


def run_numbers(stage: str = "first") -> None:
    with StageRun(stage, params=("x",)) as run:
        run.write("numbers", NUMBERS, [pa.record_batch({"n": [1, 2]}, schema=NUMBERS)])


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["eventType"] for event in events]


def test_a_failed_run_tells_the_class_of_its_error_and_not_what_it_said(ready: Path) -> None:
    with pytest.raises(ValueError, match=TEXT), StageRun("first") as run:
        raise ValueError(f"cannot read: {TEXT}")
    start, fail = sent(ready)
    message = facet(
        "ErrorMessageRunFacet", "1-0-1", programmingLanguage="PYTHON", message=f"ValueError; lake/runs/{run.run_id}.json says more"
    )
    told = start["run"]["facets"] | {"errorMessage": message}
    ignored = {"eventTime": None}
    assert fail | ignored == start | ignored | {"eventType": "FAIL", "run": {"runId": run.run_id, "facets": told}}
    assert Serde.to_dict(read_event(fail)) == fail


def test_a_failed_run_tells_what_it_had_committed(ready: Path) -> None:
    with pytest.raises(AccountingError), StageRun("first", params=("x",)) as run:
        run.account(rows_in=run.write("numbers", NUMBERS, [pa.record_batch({"n": [1, 2]}, schema=NUMBERS)]).rows, kept=1)
    assert [(dataset["name"], dataset["facets"]) for dataset in sent(ready)[1]["outputs"]] == [
        ("numbers", {"version": table_version("numbers", ready)})
    ]


def test_the_next_run_of_a_stage_ends_the_one_that_was_killed(ready: Path) -> None:
    code = textwrap.dedent("""
        import os
        from dataplane.lineage.record import StageRun
        with StageRun("first"):
            os._exit(9)
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    run_numbers("other")
    run_numbers()
    run_numbers()
    events = sent(ready)
    assert [(event["job"]["name"], event["eventType"]) for event in events] == [
        ("first", "START"), ("other", "START"), ("other", "COMPLETE"), ("first", "ABORT"), ("first", "START"), ("first", "COMPLETE"),
        ("first", "START"), ("first", "COMPLETE"),
    ]  # fmt: skip
    assert events[3] | {"eventTime": None} == events[0] | {"eventTime": None, "eventType": "ABORT"}
    assert len({event["run"]["runId"] for event in events}) == 4


def test_a_run_that_was_killed_after_its_end_was_recorded_is_not_called_aborted(ready: Path) -> None:
    run_numbers()
    (ready / "journal/first.begun").write_text(sent(ready)[0]["run"]["runId"])
    run_numbers()
    assert kinds(sent(ready)) == ["START", "COMPLETE"] * 2
    assert not (ready / "journal/first.begun").exists()


def test_a_table_in_an_object_store_is_named_as_openlineage_names_it() -> None:
    assert dataset_name("raw", "s3://bucket/some/lake/raw.lance", "mine") == ("s3://bucket", "some/lake/raw.lance")
    assert dataset_name("raw", "lake/raw.lance", "mine") == ("mine", "raw")
