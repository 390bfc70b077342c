"""The held-out split: by hash alone, every source, within its bounds."""

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataplane import schema
from dataplane.corpus.held_out import HeldOutParams, held_out, held_out_table


def documents(n: int, sources: int = 4, n_bytes: int = 100) -> pa.Table:
    names = [f"source{i % sources}" for i in range(n)]
    return pa.table({
        "doc_id": [hashlib.md5(str(i).encode()).hexdigest() for i in range(n)],
        "source": names,
        "kind": names,
        "n_bytes": pa.array([n_bytes] * n, pa.int64()),
    })  # fmt: skip


def params(**values: object) -> HeldOutParams:
    return HeldOutParams.parse(values, where="held_out")


def test_the_share_of_each_source_is_near_the_one_asked() -> None:
    table = documents(40_000)
    mask = held_out(table, params(share=0.05))
    for source in range(4):
        share = mask[source::4].mean()
        assert abs(share - 0.05) < 0.01  # 4.6 standard deviations


def test_a_document_is_held_out_whatever_stands_beside_it() -> None:
    table = documents(5000)
    whole = held_out(table, params(share=0.02, min_per_source=0))
    order = np.random.default_rng(1).permutation(5000)[:2500]
    assert held_out(table.take(pa.array(order)), params(share=0.02, min_per_source=0)).tolist() == whole[order].tolist()


def test_a_larger_share_holds_the_smaller() -> None:
    table = documents(5000)
    small, large = (held_out(table, params(share=share)) for share in (0.01, 0.1))
    assert not (small & ~large).any()


def test_small_sources_give_their_minimum_but_never_more_than_half() -> None:
    table = pa.concat_tables([documents(3, 1), pa.table({c: documents(20, 2)[c].slice(19) for c in documents(1).column_names})])
    mask = held_out(table, params(share=0.0, min_per_source=2))
    assert (int(mask[:3].sum()), bool(mask[3])) == (1, False)


@given(st.integers(1, 30_000))
def test_held_out_bytes_stay_below_the_bound(limit: int) -> None:
    table = documents(1000)
    assert held_out(table, params(share=0.5, max_bytes=limit)).sum() * 100 <= limit


def test_the_bound_is_shared_out_by_source() -> None:
    table = documents(4000)
    mask = held_out(table, params(share=0.2, max_bytes=40_000))
    assert [80 <= int(mask[source::4].sum()) <= 120 for source in range(4)] == [True] * 4


def test_the_table_has_the_schema_of_the_lake() -> None:
    table = documents(10)
    mask = np.arange(10) == 3
    assert held_out_table(table, mask).equals(table.slice(3, 1).select(["doc_id", "source", "kind"]).cast(schema.HELD_OUT))


def test_no_document_is_no_error() -> None:
    assert held_out(documents(1).slice(0, 0), params()).tolist() == []
