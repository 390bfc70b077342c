"""Every format in every wrapping: the records are those that were written, and each is read back from its locator."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dataplane.sources.files import expand, parse_specs
from dataplane.sources.locator import read_payload
from dataplane.sources.records import Reader

WIKI = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">
<siteinfo><sitename>W</sitename></siteinfo>
{pages}
</mediawiki>"""
PAGE = """<page><title>{title}</title><ns>{ns}</ns><id>{id}</id>{redirect}<revision><id>9{id}</id>
<timestamp>2024-05-0{id}T00:00:00Z</timestamp><text bytes="5" xml:space="preserve">{text}</text></revision></page>"""


def jsonl() -> tuple[str, bytes, list[str]]:
    texts = ["first", "第二行\nwith a newline", "emoji 😀", ""]
    lines = [json.dumps({"text": text, "n": i}, ensure_ascii=i % 2 == 0) for i, text in enumerate(texts)]
    return "a.jsonl", ("\n".join([*lines[:2], "", *lines[2:]])).encode(), texts


def parquet() -> tuple[str, bytes, list[str]]:
    texts = [f"row {i} 行" for i in range(2500)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "n": list(range(2500))}), sink, row_group_size=700)
    return "a.parquet", sink.getvalue(), texts


def csv_rows() -> tuple[str, bytes, list[str]]:
    texts = ["plain", 'a "quoted" word', "two\nlines, 中文", "last"]
    sink = io.StringIO(newline="")
    csv.writer(sink).writerows([["id", "text"], *enumerate(texts)])
    return "a.csv", sink.getvalue().encode(), texts


def json_array() -> tuple[str, bytes, list[str]]:
    texts = ['brackets ] } { [ and \\" quotes', "中文", "", "x"]
    return "a.json", json.dumps([{"text": text, "deep": {"list": [[1], {}]}} for text in texts], indent=1).encode(), texts


def hub() -> tuple[str, bytes, list[str]]:
    texts = [f"row {i} 行" for i in range(700)]
    sink = io.BytesIO()
    table = pa.table({"text": texts})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    return "a.arrow", sink.getvalue(), texts


def text() -> tuple[str, bytes, list[str]]:
    return "a.md", "# Title\r\n\r\n正文 line\n".encode(), ["# Title\r\n\r\n正文 line\n"]


def html() -> tuple[str, bytes, list[str]]:
    return "a.html", b"<html><p>hi</p></html>", ["<html><p>hi</p></html>"]


def code() -> tuple[str, bytes, list[str]]:
    return "a.py", b"x = 1\n", ["x = 1\n"]


def mediawiki() -> tuple[str, bytes, list[str]]:
    pages = [
        PAGE.format(title="One", ns=0, id=1, redirect="", text="'''One''' &amp; [[two]]"),
        PAGE.format(title="Talk:One", ns=1, id=2, redirect="", text="talk"),
        PAGE.format(title="Old", ns=0, id=3, redirect='<redirect title="One"/>', text="#REDIRECT [[One]]"),
        PAGE.format(title="二", ns=0, id=4, redirect="", text="中文条目"),
    ]
    return "a.xml", WIKI.format(pages="\n".join(pages)).encode(), ["'''One''' & [[two]]", "中文条目"]


FORMATS = [jsonl, json_array, csv_rows, parquet, hub, text, html, code, mediawiki]


