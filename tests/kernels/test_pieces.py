"""Pieces tile a document, end with sentences or lines, and are neither short nor long."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.pieces import split


def pieces(*texts: str | None, chars: int = 5) -> list[tuple[int, str, float]]:
    found, documents, lengths = split(pa.array(texts, pa.large_string()), chars)
    return list(zip(documents.tolist(), found.to_pylist(), lengths.tolist(), strict=True))


def test_a_piece_ends_with_its_sentence_or_line() -> None:
    assert pieces("One. Two. 一二三四五六。七\nlast") == [
        *((0, "One. Two.", 9), (0, " 一二三四五六。", 8), (0, "七\nlast", 6)),
    ]


def test_what_has_no_end_is_cut_at_twice_the_length_and_nothing_is_one_empty_piece() -> None:
    assert pieces("x" * 23, "", None) == [(0, "x" * 10, 10), (0, "x" * 10, 10), (0, "xxx", 3), (1, "", 1), (2, "", 1)]


@given(st.lists(st.text(st.sampled_from("ab 中\n.。😀"), max_size=40), max_size=4), st.integers(1, 9))
def test_pieces_tile_their_documents(texts: list[str], chars: int) -> None:
    found = pieces(*texts, chars=chars)
    assert ["".join(text for document, text, _ in found if document == i) for i in range(len(texts))] == texts
    assert [length for *_, length in found] == [max(1, len(text)) for _, text, _ in found]
    assert [text for _, text, _ in found if len(text) > 2 * chars] == []
    not_last = [found[i] for i in range(len(found) - 1) if found[i][0] == found[i + 1][0]]
    assert [text for _, text, _ in not_last if len(text) < chars] == []


def test_a_slice_is_cut_as_it_is() -> None:
    found, documents, _ = split(pa.array(["first", "second one.", "third"], pa.string()).slice(1), 100)
    assert (found.to_pylist(), documents.tolist()) == (["second one.", "third"], [0, 1])
