"""JSON lines: a line is a record, one of its fields the text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, ClassVar

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_range, rest_of_line
from dataplane.sources.fields import Fields, Locator, record_of

MAX_LINE_BYTES = 64 << 20
MAX_LEADING_FAULTS = 100  # lines that are no JSON before the first that is: then it is another kind of file
NOT_JSON = ("NotJson", "Binary")
BOM = b"\xef\xbb\xbf"


class Jsonl(Source):
    """Reads JSON lines; a line that is none, or lacks the text, is a fault.

    Source: JSON Lines, https://jsonlines.org; RFC 8259.
    """

    name = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".jsonlines")

    class Params(Fields):
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
                size += 0 if line.endswith(b"\n") else rest_of_line(stream)
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
        return self.record(values, Locator(start, len(line)))

    def record(self, values: Mapping[str, Any], at: Locator) -> Record | Fault:
        """What an object holds."""
        return record_of(values, self.params, at, self.params.mime)

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of the line at the locator."""
        found = self._record(read_range(stream, offset, length), offset)
        if isinstance(found, Fault):
            raise SourceError(found.message, fix="the raw file has changed since it was ingested: restore it")
        return found.payload
