"""PII in English and Chinese: what is found, what must not be, and where."""

import time
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.transforms.pii_recognizers import Recognizers, narrow, valid_cn_id
from dataplane.transforms.scrub_pii import ScrubPii


@pytest.fixture(scope="module")
def scrub() -> ScrubPii:
    operator = ScrubPii()
    operator.open()
    return operator


def run(operator: ScrubPii, text: str) -> str:
    return operator.transform(pa.record_batch({"text": pa.array([text], pa.large_string())})).text[0].as_py()


# 11010519491231002X is the example of GB 11643-1999 itself; the phone numbers are the plans' own example numbers.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to ann.lee@example.org today.", "Write to [EMAIL] today."),
        ("<ann+tag@mail.example.co.uk>, (b_c@example.com)", "<[EMAIL]>, ([EMAIL])"),
        ("邮箱zhang@example.com.cn，谢谢", "邮箱[EMAIL]，谢谢"),
        ("ｚｈａｎｇ＠ｅｘａｍｐｌｅ．ｃｏｍ", "[EMAIL]"),
        ("call +1 650-253-0000 or (650) 253-0000", "call [PHONE] or [PHONE]"),
        ("London: +44 20 8366 1177", "London: [PHONE]"),
        ("手机13812345678，或 138-1234-5678", "手机[CN_MOBILE]，或 [CN_MOBILE]"),
        ("手机号：１３８１２３４５６７８。", "手机号：[CN_MOBILE]。"),
        ("+86 138 1234 5678", "[CN_MOBILE]"),
        ("身份证号11010519491231002X，请核对", "身份证号[CN_ID]，请核对"),
        ("server 8.8.8.8 and 2001:4860:4860::8888", "server [IP] and [IP]"),
        ("地址是8.8.4.4吗", "地址是[IP]吗"),
    ],
)
def test_personal_data_is_replaced(scrub: ScrubPii, text: str, expected: str) -> None:
    assert run(scrub, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4, v10.0.0.1 and release 2.10.33.1",
        "版本号：1.2.3.4",
        "2024-01-02 12:30:45, 01/02/2024, 二〇二四年一月二日",
        "ISBN 978-3-16-148410-0, ISSN 1234-5679, doi:10.1000/182",
        "price 1,234,567.89 and ¥12,345,678.00",
        "pi is 3.14159265358979 and e is 2.71828182845904",
        "order 1234567890123456789012345",
        "ID 110105194912310021 has the wrong check character",
        "private 192.168.1.1, 10.0.0.1, 127.0.0.1, ::1, fe80::1",
        "x = a[1:2:3]; y = b::c::d; std::vector<int>",
        "@decorator\ndef f(a@b): pass",
        "13812345\n678 is on two lines",
        "| 138 | 1234 | 5678 |",
        "0x1381234567800 and 1381234567812345",
        "12 34 56 78 90 12 34 56 78",
        "[EMAIL] and [PHONE]",
    ],
)
def test_what_only_looks_like_it_is_left_alone(scrub: ScrubPii, text: str) -> None:
    assert run(scrub, text) == text


def test_counts_are_by_kind_and_n_is_their_sum(scrub: ScrubPii) -> None:
    texts = ["a@example.com b@example.com 8.8.8.8", "nothing", ""]
    rewrite = scrub.transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    assert {kind: counts.to_pylist() for kind, counts in rewrite.edits.items() if any(counts.to_pylist())} == {
        "email": [2, 0, 0],
        "ip": [1, 0, 0],
    }
    assert rewrite.signals["n"].to_pylist() == [3, 0, 0]


def test_kinds_tags_and_switches_are_params() -> None:
    operator = ScrubPii({"kinds": ["email", "ip", "cn_id"], "tag": "<{kind}>", "private_ips": True, "unchecked_ids": True})
    operator.open()
    text = "a@example.com 10.0.0.1 110105194912310021 +1 650-253-0000"
    assert run(operator, text) == "<EMAIL> <IP> <CN_ID> +1 650-253-0000"


@given(st.text(max_size=80))
def test_spans_are_code_points_of_the_line_and_do_not_overlap(text: str) -> None:
    line = "".join(text.splitlines()) + " ann@example.com " + "".join(reversed("".join(text.splitlines())))
    spans = RECOGNIZERS.find(line)
    assert (
        "ann@example.com" in [narrow(line[span.start : span.stop]) for span in spans if span.kind == "email"]
        or "@" in text
        or line[0:1] == "@"
    )
    assert all(left.stop <= right.start for left, right in pairwise(spans))


RECOGNIZERS = Recognizers(("email",), ("US",), private_ips=False, unchecked_ids=False)


def test_the_check_character_of_chinese_ids() -> None:
    assert valid_cn_id("11010519491231002X")
    assert [digit for digit in "0123456789X" if valid_cn_id("11010519491231002" + digit)] == ["X"]


@pytest.mark.parametrize(
    "text", ["1" * 1_000_000, "@" * 300_000, "1 " * 300_000, "a:" * 300_000, "a@b." * 200_000, "1.2." * 200_000, "+" * 500_000]
)
def test_hostile_lines_take_bounded_time(scrub: ScrubPii, text: str) -> None:
    started = time.process_time()
    run(scrub, text)
    assert time.process_time() - started < 60
