"""Caps on documents of one site: how many stay, which, and that the stage mix keeps its books."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dataplane import schema
from dataplane.corpus.caps import CapParams, capped_column, over_cap
from dataplane.errors import ParamsError
from dataplane.snapshot import Snapshot
from dataplane.stages import mix


def documents(sites: list[str | None]) -> pa.Table:
    ids = [f"{i * 7919:032x}" for i in range(len(sites))]
    return pa.table({"doc_id": ids, "site": pa.array(sites, pa.string())})


@given(st.lists(st.sampled_from(["a", "b", None])), st.integers(1, 4), st.integers(0, 3))
def test_of_each_site_as_many_stay_as_the_cap_allows(sites: list[str | None], limit: int, seed: int) -> None:
    over = over_cap(documents(sites), "site", CapParams(max_documents=limit), seed)
    stay = Counter(site for site, gone in zip(sites, over, strict=True) if not gone)
    assert stay == Counter({site: n if site is None else min(n, limit) for site, n in Counter(sites).items()})


def test_which_stay_depends_on_the_seed_and_on_no_order() -> None:
    table = documents(["a"] * 50)
    params = CapParams(max_documents=10)

    def stay(rows: pa.Table, seed: int) -> set[str]:
        return set(rows.filter(pa.array(~over_cap(rows, "site", params, seed))).column("doc_id").to_pylist())

    assert stay(table, 0) == stay(table.take(list(range(49, -1, -1))), 0)
    assert stay(table, 0) != stay(table, 1)


def test_a_signal_that_is_not_there_is_named() -> None:
    columns = ["doc_id", "text", "canonical_url__domain"]
    assert capped_column(CapParams(), columns) is None
    assert capped_column(CapParams(by="canonical_url.domain"), columns) == "canonical_url__domain"
    with pytest.raises(ParamsError, match=r"no signal 'canonical_url.domian', did you mean 'canonical_url.domain'"):
        capped_column(CapParams(by="canonical_url.domian"), columns)


def test_the_stage_mix_leaves_out_what_is_over_the_cap(project: Path, put) -> None:  # type: ignore[no-untyped-def]
    base = {"source": "web", "kind": "web", "n_bytes": 100, "text": "x"}
    rows = [{**base, "doc_id": f"{i:032x}", "canonical_url__domain": "a.com" if i < 60 else None} for i in range(80)]
    columns = pa.schema([*schema.DOCUMENTS, pa.field("canonical_url__domain", pa.string())])
    table = pa.Table.from_pylist(rows, schema=columns)
    put("documents", table)
    put("decontaminated", table.select(["doc_id"]))
    put("cuts", schema.CUTS.empty_table())
    cap = {"by": "canonical_url.domain", "max_documents": 5}
    Path("params.yaml").write_text(yaml.safe_dump({"mix": {"cap": cap, "held_out": {"share": 0.0, "min_per_source": 0}}}))
    mix.main()
    trained = Snapshot.load("mixture").to_table().column("doc_id").to_pylist()
    assert len([doc for doc in trained if int(doc, 16) < 60]) == 5
    assert [doc for doc in sorted(trained) if int(doc, 16) >= 60] == [row["doc_id"] for row in rows[60:]]
    metrics = json.loads(Path("metrics/mix.json").read_text())
    assert (metrics["over_cap"], metrics["in_mixture"]) == (55, 25)
