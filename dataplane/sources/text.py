"""Plain text and Markdown: a file is a document, or holds many between separators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import Field

from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import MAX_RECORD_BYTES, read_all, read_range

MIMES = {".md": "text/markdown", ".markdown": "text/markdown", ".rst": "text/x-rst", ".tex": "text/x-tex"}


class Text(Source):
    """Reads text files; lines come with their ends, so that the records put together are the file.

    Source: media types of RFC 2046, 4.1.3, and RFC 7763 (Markdown).
    """

    name = "text"
    suffixes = (".txt", ".md", ".markdown", ".rst", ".text", ".tex")

    class Params(BaseParams):
        """Options of plain text."""

        split: str | None = Field(
            None,
            min_length=1,
            description="Line that separates documents (without its end; an empty line is spelled '\\n'); null takes the file as one.",
        )
        max_bytes: int = Field(MAX_RECORD_BYTES, ge=1, description="Largest document.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record for the file, or one between each two separators."""
        mime = next((mime for suffix, mime in MIMES.items() if name.lower().endswith(suffix)), "text/plain")
        if self.params.split is None:
            data = read_all(stream, self.params.max_bytes)
            if isinstance(data, Fault):
                yield data
            elif data:
                yield Record(data, 0, len(data), mime=mime)
            return
        yield from self._split(stream, mime)

    def _split(self, stream: BinaryIO, mime: str) -> Iterator[Record | Fault]:
        separator = b"" if self.params.split == "\n" else self.params.split.encode()
        held: list[bytes] = []
        start = at = size = 0
        for line in iter(lambda: stream.readline(self.params.max_bytes + 1), b""):
            if line.rstrip(b"\r\n") == separator:
                yield from self._record(held, start, mime, size)
                held, size = [], 0
                start = at + len(line)
            else:
                size += len(line)
                # What is too large is measured to its end, but not kept.
                if size <= self.params.max_bytes:
                    held.append(line)
            at += len(line)
        yield from self._record(held, start, mime, size)

    def _record(self, lines: list[bytes], start: int, mime: str, size: int) -> Iterator[Record | Fault]:
        if size > self.params.max_bytes:
            yield Fault(start, "TooLarge", f"document of {size:,} bytes; max_bytes is {self.params.max_bytes:,}")
            return
        payload = b"".join(lines)
        if payload.strip():
            yield Record(payload, start, size, mime=mime)

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The bytes at the locator are the payload."""
        return read_range(stream, offset, length)
