"""Croissant, held against mlcroissant: no fault, the same rows, the files' sha256, and our lineage."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import pytest

from dataplane.publish.export import Options, export
from dataplane.publish.rows import Request
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import DOCUMENTS, IDS, SEQUENCE_LENGTH, STAGES, sequences, token_lists

# rdflib and pandas warn of what mlcroissant calls in them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index is deprecated"),
]

# What only a publisher can say.
LEFT_TO_THE_PUBLISHER = {"http://mlcommons.org/croissant/citeAs", "https://schema.org/datePublished"}


def plain(value: Any) -> Any:
    """A value of mlcroissant as Python's own: text comes as bytes, numbers as numpy's, and null as NaN or NaT."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def records(folder: Path) -> list[dict[str, Any]]:
    dataset = mlc.Dataset(jsonld=folder / "croissant.json")
    assert sorted(dataset.metadata.issues.errors) == []
    warned = {warning.split('"')[1] for warning in dataset.metadata.issues.warnings}
    assert warned == LEFT_TO_THE_PUBLISHER
    return [{name.removeprefix("rows/"): plain(value) for name, value in row.items()} for row in dataset.records("rows")]


def field(folder: str, name: str) -> dict[str, Any]:
    """The description of a field."""
    fields = json.loads(Path(folder, "croissant.json").read_text())["recordSet"][0]["field"]
    return next(found for found in fields if found["name"] == name)


def nulls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with null for NaN; pandas, which mlcroissant reads with, does not tell them apart."""
    return [{name: None if isinstance(v, float) and math.isnan(v) else v for name, v in row.items()} for row in rows]


def test_mlcroissant_finds_no_fault_and_reads_the_rows(lake: dict[str, Snapshot]) -> None:
    export(Request("documents", "all"), "parquet", Path("out"), Options())
    assert records(Path("out")) == nulls(DOCUMENTS.to_pylist())


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_mlcroissant_reads_lines(lake: dict[str, Snapshot], compression: str) -> None:
    export(Request("documents", "all", columns=("doc_id", "text")), "jsonl", Path("out"), Options(compression=compression))
    assert records(Path("out")) == DOCUMENTS.select(["doc_id", "text"]).to_pylist()


def test_lists_of_tokens_are_arrays_and_lists_of_structs_are_left_out(lake: dict[str, Snapshot]) -> None:
    export(Request("packed"), "parquet", Path("packed"), Options())
    expected = [{"seq_id": i, "n_tokens": SEQUENCE_LENGTH, "input_ids": sequence} for i, sequence in enumerate(sequences())]
    assert records(Path("packed")) == expected
    export(Request("tokens", "all"), "parquet", Path("tokens"), Options())
    tokens = token_lists()
    assert [row["input_ids"] for row in records(Path("tokens"))] == [tokens[doc_id] for doc_id in IDS[:5]]
    shapes = {name: field(name, "input_ids")["arrayShape"] for name in ("packed", "tokens")}
    assert shapes == {"packed": str(SEQUENCE_LENGTH), "tokens": "-1"}


def test_every_file_has_its_sha256_and_the_version_is_the_digest(lake: dict[str, Snapshot]) -> None:
    record = export(Request("documents", "all"), "parquet", Path("out"), Options(title="Small"))
    metadata = mlc.Dataset(jsonld=Path("out/croissant.json")).metadata
    objects = {found.content_url: found.sha256 for found in metadata.distribution if isinstance(found, mlc.FileObject)}
    assert objects == {name: hashlib.sha256(Path("out", name).read_bytes()).hexdigest() for name in record["files"]}
    assert (metadata.version, metadata.name) == (f"1.0.0+{record['digest']}", "Small")
    assert lake["documents"].digest in metadata.description
    assert metadata.license == ["https://spdx.org/licenses/MIT", "https://spdx.org/licenses/ODC-By-1.0", "unknown"]


def test_a_repeated_document_is_no_key(lake: dict[str, Snapshot]) -> None:
    keys = []
    for select in ("all", "mixture"):
        export(Request("documents", select), "parquet", Path(select), Options())
        keys.append(json.loads(Path(select, "croissant.json").read_text())["recordSet"][0].get("key"))
    assert keys == [{"@id": "rows/doc_id"}, None]


def test_the_lineage_is_that_of_the_run_records(lake: dict[str, Snapshot]) -> None:
    export(Request("documents", "deduplicated"), "parquet", Path("out"), Options())
    found = json.loads(Path("out/croissant.json").read_text())
    activities = {entry["@id"]: entry for entry in found["prov:wasGeneratedBy"]}
    assert list(activities) == ["stage/ingest", "stage/clean", "stage/select", "stage/dedup"]
    for name, entry in activities.items():
        run = STAGES[name.removeprefix("stage/")]
        for key, tables in (("prov:used", run.inputs), ("prov:generated", run.outputs)):
            assert [ref["@id"] for ref in entry[key]] == [f"snapshot/{table}/{lake[table].digest}" for table in sorted(tables)]
        assert json.loads(entry["prov:value"])["op_ids"] == run.op_ids
    assert "/home/somebody" not in Path("out/croissant.json").read_text()
    metadata = mlc.Dataset(jsonld=Path("out/croissant.json")).metadata
    assert [text.split(":")[0] for text in metadata.data_preprocessing_protocol] == ["ingest", "clean", "select", "dedup"]
    assert metadata.personal_sensitive_information == ["Replaced where recognised, by the operator scrub_pii: email 5, phone 1."]
