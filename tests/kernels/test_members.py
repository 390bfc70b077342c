"""A set of values that batches are held against answers as Python's own set does."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.members import Members

TEXTS = st.lists(st.text(max_size=3), max_size=40)
FEW = st.integers(0, 2)  # so that pairs share their first word
PAIRS = st.lists(st.tuples(FEW, FEW), max_size=12)


@given(known=TEXTS, asked=TEXTS)
def test_it_holds_the_values_that_python_s_set_holds(known: list[str], asked: list[str]) -> None:
    members = Members.of(pa.array(known, pa.string()))
    assert len(members) == len(set(known))
    assert members.hold(pa.array(asked, pa.string())).tolist() == [value in set(known) for value in asked]
    assert members.places(pa.array(asked, pa.string())).tolist() == [known.index(value) if value in known else -1 for value in asked]


@given(known=PAIRS, asked=PAIRS)
def test_hashes_that_share_a_word_are_told_apart(known: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    def words(pairs: list[tuple[int, int]]) -> np.ndarray:
        return np.array(pairs, np.uint64).reshape(-1, 2)

    members = Members(words(known))
    assert len(members) == len(set(known))
    assert members.among(words(asked)).tolist() == [pair in set(known) for pair in asked]


def test_several_arrays_are_one_set_and_rows_are_chosen_by_a_column() -> None:
    members = Members.of(pa.chunked_array([["a"], ["b", None]]), pa.array(["c"]))
    batch = pa.record_batch({"doc_id": ["c", "x", "a", None], "n": [1, 2, 3, 4]})
    assert members.rows(batch).to_pydict() == {"doc_id": ["c", "a", None], "n": [1, 3, 4]}
    assert members.rows(batch.slice(0, 1)).to_pydict() == {"doc_id": ["c"], "n": [1]}
    assert Members.of().rows(batch).num_rows == 0
