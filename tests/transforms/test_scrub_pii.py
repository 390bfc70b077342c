"""PII in English and Chinese: what is found, what must not be, and where."""

import hashlib
import hmac
import json
import time
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import EnvironmentFault
from dataplane.testing import conformance
from dataplane.transforms.pii_checks import valid_cn_id
from dataplane.transforms.pii_look import narrow
from dataplane.transforms.pii_recognizers import Recognizers
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
        ("地址2001:4860:4860::8844，端口80", "地址[IP]，端口80"),
        ("[::ffff:8.8.8.8]:80, 8.8.8.8.", "[[IP]]:80, [IP]."),
        ("身份证 1101 0519 4912 3100 2X", "身份证 [CN_ID]"),
        ("证件１１０１０５１９４９１２３１００２Ｘ号", "证件[CN_ID]号"),
        ("user@xn--80ak6aa92e.com or a@xn--d1acufc.xn--p1ai", "[EMAIL] or [EMAIL]"),
        ("联系电话：（010）62771234", "联系电话：[PHONE]"),
        ("座机010-62771234，传真 021 6277 1234", "座机[PHONE]，传真 [PHONE]"),
        ("Phone: 021-4006034", "Phone: [PHONE]"),
        ("(650) 253-0000 x1711", "[PHONE]"),
        ("a@example.com,b@example.com;c@example.com", "[EMAIL],[EMAIL];[EMAIL]"),
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
        "x[::2] + y[1::3] and a[::1]",
        "2a00:: and ab:: begin names, 9:: a slice",
        "数字12345678901不是手机号，订单号 2025550123",
        "见《手册》2.4.7.11 章",
        "2012-2015, 2012 - 2015, 2024/01/02 2024.01.02",
        "650.253.00001, 1650253000012, /6502530000, #650-253-0000, ISBN 0-306-40615-2",
        "x@y, @user, user@, a@b@c, foo@bar.notatld, @example.com",
        "110105194902310027 has no such day and 990105194912310029 no such province",
        "columns 6502 5300 0012 3456 7890 1234",
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
    operator = ScrubPii({"kinds": ["email", "ip", "cn_id_shaped"], "tag": "<{kind}>", "private_ips": True})
    operator.open()
    text = "a@example.com 10.0.0.1 110105194912310021 +1 650-253-0000"
    assert run(operator, text) == "<EMAIL> <IP> <CN_ID_SHAPED> +1 650-253-0000"


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


RECOGNIZERS = Recognizers(("email",), ("US",), private_ips=False)


def test_a_clean_text_is_left_to_the_first_look(scrub: ScrubPii, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "_recognizers", None)
    assert (
        run(scrub, "Plain text of 2024, with 1,000 words: see chapter 3.2. 中文：第十章。")
        == "Plain text of 2024, with 1,000 words: see chapter 3.2. 中文：第十章。"
    )


def test_finds_in_a_long_line_are_those_of_its_parts(scrub: ScrubPii) -> None:
    part = "word " * 100 + "ann@example.com, 13812345678, 8.8.8.8 and +1 650-253-0000; " + "字" * 500
    assert run(scrub, part * 50) == run(scrub, part) * 50
    assert run(scrub, part).count("[") == 4


@pytest.mark.slow
def test_it_conforms() -> None:
    conformance(ScrubPii, examples=["ann@example.com", "手机13812345678", "nothing", ""])


def test_synthetic_english_is_scrubbed_as_its_spans_say(shared_data: Path) -> None:
    entities = {"EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS"}
    recognizers = Recognizers(("email", "ip", "phone"), ("US", "GB", "CN"), private_ips=True)
    hit = missed = wrong = 0
    for case in json.loads((shared_data / "pii/presidio_research/generated_large.json").read_text()):
        gold = [(span["start_position"], span["end_position"]) for span in case["spans"] if span["entity_type"] in entities]
        found = [(span.start, span.stop) for span in recognizers.find(case["full_text"])]
        met = [any(start < stop2 and start2 < stop for start2, stop2 in found) for start, stop in gold]
        hit, missed = hit + sum(met), missed + len(met) - sum(met)
        wrong += sum(not any(start < stop2 and start2 < stop for start2, stop2 in gold) for start, stop in found)
    # Numbers there are invented, so many are in no plan; those that nothing in the sentence calls a phone number are missed.
    assert wrong == 0
    assert hit / (hit + missed) > 0.95


@pytest.mark.parametrize("group", ["Phone", "IDCard", "Email"])
def test_chinese_cases_are_found_as_often_as_they_say(shared_data: Path, group: str) -> None:
    recognizers = Recognizers(("email", "cn_id", "cn_mobile"), ("CN",), private_ips=False)
    wrong = []
    for case in json.loads((shared_data / "pii/cn_cases/cases.json").read_text()):
        if group not in case["group"]:
            continue
        for name, value in case["case"].items():
            texts = value if isinstance(value, list) else [case["case"]["text"]]
            expected = case["case"].get("expected_count", int(name.startswith("valid")))
            wrong += [(text, expected) for text in texts if len(recognizers.find(text)) != expected]
    assert wrong == []


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


def test_spans_say_where_in_the_text_before_and_hold_none_of_it(scrub: ScrubPii) -> None:
    texts = ["nothing", "写信到ann@example.com，或bob@example.com；主机8.8.8.8"]
    rewrite = scrub.transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    places = {kind: spans.to_pylist() for kind, spans in rewrite.spans.items()}
    assert places == {"email": [[], [{"start": 3, "stop": 18}, {"start": 20, "stop": 35}]], "ip": [[], [{"start": 38, "stop": 45}]]}
    assert [texts[1][place["start"] : place["stop"]] for place in places["email"][1]] == ["ann@example.com", "bob@example.com"]


def test_the_same_find_has_the_same_name_in_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a@example.com, b@example.com, A@example.com; 138-1234-5678 and 13812345678"
    operator = ScrubPii({"replace": "number"})
    operator.open()
    assert run(operator, text) == "[EMAIL_1], [EMAIL_2], [EMAIL_1]; [CN_MOBILE_1] and [CN_MOBILE_1]"
    masked = ScrubPii({"replace": "mask"})
    masked.open()
    assert run(masked, "to a@example.com.") == "to *************."
    monkeypatch.setenv("TERRAPLANE_PII_KEY", "a key of sixteen characters")
    first = ScrubPii({"replace": "hash"})
    first.open()
    monkeypatch.setenv("TERRAPLANE_PII_KEY", "another key of this length")
    second = ScrubPii({"replace": "hash"})
    second.open()
    digest = hmac.new(b"a key of sixteen characters", b"email:a@example.com", hashlib.sha256).hexdigest()[:16]
    assert run(first, "to a@example.com.") == f"to [EMAIL_{digest}]."
    assert run(second, "to a@example.com.") != run(first, "to a@example.com.")


def test_a_digest_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERRAPLANE_PII_KEY", raising=False)
    with pytest.raises(EnvironmentFault, match="at least 16 characters"):
        ScrubPii({"replace": "hash"}).open()
