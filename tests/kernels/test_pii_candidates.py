"""The first look misses nothing that the recognisers find when they read everything."""

import time

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataplane.kernels.pii_candidates import candidates
from dataplane.transforms.pii_recognizers import KINDS, Recognizers, windows_of

RECOGNIZERS = Recognizers(KINDS, ("US", "GB", "CN"), private_ips=True)
FINDS = (
    "ann@example.com", "+1 650-253-0000", "(020) 8366 1177", "13812345678", "11010519491231002X", "8.8.8.8", "2001:4860:4860::8888",
    "4111 1111 1111 1111", "GB82 WEST 1234 5698 7654 32", "京A12345", "粤B·D12345", "护照E12345678", "ssn 078-05-1120", "AB 12 34 56 C",
    "AKIAIOSFODNN7EXAMPLE", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ", "１３８１２３４５６７８",
)  # fmt: skip
AROUND = st.text(st.sampled_from("ab Z09.,:-@/+_()中京，。\n８Ａ"), max_size=30)


def found(text: str) -> list[tuple[str, str]]:
    places = candidates(pa.array([text], pa.large_string()))[:, 1:].tolist()
    return [(span.kind, text[span.start : span.stop]) for span in RECOGNIZERS.find(text, windows_of(places, len(text)))]


@example(parts=[], end="9::")
@given(st.lists(st.tuples(AROUND, st.sampled_from(FINDS)), max_size=4), AROUND)
def test_windows_hold_all_that_the_whole_text_does(parts: list[tuple[str, str]], end: str) -> None:
    text = "".join(around + find for around, find in parts) + end
    everything = [(span.kind, text[span.start : span.stop]) for span in RECOGNIZERS.find(text)]
    assert found(text) == everything


def test_rows_and_places_are_those_of_a_slice() -> None:
    text = pa.array(["a@b.com", "nothing here", "中文 a@b.com", "x"], pa.large_string())
    assert candidates(text)[:, :3].tolist() == [[0, 1, 2], [2, 4, 5]]
    assert candidates(text.slice(1, 2))[:, :3].tolist() == [[1, 4, 5]]


@pytest.mark.slow
def test_fifty_megabytes_on_one_line_take_seconds() -> None:
    line = pa.array([("plain words of a text, " * 2_200_000) + "ann@example.com"], pa.large_string())
    started = time.process_time()
    assert candidates(line).shape == (1, 4)
    assert time.process_time() - started < 10
