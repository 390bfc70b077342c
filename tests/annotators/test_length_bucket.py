"""Buckets of length: by words, characters or bytes, at their bounds."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.annotators.length_bucket import LengthBucket
from dataplane.errors import ParamsError
from dataplane.testing import Example, conformance


def rows(*texts: str, **params: object) -> list[tuple[int, int, str]]:
    made = LengthBucket(params).annotate(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    return [tuple(row.values()) for row in pa.record_batch(made).to_pylist()]


def test_a_bucket_begins_at_its_bound() -> None:
    texts = ["", "a", "a b", "a - b c\nd", "今天 天"]
    assert rows(*texts, bounds=[2, 4]) == [(0, 0, "0-1"), (1, 0, "0-1"), (2, 1, "2-3"), (4, 2, "4-"), (3, 1, "2-3")]


@given(st.lists(st.text()), st.sampled_from(["characters", "bytes"]))
def test_characters_and_bytes_are_those_of_the_text(texts: list[str], unit: str) -> None:
    lengths = [len(text) if unit == "characters" else len(text.encode()) for text in texts]
    assert [row[:2] for row in rows(*texts, unit=unit, bounds=[3])] == [(n, int(n >= 3)) for n in lengths]


def test_no_bound_is_one_bucket_and_bounds_have_to_rise() -> None:
    assert rows("a b", bounds=[]) == [(2, 0, "0-")]
    with pytest.raises(ParamsError, match="bounds have to rise"):
        LengthBucket({"bounds": [5, 5]})


@pytest.mark.slow
def test_it_conforms() -> None:
    conformance(LengthBucket, examples=[Example("a b c " * 60), Example("今天天气很好。"), Example("")])