def _zip(name: str, data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deep/" + name, data)
        archive.writestr("deep/more/" + name + ".gz", gzip.compress(data))
    return sink.getvalue()


def _tar(name: str, data: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for member in ("../../" + name, "b/" + name):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


WRAPPINGS: dict[str, tuple[Callable[[str, bytes], bytes], int]] = {
    "": (lambda name, data: data, 1),
    ".gz": (lambda name, data: gzip.compress(data), 1),
    ".bz2": (lambda name, data: bz2.compress(data), 1),
    ".xz": (lambda name, data: lzma.compress(data), 1),
    ".zst": (lambda name, data: zstandard.compress(data), 1),
    ".zip": (_zip, 2),
    ".tar": (_tar, 2),
    ".tar.gz": (lambda name, data: gzip.compress(_tar(name, data)), 2),
    ".tgz": (lambda name, data: gzip.compress(_tar(name, data)), 2),
    ".tar.zst": (lambda name, data: zstandard.compress(_tar(name, data)), 2),
    ".tar.xz": (lambda name, data: lzma.compress(_tar(name, data)), 2),
}


def read(root: Path, **spec: object) -> tuple[list[dict], list[dict], list]:
    """Rows of raw and of quarantine, and the specs."""
    specs = parse_specs([{"name": "s", "kind": "k", "paths": ["data/**"], **spec}])
    raw, faults = [], []
    for file in expand(specs, root):
        for table, batch in Reader(specs[0], file, "run").batches():
            (raw if table == "raw" else faults).extend(batch.to_pylist())
    return raw, faults, specs


def put(root: Path, name: str, data: bytes) -> None:
    path = root / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize("suffix", WRAPPINGS)
@pytest.mark.parametrize("make", FORMATS, ids=lambda f: f.__name__)
def test_records_are_those_written_and_are_read_back(tmp_path: Path, make: Callable, suffix: str) -> None:
    name, data, expected = make()
    wrap, copies = WRAPPINGS[suffix]
    put(tmp_path, name + suffix, wrap(name, data))
    raw, faults, specs = read(tmp_path)
    assert faults == []
    assert [row["payload"].decode() for row in raw] == expected * copies
    assert len({row["doc_id"] for row in raw}) == len(raw)
    for row in raw[:: max(1, len(raw) // 8)]:
        assert read_payload(tmp_path, row, specs) == row["payload"]


def warc_bytes(gzipped: bool) -> tuple[bytes, list[tuple[str, bytes]]]:
    sink = io.BytesIO()
    writer = WARCWriter(sink, gzip=gzipped)
    page, chinese = b"<html><p>plain page</p></html>", "<html><p>中文</p></html>".encode()
    bodies = {
        "http://h.test/plain": (page, [("Content-Type", "text/html; charset=utf-8")], page),
        "http://h.test/gzip": (gzip.compress(chinese), [("Content-Type", "text/html"), ("Content-Encoding", "gzip")], chinese),
        "http://h.test/chunked": (
            b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            [("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked")],
            b"hello world",
        ),
    }  # fmt: skip
    for url, (body, headers, _) in bodies.items():
        http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        writer.write_record(writer.create_warc_record(url, "response", payload=io.BytesIO(body), http_headers=http))
    missing = StatusAndHeaders("404 Not Found", [("Content-Type", "text/html")], protocol="HTTP/1.1")
    writer.write_record(writer.create_warc_record("http://h.test/no", "response", payload=io.BytesIO(b"no"), http_headers=missing))
    image = StatusAndHeaders("200 OK", [("Content-Type", "image/png")], protocol="HTTP/1.1")
    writer.write_record(writer.create_warc_record("http://h.test/i.png", "response", payload=io.BytesIO(b"\x89PNG"), http_headers=image))
    writer.write_record(
        writer.create_warc_record(
            "http://h.test/wet", "conversion", payload=io.BytesIO("转换 text".encode()), warc_content_type="text/plain"
        )
    )
    return sink.getvalue(), [(url, plain) for url, (_, _, plain) in bodies.items()] + [("http://h.test/wet", "转换 text".encode())]


# warcio, which writes these files, leaves its own temporary files to the garbage collector.
WARCIO = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@WARCIO
@pytest.mark.parametrize("gzipped", [True, False])
def test_warc_bodies_are_decoded_and_found_again_by_their_offset(tmp_path: Path, gzipped: bool) -> None:
    data, expected = warc_bytes(gzipped)
    put(tmp_path, "a.warc.gz" if gzipped else "a.warc", data)
    raw, faults, specs = read(tmp_path)
    assert [(row["url"], row["payload"]) for row in raw] == expected
    assert sorted(fault["error"] for fault in faults) == ["HttpStatus", "NotText"]
    assert raw[0]["charset"] == "utf-8"
    for row in raw:
        assert read_payload(tmp_path, row, specs) == row["payload"]
        if gzipped:
            assert data[row["offset"] : row["offset"] + 2] == b"\x1f\x8b"


@WARCIO
def test_a_warc_inside_a_zip_is_read_too(tmp_path: Path) -> None:
    data, expected = warc_bytes(False)
    put(tmp_path, "a.warc.zip", _zip("a.warc", data))
    raw, _, specs = read(tmp_path)
    assert [(row["url"], row["payload"]) for row in raw] == expected * 2
    assert read_payload(tmp_path, raw[-1], specs) == raw[-1]["payload"]


def test_warc_counts_are_those_of_warcio(shared_data: Path) -> None:
    from warcio.archiveiterator import ArchiveIterator

    path = shared_data / "warc" / "dolma_2024" / "sample-0000.warc.gz"
    with path.open("rb") as stream:
        expected = [
            record.rec_headers.get_header("WARC-Target-URI").strip("<>")
            for record in ArchiveIterator(stream)
            if record.rec_type in ("response", "resource", "conversion")
        ]
    specs = parse_specs([{"name": "s", "kind": "web", "paths": [str(path)]}])
    (file,) = expand(specs)
    rows = [row for _, batch in Reader(specs[0], file, "r").batches() for row in batch.to_pylist()]
    assert len(rows) == len(expected)
    assert [row["url"] for row in rows if "url" in row] == [url for url in expected if url in {row.get("url") for row in rows}]


def test_text_is_split_at_separator_lines(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", b"one\nmore\n%\ntwo 100%\n%\n%\n\n%\nthree")
    raw, faults, specs = read(tmp_path, options={"split": "%"})
    assert ([row["payload"] for row in raw], faults) == ([b"one\nmore\n", b"two 100%\n", b"three"], [])
    assert [read_payload(tmp_path, row, specs) for row in raw] == [row["payload"] for row in raw]


def test_fields_of_json_are_mapped_and_the_rest_is_kept_in_meta(tmp_path: Path) -> None:
    line = {"body": {"content": "the text"}, "key": 7, "link": "http://h.test/", "lang": "en", "nested": {"x": 1}, "none": None}
    put(tmp_path, "a.jsonl", json.dumps(line).encode())
    (row,), faults, _ = read(tmp_path, options={"text": "body.content", "id": "key", "url": "link"}, license="MIT")
    assert (row["payload"], row["url"], faults) == (b"the text", "http://h.test/", [])
    assert json.loads(row["meta"]) == {"key": 7, "lang": "en", "license": "MIT"}


def test_moving_the_root_changes_no_doc_id_and_edited_text_keeps_its_declared_id(tmp_path: Path) -> None:
    ids = []
    for folder, text in (("one", "before"), ("two/deeper", "after")):
        put(tmp_path / folder, "x/a.jsonl", json.dumps({"id": "k", "text": text}).encode())
        raw, _, _ = read(tmp_path / folder, options={"id": "id"})
        ids.append(raw[0]["doc_id"])
    assert ids[0] == ids[1]


def test_formats_can_be_stated_for_names_that_say_nothing(tmp_path: Path) -> None:
    put(tmp_path, "part-0000", b'{"text": "a"}\n')
    raw, faults, _ = read(tmp_path)
    assert (raw, [fault["error"] for fault in faults]) == ([], ["UnknownFormat"])
    raw, faults, _ = read(tmp_path, format="jsonl")
    assert ([row["payload"] for row in raw], faults) == ([b"a"], [])
