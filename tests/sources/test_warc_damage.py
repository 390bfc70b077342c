"""Damage to a WARC file costs the record that it hits; the others are read, and found again."""

import bz2
import gzip
import io
from collections import Counter
from pathlib import Path

import brotli
import pytest
import zstandard
from test_source_formats import put, read
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dataplane.sources.locator import read_payload

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

N_RECORDS = 20
BODIES = [f"page {i} 第{i}页 ".encode() * (200 + i) for i in range(N_RECORDS)]


def written(gzipped: bool) -> bytes:
    sink = io.BytesIO()
    writer = WARCWriter(sink, gzip=gzipped)
    for i, body in enumerate(BODIES):
        http = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
        writer.write_record(writer.create_warc_record(f"http://h.test/{i}", "response", payload=io.BytesIO(body), http_headers=http))
    return sink.getvalue()


def outcome(tmp_path: Path, name: str, data: bytes) -> tuple[list[bytes], Counter[str]]:
    put(tmp_path, name, data)
    raw, faults, specs = read(tmp_path)
    for row in raw:
        assert read_payload(tmp_path, row, specs) == row["payload"]
    return [row["payload"] for row in raw], Counter(fault["error"] for fault in faults)


@pytest.mark.parametrize(
    ("name", "gzipped", "pack", "error"),
    [
        ("a.warc", False, lambda data: data, "Truncated"),
        ("a.warc.gz", True, lambda data: data, "BadGzip"),
        ("a.warc.gz", False, gzip.compress, "BadGzip"),
        ("a.warc.bz2", False, lambda data: bz2.compress(data, 1), "EOFError"),
        ("a.warc.zst", False, zstandard.compress, "EOFError"),
    ],
)
def test_a_cut_file_gives_whole_records_and_says_that_it_is_cut(tmp_path: Path, name: str, gzipped: bool, pack, error: str) -> None:
    whole = pack(written(gzipped))
    payloads, errors = outcome(tmp_path, name, whole[:-200])
    assert payloads == BODIES[: len(payloads)]
    assert errors[error] == 1


def test_a_file_gzipped_in_one_piece_loses_no_record(tmp_path: Path) -> None:
    assert outcome(tmp_path, "a.warc.gz", gzip.compress(written(False))) == (BODIES, Counter())


@pytest.mark.parametrize("gzipped", [True, False])
def test_damage_in_the_middle_costs_one_record(tmp_path: Path, gzipped: bool) -> None:
    data = bytearray(written(gzipped))
    at = data.find(b"\x1f\x8b\x08" if gzipped else b"WARC/1.", len(data) // 2)
    data[at + 20 if gzipped else at] ^= 0xFF
    payloads, errors = outcome(tmp_path, "a.warc.gz" if gzipped else "a.warc", bytes(data))
    assert len(payloads) == N_RECORDS - 1
    assert [body for body in BODIES if body in payloads] == payloads
    assert errors == {"BadGzip" if gzipped else "NotARecord": 1}


def one(headers: bytes, body: bytes) -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + headers + b"\r\n" + body
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://h.test/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    head += b"WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http; msgtype=response\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(http) + http + b"\r\n\r\n"


PAGE = b"<html>a page</html>" * 9


@pytest.mark.parametrize(
    ("headers", "body", "expected", "errors"),
    [
        (b"Content-Encoding: gzip\r\n", PAGE, [PAGE], {}),
        (b"Transfer-Encoding: chunked\r\n", PAGE, [PAGE], {}),
        (b"Content-Encoding: br\r\n", brotli.compress(PAGE), [PAGE], {}),
        (b"Content-Encoding: gzip\r\n", b"\x1f\x8b\x08\x00broken\x00\x01", [], {"BadCoding": 1}),
        (b"Content-Encoding: gzip\r\n", gzip.compress(b"0" * (100 << 20)), [], {"TooLarge": 1}),
        (b"Transfer-Encoding: chunked\r\n", b"ff\r\ncut", [], {"BadCoding": 1}),
    ],
)
def test_a_body_that_is_not_as_its_header_says_spoils_no_other(
    tmp_path: Path, headers: bytes, body: bytes, expected: list[bytes], errors: dict[str, int]
) -> None:
    assert outcome(tmp_path, "a.warc", one(headers, body) + one(b"", b"next")) == ([*expected, b"next"], errors)


def test_a_length_that_lies_costs_its_own_record(tmp_path: Path) -> None:
    lie = one(b"", PAGE).replace(b"Content-Length: 2", b"Content-Length: 3")
    payloads, errors = outcome(tmp_path, "a.warc", one(b"", b"before") + lie + one(b"", b"after") * 2)
    assert (payloads[0], payloads[-1], errors) == (b"before", b"after", {"BadLength": 1})


def test_faults_of_a_file_that_is_no_warc_are_few(tmp_path: Path) -> None:
    payloads, errors = outcome(tmp_path, "a.warc.gz", b"".join(gzip.compress(b"no record\n") for _ in range(5000)))
    assert (payloads, errors) == ([], {"NotARecord": 100, "GivenUp": 1})
