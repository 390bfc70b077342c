"""JSON lines: a line is a record, one of its fields the text."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_range

MAX_LINE_BYTES = 64 << 20
MAX_META_CHARS = 2000  # of one value; longer ones are left out of `meta`
MAX_META_FIELDS = 64
SKIP_BYTES = 1 << 20
MAX_LEADING_FAULTS = 100  # lines that are no JSON before the first that is: then it is another kind of file
SURROGATE = re.compile("[\ud800-\udfff]")
NOT_JSON = ("NotJson", "Binary")
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
        leading: int | None = 0  # faults before the first line that is JSON; None once there was one
        for line, found in self._lines(stream):
            yield found
            if leading is None or not (isinstance(found, Fault) and found.error in NOT_JSON):
                leading = None
                continue
            leading += 1
            if b"\0" in line or leading == MAX_LEADING_FAULTS:
                if leading > 1:
                    yield Fault(found.offset, "NotJsonLines", f"none of the first {leading} lines is JSON: the rest is not read")
                return

    def _lines(self, stream: BinaryIO) -> Iterator[tuple[bytes, Record | Fault]]:
        """Each line that is not empty, and what it holds."""
        at = 0
        for line in iter(lambda: stream.readline(self.params.max_bytes + 1), b""):
            size = len(line)
            if size > self.params.max_bytes:
                size += 0 if line.endswith(b"\n") else _rest_of_line(stream)
                yield line, Fault(at, "TooLarge", f"line of {size:,} bytes; the option max_bytes is {self.params.max_bytes:,}")
            elif line.strip():
                yield line, self._record(line, at)
            at += size

    def _record(self, line: bytes, start: int) -> Record | Fault:
        try:
            values = json.loads(line.removeprefix(BOM) if start == 0 else line)
        except (ValueError, RecursionError) as error:
            if b"\0" in line:
                return Fault(start, "Binary", "the line holds NUL bytes: it is no JSON")
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
    if not isinstance(text, str | bytes):
        known = ", ".join(list(map(str, values))[:8])
        got = f"field {fields.text!r} holds {type(text).__name__}, expected a text"
        return Fault(at.offset, "NoText", f"{got} (fields: {known}); set the option `text`")
    key = lookup(values, fields.id) if fields.id else None
    if fields.id and key in (None, ""):
        return Fault(at.offset, "NoId", f"field {fields.id!r} is empty or absent")
    url = lookup(values, fields.url) if fields.url else None
    charset, payload = (None, text) if isinstance(text, bytes) else ("utf-8", storable(text).encode())
    return Record(
        payload, at.offset, at.length, row=at.row, key=None if key is None else storable(str(key)), mime=mime, charset=charset,
        url=storable(url) if isinstance(url, str) else None, meta=_meta(values, fields) or None,
    )  # fmt: skip


def storable(text: str) -> str:
    """A text without lone surrogates, which are legal in JSON and not in UTF-8: each becomes U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


def _meta(values: Mapping[str, Any], fields: JsonFields) -> dict[str, Any]:
    """The small scalar fields that are neither the text nor the address."""
    taken = {name.partition(".")[0] for name in (fields.text, fields.url) if name}
    small = ((str(k), v) for k, v in values.items() if k not in taken and len(str(k)) <= MAX_META_CHARS and _is_small(v))
    return {storable(k): storable(v) if isinstance(v, str) else v for k, v in itertools.islice(small, MAX_META_FIELDS)}


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
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has no NaN, though Python reads it
    return isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= MAX_META_CHARS)


def _rest_of_line(stream: BinaryIO) -> int:
    """Passes over the rest of a line that is too long, and returns its bytes."""
    size = 0
    for piece in iter(lambda: stream.readline(SKIP_BYTES), b""):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size
