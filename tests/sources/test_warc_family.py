"""ARC, WAT, revisits and digests: the same documents as the WARC holds, and what is amiss is said."""

import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from test_source_formats import put, read
from test_warc_damage import outcome
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dataplane.source import Record
from dataplane.sources.warc import Warc

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=gbk\r\n\r\n"
PAGES = [f"<p>第 {i} 页</p>".encode("gbk") for i in range(5)]


def arc(pages: list[bytes], lie: int = 0) -> list[bytes]:
    """The records of an ARC file; the third states a length that is `lie` too large."""
    version = b"1 1 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    records = [b"filedesc://x.arc 0.0.0.0 20080430204825 text/plain %d\n%s\n" % (len(version), version)]
    records.append(b"dns:h.test 1.2.3.4 20080430204825 text/dns 4\nabcd\n")
    for i, page in enumerate(pages):
        stated = len(HTTP + page) + (lie if i == 2 else 0)
        records.append(b"http://h.test/a b/%d 1.2.3.4 2008043020482%d text/html %d\n%s%s\n" % (i, i, stated, HTTP, page))
    return records


@pytest.mark.parametrize("name", ["a.arc", "a.arc.gz"])
def test_an_arc_gives_its_documents(tmp_path: Path, name: str) -> None:
    records = arc(PAGES)
    put(tmp_path, name, b"".join(map(gzip.compress, records)) if name.endswith("gz") else b"".join(records))
    assert outcome(tmp_path, name, (tmp_path / "data" / name).read_bytes()) == (PAGES, Counter())
    raw, _, _ = read(tmp_path)
    found = [(row["url"], row["mime"], row["charset"], row["fetched_at"].isoformat()) for row in raw]
    assert found == [(f"http://h.test/a b/{i}", "text/html", "gbk", f"2008-04-30T20:48:2{i}+00:00") for i in range(5)]


@pytest.mark.parametrize("lie", [-3, 5, 90])
def test_a_record_of_an_arc_with_a_wrong_length_costs_itself_alone(tmp_path: Path, lie: int) -> None:
    payloads, errors = outcome(tmp_path, "a.arc", b"".join(arc(PAGES, lie)))
    assert payloads == PAGES[:2] + PAGES[3:]
    assert errors["BadLength"] == 1


def test_the_twins_of_the_internet_archive_hold_the_same_documents(shared_data: Path) -> None:
    folder = shared_data / "warc" / "archiveorg_2008"
    twins = []
    for name in ("example.arc.gz", "example.warc.gz"):
        with (folder / name).open("rb") as stream:
            records = [record for record in Warc().read(stream, name) if isinstance(record, Record)]
        twins.append([(record.url, record.mime, record.charset, record.fetched_at, record.payload) for record in records])
    assert twins[0] == twins[1]
    assert len(twins[0]) == 130


def warc(**fields: str) -> bytes:
    """A response with further fields in its header."""
    block = HTTP + PAGES[0]
    lines = ["WARC/1.0", "WARC-Type: response", "WARC-Target-URI: http://h.test/", "WARC-Date: 2024-01-02T03:04:05Z"]
    lines += ["WARC-Record-ID: <urn:uuid:1>", "Content-Type: application/http; msgtype=response", f"Content-Length: {len(block)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def test_digests_that_do_not_fit_are_named(tmp_path: Path) -> None:
    sink = io.BytesIO()
    writer = WARCWriter(sink, gzip=False)
    http = StatusAndHeaders("200 OK", [("Content-Type", "text/html"), ("Transfer-Encoding", "chunked")], protocol="HTTP/1.1")
    writer.write_record(
        writer.create_warc_record("http://h.test/w", "response", payload=io.BytesIO(b"2\r\nab\r\n0\r\n\r\n"), http_headers=http)
    )
    wrong = "sha1:" + "A" * 32
    put(tmp_path, "a.warc", sink.getvalue() + warc(WARC_Block_Digest=wrong) + warc(WARC_Payload_Digest=wrong) + warc())
    raw, _, _ = read(tmp_path)
    named = [sorted(set(json.loads(row["meta"])) - {"warc_record_id"}) for row in raw]
    assert named == [[], ["warc_block_digest"], ["warc_payload_digest"], []]


def test_a_revisit_says_where_its_text_is(tmp_path: Path) -> None:
    sink = io.BytesIO()
    writer = WARCWriter(sink, gzip=True)
    writer.write_record(writer.create_revisit_record("http://h.test/", "sha1:A", "http://h.test/first", "2020-01-01T00:00:00Z"))
    put(tmp_path, "a.warc.gz", sink.getvalue())
    raw, (fault,), _ = read(tmp_path)
    assert (raw, fault["error"]) == ([], "Revisit")
    assert fault["message"] == "unchanged since the visit of 2020-01-01T00:00:00Z: see the record of http://h.test/first"


def wat_block(kind: str, page: dict) -> bytes:
    return json.dumps({"Envelope": {"Payload-Metadata": {f"HTTP-{kind}-Metadata": {"HTML-Metadata": page}}}}).encode()


def test_a_wat_gives_title_and_links_of_its_pages(tmp_path: Path) -> None:
    page = {
        "Head": {
            "Title": " A\n title ",
            "Metas": [{"name": "description", "content": "What it is."}, {"property": "og:locale", "content": "en"}],
        },
        "Links": [
            {"path": "A@/href", "url": "/next", "text": "Next page"},
            {"path": "IMG@/src", "url": "http://i.test/x.png", "alt": "一只猫"},
            {"path": "A@/href", "url": "javascript:no()", "text": "no"},
            "damaged",
        ],
    }
    sink = io.BytesIO()
    writer = WARCWriter(sink, gzip=True)
    for block in (wat_block("Response", page), wat_block("Request", page), b"{", b"[]"):
        writer.write_record(
            writer.create_warc_record("http://h.test/a/b", "metadata", payload=io.BytesIO(block), warc_content_type="application/json")
        )
    payloads, errors = outcome(tmp_path, "a.warc.wat.gz", sink.getvalue())
    assert payloads == ["# A title\n\nWhat it is.\n\n- [Next page](http://h.test/next)\n- ![一只猫](http://i.test/x.png)".encode()]
    assert errors == Counter({"NotJson": 1})
