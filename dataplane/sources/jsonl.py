"""JSON lines: a line is a record, one of its fields the text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_range

MAX_LINE_BYTES = 64 << 20
SNIFF_BYTES = 4096
MAX_META_CHARS = 2000  # of one value; longer ones are left out of `meta`
BOM = b"\xef\xbb\xbf"


class JsonFields(BaseParams):
    """Which field is what; a dot leads into an object."""

    text: str = Field("text", description="Field of the text.")
    id: str | None = Field(None, description="Field that names the record: edited text under one id is a new version of one document.")
    url: str | None = Field("url", description="Field of the address.")


class Jsonl(Source):
    """Reads JSON lines; a line that is none, or lacks the text, is a fault."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".jsonlines")

    class Params(JsonFields):
        """Options of JSON lines."""

        mime: str = Field("text/plain", description="What the text is.")
        max_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="Longest line.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record a line; empty lines are passed over."""
        at = 0
        for line in iter(lambda: stream.readline(self.params.max_bytes + 1), b""):
            start, size = at, len(line)
            if at == 0 and b"\0" in line[:SNIFF_BYTES]:
                yield Fault(0, "Binary", "the file holds NUL bytes: it is no JSON lines")
                return
            if size > self.params.max_bytes:
                size += _rest_of_line(stream, self.params.max_bytes)
                yield Fault(start, "TooLarge", f"line of {size:,} bytes; the option max_bytes is {self.params.max_bytes:,}")
            elif line.strip():
                yield self._record(line, start)
            at += size

    def _record(self, line: bytes, start: int) -> Record | Fault:
        try:
            values = json.loads(line.removeprefix(BOM) if start == 0 else line)
        except (ValueError, RecursionError) as error:
            # Not the exception's own text: it may quote the line.
            return Fault(start, "NotJson", f"line of {len(line):,} bytes is not JSON ({type(error).__name__})")
        if not isinstance(values, dict):
            return Fault(start, "NotAnObject", f"line holds a JSON {type(values).__name__}, expected an object")
        return record_of(values, self.params, Locator(start, len(line)), self.params.mime)

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of the line at the locator."""
        found = self._record(read_range(stream, offset, length), offset)
        if isinstance(found, Fault):
            raise SourceError(found.message, fix="the raw file has changed since it was ingested: restore it")
        return found.payload


class Locator:
    """Where a record lies: bytes of a stream, or a row."""

    def __init__(self, offset: int, length: int, row: int | None = None) -> None:
        self.offset, self.length, self.row = offset, length, row


def record_of(values: Mapping[str, Any], fields: JsonFields, at: Locator, mime: str) -> Record | Fault:
    """A record from a JSON object or a row."""
    text = lookup(values, fields.text)
    if not isinstance(text, str):
        known = ", ".join(list(map(str, values))[:8])
        got = f"field {fields.text!r} holds {type(text).__name__}, expected a text"
        return Fault(at.offset, "NoText", f"{got} (fields: {known}); set the option `text`")
    key = lookup(values, fields.id) if fields.id else None
    if fields.id and key in (None, ""):
        return Fault(at.offset, "NoId", f"field {fields.id!r} is empty or absent")
    url = lookup(values, fields.url) if fields.url else None
    taken = {name.partition(".")[0] for name in (fields.text, fields.url) if name}
    meta = {str(k): v for k, v in values.items() if k not in taken and _is_small(v)}
    # A lone surrogate is legal JSON and no legal UTF-8.
    payload = text.encode("utf-8", "replace")
    return Record(
        payload, at.offset, at.length, row=at.row, key=None if key is None else str(key), url=url if isinstance(url, str) else None,
        mime=mime, charset="utf-8", meta=meta or None,
    )  # fmt: skip


def lookup(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where it leads nowhere. A field whose own name has the dot comes first."""
    if path in values:
        return values[path]
    node: Any = values
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def _is_small(value: Any) -> bool:
    return value is not None and (isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= MAX_META_CHARS))


def _rest_of_line(stream: BinaryIO, chunk: int) -> int:
    """Passes over the rest of a line that is too long, and returns its bytes."""
    size = 0
    for line in iter(lambda: stream.readline(min(chunk, 1 << 20)), b""):
        size += len(line)
        if line.endswith(b"\n"):
            break
    return size
