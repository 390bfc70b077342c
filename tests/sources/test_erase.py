"""One record is taken out of a raw file; every other record stays what it was, or the file is left alone."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dataplane.sources.erase import erase
from dataplane.sources.files import SourceSpec, expand
from dataplane.sources.records import Reader

TEXTS = [f"this is text number {i}, 第{i}篇" for i in range(5)]


def jsonl(ids: bool) -> bytes:
    return "".join(json.dumps({"text": text} | ({"id": str(i)} if ids else {})) + "\n" for i, text in enumerate(TEXTS)).encode()


def warc(gzipped: bool) -> bytes:
    records = []
    for text in TEXTS:
        http = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>{text}</p>".encode()
        head = "WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\n"
        records.append(f"{head}Content-Length: {len(http)}\r\n\r\n".encode() + http + b"\r\n\r\n")
    return b"".join(gzip.compress(record) if gzipped else record for record in records)


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for i, text in enumerate(TEXTS):
            archive.writestr(f"{i}.txt", text)
    return stream.getvalue()


def parquet() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), stream)
    return stream.getvalue()


CHANGEABLE: list[tuple[str, Callable[[], bytes], dict[str, Any]]] = [
    ("plain.jsonl", lambda: jsonl(ids=False), {}),
    ("named.jsonl", lambda: jsonl(ids=True), {"options": {"id": "id"}}),
    ("a.jsonl.gz", lambda: gzip.compress(jsonl(ids=False)), {}),
    ("a.jsonl.bz2", lambda: bz2.compress(jsonl(ids=False)), {}),
    ("a.jsonl.xz", lambda: lzma.compress(jsonl(ids=False)), {}),
    ("a.jsonl.zst", lambda: zstandard.compress(jsonl(ids=False)), {}),
    ("a.warc.gz", lambda: warc(gzipped=True), {}),
    ("a.warc", lambda: warc(gzipped=False), {}),
]


def lay(root: Path, name: str, content: bytes, more: dict[str, Any]) -> tuple[SourceSpec, Path]:
    (root / "data").mkdir()
    (root / "data" / name).write_bytes(content)
    return SourceSpec.parse({"name": "s", "kind": "k", "paths": ["data/*"]} | more, where="sources[0]"), root / "data" / name


def rows(root: Path, spec: SourceSpec) -> list[dict[str, Any]]:
    batches = [batch for file in expand([spec], root) for table, batch in Reader(spec, file, "").batches() if table == "raw"]
    return [row for batch in batches for row in batch.to_pylist()]


def ids_and_payloads(found: list[dict[str, Any]]) -> list[tuple[str, bytes]]:
    return [(row["doc_id"], row["payload"]) for row in found]


@pytest.mark.parametrize(("name", "content", "more"), CHANGEABLE, ids=[case[0] for case in CHANGEABLE])
@pytest.mark.parametrize("victim", [0, 2, 4])
def test_the_record_goes_and_every_other_stays(
    name: str, content: Callable[[], bytes], more: dict[str, Any], victim: int, tmp_path: Path
) -> None:
    spec, path = lay(tmp_path, name, content(), more)
    before = rows(tmp_path, spec)
    assert len(before) == len(TEXTS)
    assert erase(tmp_path, before[victim], [spec])
    after = ids_and_payloads(rows(tmp_path, spec))
    assert after == [entry for i, entry in enumerate(ids_and_payloads(before)) if i != victim]
    assert sorted(path.parent.iterdir()) == [path]


def test_a_file_that_holds_nothing_else_goes_whole(tmp_path: Path) -> None:
    spec, path = lay(tmp_path, "a.txt", TEXTS[0].encode(), {})
    (tmp_path / "data/b.txt").write_text(TEXTS[1])
    (gone, kept) = rows(tmp_path, spec)
    assert erase(tmp_path, gone, [spec])
    assert (path.exists(), ids_and_payloads(rows(tmp_path, spec))) == (False, ids_and_payloads([kept]))


@pytest.mark.parametrize(("name", "content"), [("a.zip", zipped), ("a.parquet", parquet)])
def test_a_file_that_cannot_be_changed_in_place_is_left_alone(name: str, content: Callable[[], bytes], tmp_path: Path) -> None:
    data = content()
    spec, path = lay(tmp_path, name, data, {})
    assert not erase(tmp_path, rows(tmp_path, spec)[1], [spec])
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == (data, [path])


def test_what_is_gone_already_is_no_fault(tmp_path: Path) -> None:
    spec, path = lay(tmp_path, "a.jsonl", jsonl(ids=False), {})
    row = rows(tmp_path, spec)[3]
    assert erase(tmp_path, row, [spec])
    once = path.read_bytes()
    assert erase(tmp_path, row, [spec])
    assert path.read_bytes() == once
