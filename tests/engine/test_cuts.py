"""Passages cut out of texts: what stays between them, and which documents are told apart by it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane import schema
from dataplane.engine.cuts import Cuts, kept, without

TEXTS = st.text(st.sampled_from("ab \n\t天。"), max_size=30)
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4)


@pytest.mark.parametrize(
    ("text", "passage", "left"),
    [
        ("one two three", "two", "one three"),
        ("one two three", "one two", "three"),
        ("one two three", "three", "one two"),
        ("one\n\ntwo three", "two", "one\n\nthree"),
        ("one two\n\nthree", "two", "one\n\nthree"),
        ("  one\n  two\n  three", "one", "  two\n  three"),
        ("if x:\n    y\n    z", "y", "if x:\n    z"),
        ("天地玄黄宇宙", "玄黄", "天地宇宙"),
        ("one", "one", ""),
    ],
)
def test_white_space_with_more_line_breaks_stays(text: str, passage: str, left: str) -> None:
    start = text.index(passage)
    assert without(text, [(start, start + len(passage))]) == left


@given(text=TEXTS, spans=SPANS)
def test_every_character_outside_of_the_passages_stays_but_white_space(text: str, spans: list[tuple[int, int]]) -> None:
    inside = [(min(a, len(text)), min(max(a, b), len(text))) for a, b in spans]
    gone = {i for start, stop in inside for i in range(start, stop)}
    assert "".join(without(text, inside).split()) == "".join("".join(c for i, c in enumerate(text) if i not in gone).split())
    assert [i for start, stop in kept(text, inside) for i in range(start, stop) if i in gone and not text[i].isspace()] == []


def cuts(rows: list[tuple[str, int, int]]) -> Cuts:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return Cuts(pa.table({**dict(zip(("doc_id", "start", "stop"), columns, strict=True)), "how": ["line"] * len(rows)}, schema=schema.CUTS))


def test_documents_are_told_by_what_is_cut_out_of_them_in_any_order() -> None:
    ids, plain = pa.array(["a", "b", "c"]), np.arange(6, dtype=np.uint64).reshape(3, 2)
    first = cuts([("b", 0, 3), ("b", 5, 9), ("c", 1, 2)]).told(ids, plain)
    assert (first == plain).all(axis=1).tolist() == [True, False, False]
    assert cuts([("c", 1, 2), ("b", 5, 9), ("b", 0, 3)]).told(ids, plain).tolist() == first.tolist()
    changed = cuts([("b", 0, 3), ("b", 5, 8), ("c", 1, 2)]).told(ids, plain)
    assert (changed == first).all(axis=1).tolist() == [True, False, True]


def test_texts_of_a_batch_lose_their_own_passages() -> None:
    batch = pa.record_batch({"doc_id": ["x", "b", "a"], "text": pa.array(["one two", "one two", "one two"], pa.large_string())})
    found = cuts([("a", 0, 3), ("b", 4, 7), ("b", 0, 3)]).batch(batch)
    assert found.column("text").to_pylist() == ["one two", "", "two"]
    assert cuts([]).batch(batch).column("text").to_pylist() == ["one two"] * 3
