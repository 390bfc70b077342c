"""HTML files: a file is a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import Field

from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_all, read_range

MAX_PAGE_BYTES = 64 << 20


class Html(Source):
    """Reads HTML files.

    Source: the WHATWG HTML Standard, https://html.spec.whatwg.org, 4.2.5.4, for a charset that the page declares.
    """

    name = "html"
    suffixes = (".html", ".htm", ".xhtml")

    class Params(BaseParams):
        """Options of HTML files."""

        max_bytes: int = Field(MAX_PAGE_BYTES, ge=1, description="Largest page.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record."""
        data = read_all(stream, self.params.max_bytes)
        if isinstance(data, Fault):
            yield data
        elif data:
            yield Record(data, 0, len(data), mime="text/html")

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The bytes at the locator are the payload."""
        return read_range(stream, offset, length)
