"""Croissant 1.1, the JSON-LD that ML tools and search engines read: the files with their sha256, the columns, how it was made.

Source: mlcommons.org/croissant/1.1, and mlcommons.org/croissant/RAI/1.0 for the properties `rai:`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pyarrow as pa

from dataplane.params import canonical_json
from dataplane.publish.facts import Facts, public
from dataplane.publish.licenses import license_url

FILE = "croissant.json"
CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
# mlcroissant asks for a semantic version; the digest is its build metadata.
VERSION = "1.0.0"
FILE_SET = "shards"
RECORD_SET = "rows"
FORMATS = {
    ".parquet": "application/x-parquet",
    ".jsonl": "application/jsonlines",
    ".gz": "application/jsonlines",
    ".zst": "application/jsonlines",
}
_TYPES = {
    "string": "sc:Text", "large_string": "sc:Text", "binary": "sc:Text", "large_binary": "sc:Text", "bool": "sc:Boolean",
    "int8": "cr:Int8", "int16": "cr:Int16", "int32": "cr:Int32", "int64": "cr:Int64", "uint16": "cr:UInt16",
    "float": "cr:Float32", "double": "cr:Float64",
}  # fmt: skip


def croissant(record: Mapping[str, Any], schema: pa.Schema, facts: Facts) -> dict[str, Any]:
    """The JSON-LD of an export.

    Args:
        record: terraplane.json of the export.
        schema: Columns of its rows.
        facts: What the lake knows of it.
    """
    context = json.loads(files("dataplane.publish").joinpath("croissant_context.json").read_text(encoding="utf-8"))
    return {
        "@context": context,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": record["title"],
        "description": _description(record),
        "version": f"{VERSION}+{record['digest']}",
        "license": [license_url(name) for name in facts.licenses()] or ["unknown"],
        "inLanguage": sorted(facts.languages),
        "distribution": _distribution(record),
        "recordSet": [_record_set(record, schema)],
        **_provenance(record, facts),
    }


def _description(record: Mapping[str, Any]) -> str:
    return (
        f"{record['rows']} rows of the table {record['table']} (selection: {record['select']}) of a Terraplane lake, "
        f"content digest {record['snapshots'][record['table']]}."
    )


def _distribution(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every file with its sha256, and the set of all of them that the rows are read from."""
    objects = [
        {
            "@type": "cr:FileObject",
            "@id": path,
            "name": path,
            "contentUrl": path,
            "contentSize": f"{about['bytes']} B",
            "encodingFormat": _format(path),
            "sha256": about["sha256"],
        }
        for path, about in record["files"].items()
    ]
    first = next(iter(record["files"]))
    shards = {
        "@type": "cr:FileSet",
        "@id": FILE_SET,
        "name": FILE_SET,
        "encodingFormat": _format(first),
        "includes": f"data/{record['split']}-*",
    }
    return [*objects, shards]


def _format(path: str) -> str:
    return FORMATS["." + path.rsplit(".", 1)[-1]]


def _record_set(record: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    fields = [_field(field) for field in schema if _type(field.type)]
    found = {"@type": "cr:RecordSet", "@id": RECORD_SET, "name": RECORD_SET, "field": fields}
    keys = [name for name in ("doc_id", "seq_id") if name in schema.names]
    # The mixture repeats documents.
    return found | ({"key": {"@id": f"{RECORD_SET}/{keys[0]}"}} if keys and record["select"] != "mixture" else {})


def _field(field: pa.Field) -> dict[str, Any]:
    name = f"{RECORD_SET}/{field.name}"
    found = {
        "@type": "cr:Field",
        "@id": name,
        "name": field.name,
        "dataType": _type(field.type),
        "source": {"fileSet": {"@id": FILE_SET}, "extract": {"column": field.name}},
    }
    if pa.types.is_nested(field.type):
        size = field.type.list_size if pa.types.is_fixed_size_list(field.type) else -1
        found |= {"isArray": True, "arrayShape": str(size)}
    return found


def _type(kind: pa.DataType) -> str | None:
    """Croissant's name of a column's type, or of its items; None for what it cannot describe as one field (lists of structs)."""
    if pa.types.is_timestamp(kind):
        return "sc:DateTime"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _TYPES.get(str(kind.value_type))
    return _TYPES.get(str(kind))


def _provenance(record: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """Our lineage: in `prov:` for programs, in `rai:` for people."""
    activities = [
        {
            "@type": "prov:Activity",
            "@id": f"stage/{stage.name}",
            "prov:used": [{"@id": f"snapshot/{table}/{digest}"} for table, digest in sorted(stage.inputs.items())],
            "prov:generated": [{"@id": f"snapshot/{table}/{digest}"} for table, digest in sorted(stage.outputs.items())],
            "prov:value": canonical_json({"params_digest": stage.params_digest, "op_ids": dict(stage.op_ids), "version": stage.version}),
        }
        for stage in facts.stages
    ]
    protocol = [f"{stage.name}: {canonical_json(public(stage.params))}" for stage in facts.stages]
    found: dict[str, Any] = {
        "prov:wasDerivedFrom": [{"@id": f"snapshot/{table}/{digest}"} for table, digest in sorted(record["snapshots"].items())],
        "prov:wasGeneratedBy": activities,
        "rai:dataPreprocessingProtocol": protocol,
    }
    if facts.pii:
        replaced = ", ".join(f"{row['kind']} {row['found']}" for row in facts.pii)
        found["rai:personalSensitiveInformation"] = [f"Replaced where recognised, by the operator scrub_pii: {replaced}."]
    return {name: value for name, value in found.items() if value}
