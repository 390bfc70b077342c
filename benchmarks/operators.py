"""MB of UTF-8 a second of CPU time, on one core: every operator and every source that is registered, each alone.

    python benchmarks/operators.py [--quick] [--corpus FILE_OR_FOLDER]

Transforms are given the text in their own mark-up, sources a file of their own format in memory; models are small ones, trained
for the occasion, but that of the language. Peers stand in the benchmarks of each part.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import contextlib
import gzip
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.text_corpus import cpu_seconds, documents, options
from dataplane.errors import ModelMissing
from dataplane.registry import entries, operator_class, source_class
from dataplane.testing import Example, apply, batch_of

BATCH_ROWS = 512
QUICK_DOCUMENTS = 500
Files = list[tuple[bytes, str]]

# Media type -> beginning, each part of 400 characters, and end of a text in that mark-up.
FORMS = {
    "text/html": ("<html><head><title>T</title></head><body><nav><a href='/'>Home</a></nav>", "<p>{}</p>", "</body></html>"),
    "text/x-wiki": ("== Title ==\n", "[[Link|word]] {} <ref>note</ref>", ""),
    "text/x-tex": ("\\section{Title}\n", "{} \\emph{word} $x$ % note", ""),
}
PART_CHARS = 400


def marked_up(text: str, mime: str) -> str:
    if mime not in FORMS:
        return text
    head, form, tail = FORMS[mime]
    parts = [form.replace("{}", text[start : start + PART_CHARS], 1) for start in range(0, len(text), PART_CHARS)]
    return head + "\n\n".join(parts) + tail


def operators(texts: Sequence[str]) -> Iterator[dict[str, object]]:
    from tests.conformance.test_registered_operators import EXAMPLES, PARAMS, write_models

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_models()
        for name in (name for name in entries("dataplane.operators") if name in EXAMPLES):
            columns = {"url": "https://www.example.com/a/page?id=1", **EXAMPLES[name][0].columns}
            written = [marked_up(text, str(columns.get("mime"))) for text in texts]
            operator = operator_class(name)(PARAMS.get(name))
            try:
                operator.open()
            except ModelMissing as missing:
                yield {"name": name, "missing": missing.message}
                continue
            batch = batch_of(operator, [Example(text, columns=columns) for text in written])
            apply(operator, batch.slice(0, 2))
            seconds = cpu_seconds(lambda: [apply(operator, batch.slice(i, BATCH_ROWS)) for i in range(0, len(batch), BATCH_ROWS)])  # noqa: B023
            yield row(name, _size(written), seconds)


def sources(texts: Sequence[str]) -> Iterator[dict[str, object]]:
    for name in entries("dataplane.sources"):
        if name not in FILES:
            yield {"name": name, "missing": "no file of this format is made here"}
            continue
        files, source = FILES[name](texts), source_class(name)({})
        found = sum(len(list(source.read(io.BytesIO(data), file))) for data, file in files[:1])
        if not found:
            raise SystemExit(f"source {name} found no record in its own format")
        seconds = cpu_seconds(lambda: [list(source.read(io.BytesIO(data), file)) for data, file in files])  # noqa: B023
        yield row(name, _size(texts), seconds)


def _table(texts: Sequence[str]) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.large_string())})


def _parquet(texts: Sequence[str]) -> Files:
    sink = io.BytesIO()
    pq.write_table(_table(texts), sink)
    return [(sink.getvalue(), "a.parquet")]


def _arrow(texts: Sequence[str]) -> Files:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, _table(texts).schema) as writer:
        writer.write_table(_table(texts))
    return [(sink.getvalue(), "a.arrow")]


def _csv(texts: Sequence[str]) -> Files:
    rows = "".join('"' + text.replace('"', '""') + '",1\n' for text in texts)
    return [(f"text,id\n{rows}".encode(), "a.csv")]


def _wiki(texts: Sequence[str]) -> Files:
    page = "<page><title>T</title><ns>0</ns><id>1</id><revision><id>1</id><model>wikitext</model><text>{}</text></revision></page>\n"
    return [(f"<mediawiki>\n{''.join(page.format(escape(text)) for text in texts)}</mediawiki>".encode(), "a.xml")]


def _warc(texts: Sequence[str]) -> Files:
    return [(b"".join(gzip.compress(_response(text)) for text in texts), "a.warc.gz")]


def _response(text: str) -> bytes:
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + marked_up(text, "text/html").encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


FILES: dict[str, Callable[[Sequence[str]], Files]] = {
    "code": lambda texts: [(text.encode(), "a.py") for text in texts],
    "csv": _csv,
    "html": lambda texts: [(marked_up(text, "text/html").encode(), "a.html") for text in texts],
    "hub": _arrow,
    "json": lambda texts: [(json.dumps([{"text": text} for text in texts]).encode(), "a.json")],
    "jsonl": lambda texts: [("".join(json.dumps({"text": text}) + "\n" for text in texts).encode(), "a.jsonl")],
    "mediawiki": _wiki,
    "parquet": _parquet,
    "text": lambda texts: [(text.encode(), "a.txt") for text in texts],
    "warc": _warc,
}


def _size(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def row(name: str, megabytes: float, seconds: float) -> dict[str, object]:
    return {
        "name": name,
        "ours": round(megabytes / seconds, 2),
        "peer": None,
        "peer_name": None,
        "peer_version": None,
        "ratio": None,
        "unit": "MB/s",
    }


def main() -> None:
    chosen = options(__doc__)
    texts = documents(chosen)[: QUICK_DOCUMENTS if chosen.quick else None]
    for make in (sources, operators):
        for found in make(texts):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
