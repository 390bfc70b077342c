"""Hashes against the reference library, and the invariances that content digests rest on."""

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.hashing import hash128, row_hashes, sum128

SECOND_SEED = 0x5851F42D4C957F2D


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_hash128_is_xxh64_under_two_seeds(values: list[bytes]) -> None:
    got = hash128(pa.array(values, pa.binary())).tolist()
    assert got == [[xxhash.xxh64_intdigest(v), xxhash.xxh64_intdigest(v, SECOND_SEED)] for v in values]


@given(st.lists(st.text(max_size=50), min_size=1, max_size=20), st.integers(0, 19))
def test_hashes_do_not_depend_on_slicing_or_string_width(values: list[str], start: int) -> None:
    whole = hash128(pa.array(values, pa.string()))
    part = hash128(pa.array(values, pa.large_string()).slice(start))
    assert part.tolist() == whole[start:].tolist()


def test_widths_of_numbers_do_not_change_a_row_hash() -> None:
    narrow = pa.record_batch({"a": pa.array([1, -2], pa.int32()), "b": pa.array([0.5, -0.0], pa.float32())})
    wide = pa.record_batch({"b": pa.array([0.5, 0.0], pa.float64()), "a": pa.array([1, -2], pa.int64())})
    assert row_hashes(narrow).tolist() == row_hashes(wide).tolist()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": ["x", None]}, {"a": ["x", ""]}),
        ({"a": ["x"], "b": ["y"]}, {"a": ["y"], "b": ["x"]}),
        ({"a": ["x"]}, {"b": ["x"]}),
        ({"a": [["x", "y"]]}, {"a": [["xy"]]}),
        ({"a": [["x"], ["y"]]}, {"a": [["x", "y"], []]}),
        ({"a": [{"k": 1, "l": 2}]}, {"a": [{"k": 2, "l": 1}]}),
        ({"a": [None]}, {"a": [[]]}),
        ({"a": [[1, 2]]}, {"a": [[2, 1]]}),
        ({"a": [[1], [0, 2]]}, {"a": [[1, 0], [2]]}),
        ({"a": [[1, 0]]}, {"a": [[1]]}),
        ({"a": [[1, None]]}, {"a": [[1, 0]]}),
        ({"a": [[0, None]]}, {"a": [[None, 0]]}),
        ({"a": [[None]]}, {"a": [None]}),
    ],
)
def test_different_content_hashes_differently(left: dict, right: dict) -> None:
    assert row_hashes(pa.record_batch(left)).tolist() != row_hashes(pa.record_batch(right)).tolist()


NESTED = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.text(max_size=8)),
            "spans": st.one_of(
                st.none(), st.lists(st.fixed_dictionaries({"doc": st.text(max_size=3), "n": st.integers(-5, 5)}), max_size=3)
            ),
        }
    ),
    min_size=1,
    max_size=12,
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("spans", pa.list_(pa.struct([("doc", pa.string()), ("n", pa.int32())]))),
    ]
)


@given(NESTED, st.integers(0, 12))
def test_sum_is_additive_over_parts_and_blind_to_their_order(rows: list[dict], cut: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    whole = sum128(row_hashes(batch))
    parts = [sum128(row_hashes(part)) for part in (batch.slice(cut), batch.slice(0, cut)) if len(part)]
    assert sum(parts) % (1 << 128) == whole


def test_sum_is_the_exact_integer_sum() -> None:
    hashes = hash128(pa.array([str(i) for i in range(1000)]))
    expected = sum(int(low) + (int(high) << 64) for low, high in hashes.tolist()) % (1 << 128)
    assert sum128(hashes) == expected


@given(st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=4)), min_size=1, max_size=8))
def test_lists_of_numbers_hash_alike_whatever_lies_beside_them(lists: list[list[int | None] | None]) -> None:
    together = hash128(pa.array(lists, pa.list_(pa.int32())))
    alone = [hash128(pa.array([None, value], pa.large_list(pa.int64()))[1:]).tolist()[0] for value in lists]
    assert together.tolist() == alone
    whole = [None if value is None or None in value else value for value in lists]
    known = [at for at, value in enumerate(whole) if value is not None]
    packed = [b"".join(number.to_bytes(8, "little", signed=True) for number in whole[at]) for at in known]
    assert together[known].tolist() == hash128(pa.array(packed, pa.binary())).tolist()
