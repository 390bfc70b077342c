"""What is said about the lineage of columns fits the tables and the stages."""

import pyarrow as pa

from dataplane import schema
from dataplane.corpus.dedup_params import DedupParams
from dataplane.lineage.columns import CHOSEN, COMPUTED, COPIED, computed, made_by
from dataplane.operator import Annotator, Rewrite, Transform
from dataplane.stage_graph import Inputs, dvc_yaml
from dataplane.stages.dedup import signatures_schema

SCHEMAS = {
    "raw": schema.RAW, "documents": schema.DOCUMENTS, "edits": schema.EDITS, "clean_decisions": schema.DECISIONS,
    "clean_quarantine": schema.QUARANTINE, "selected": schema.IDS, "select_decisions": schema.DECISIONS,
    "signatures": signatures_schema(DedupParams.parse({}, where="dedup")), "duplicates": schema.DUPLICATES, "deduplicated": schema.IDS,
    "repeats": schema.REPEATS, "cuts": schema.CUTS,
    "contamination": schema.CONTAMINATION, "decontaminated": schema.IDS, "held_out": schema.HELD_OUT, "mixture": schema.MIXTURE,
    "tokens": schema.TOKENS, "packed": schema.packed(8), "consumed": schema.CONSUMED, "checkpoints": schema.CHECKPOINTS,
}  # fmt: skip


def said() -> set[tuple[str, str | None, str, str]]:
    """Every claim as (table, column or None for its rows, input, column of the input)."""
    copied = {(table, name, given, name) for table, inputs in COPIED.items() for given, names in inputs.items() for name in names}
    made = {(table, name, *_pair(origin)) for table, names in COMPUTED.items() for name, origins in names.items() for origin in origins}
    return copied | made | {(table, None, *_pair(origin)) for table, origins in CHOSEN.items() for origin in origins}


def _pair(origin: str) -> tuple[str, str]:
    table, _, column = origin.partition(".")
    return table, column


def test_every_column_that_is_named_exists() -> None:
    wrong = [
        claim for claim in said()
        if (claim[1] is not None and claim[1] not in SCHEMAS[claim[0]].names) or claim[3] not in SCHEMAS[claim[2]].names
    ]  # fmt: skip
    assert wrong == []


def test_a_table_comes_only_from_what_its_stage_reads() -> None:
    stages = dvc_yaml(Inputs(raw=["data"], benchmarks=[], instructions=[], preferences=[])).get("stages", {})
    reads = {}
    for stage in stages.values():
        outs = [out if isinstance(out, str) else next(iter(out)) for out in stage["outs"]]
        for out in outs:
            if out.endswith(".json") and out.startswith("lake/"):
                reads[out.removeprefix("lake/").removesuffix(".json")] = {
                    dep.removeprefix("lake/").removesuffix(".json") for dep in stage["deps"] if dep.startswith("lake/")
                }
    assert [claim for claim in said() if claim[2] not in reads[claim[0]]] == []
    named = {claim[0] for claim in said()}
    assert set(reads) - named == {"raw", "ingest_quarantine", "evals"}


class Strip(Transform):
    name, version = "strip", "1"
    reads = {"text": pa.large_string(), "mime": pa.string()}
    writes = {"cut": pa.int64()}

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        raise NotImplementedError


class Length(Annotator):
    name, version = "length", "1"
    writes = {"chars": pa.int64()}

    def annotate(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        raise NotImplementedError


class Ratio(Annotator):
    name, version = "ratio", "1"
    reads = {"length__chars": pa.int64(), "url": pa.string()}
    writes = {"share": pa.float32()}

    def annotate(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        raise NotImplementedError


def test_a_signal_comes_from_what_its_operator_reads_through_other_operators() -> None:
    found = computed("documents", made_by([Strip(), Length(), Ratio()]))
    payload = ["raw.charset", "raw.mime", "raw.payload"]
    assert {name: sorted(origins) for name, origins in found.items()} == {
        "text": payload, "n_bytes": payload, "text_hash": payload, "strip__cut": payload, "length__chars": payload,
        "ratio__share": [*payload, "raw.url"],
    }  # fmt: skip


def test_of_a_table_that_nobody_described_nothing_is_said() -> None:
    assert computed("numbers", {}) == {}
