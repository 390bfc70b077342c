"""MediaWiki XML dumps: a page is a record, its wikitext the payload.

The dump is cut at <page> ... </page> by bytes and each page is parsed alone: memory is bounded by the largest page, a
truncated dump gives every page before the cut, and no entity or document type of the dump's own is ever seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO
from urllib.parse import quote

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_range

MAX_PAGE_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
START, STOP = b"<page>", b"</page>"
HEAD_BYTES = 64 << 10
MIME = "text/x-wiki"
# The address of the main page, of which the others differ in the last part.
BASE = re.compile(rb"<base>\s{0,9}(https?://[^<\s]{1,500}/)[^</\s]{0,500}</base>")


class MediaWiki(Source):
    """Reads dumps as MediaWiki's export writes them.

    Source: the export format, https://www.mediawiki.org/wiki/Help:Export.
    """

    name = "mediawiki"
    suffixes = (".xml",)

    class Params(BaseParams):
        """Options of MediaWiki dumps."""

        namespaces: tuple[int, ...] = Field((0,), description="Namespaces whose pages are read; 0 holds the articles.")
        redirects: bool = Field(False, description="Whether redirects are read.")
        max_bytes: int = Field(MAX_PAGE_BYTES, ge=1, description="Largest page, markup included.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record for each page of the namespaces asked for."""
        found, head = False, stream.read(HEAD_BYTES)
        base = match[1].decode("latin-1") if (match := BASE.search(head)) else ""
        for offset, page in _pages(head, stream, self.params.max_bytes):
            found = True
            record = page if isinstance(page, Fault) else self._record(page, offset, base)
            if record is not None:
                yield record
        if not found:
            yield Fault(0, "NotADump", "the file holds no <page>: it is no MediaWiki dump")

    def _record(self, page: bytes, offset: int, base: str) -> Record | Fault | None:
        values = parse_page(page)
        if isinstance(values, str):
            return Fault(offset, "BadPage", values)
        if values["namespace"] not in self.params.namespaces or (values["redirect"] and not self.params.redirects):
            return None
        meta = {key: values[key] for key in ("title", "page_id", "revision_id", "namespace") if values[key] is not None}
        return Record(
            values["text"].encode(), offset, len(page), key=values["page_id"], url=_address(base, values["title"]), mime=MIME,
            charset="utf-8", fetched_at=values["timestamp"], meta=meta,
        )  # fmt: skip

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The wikitext of the page at the locator."""
        values = parse_page(read_range(stream, offset, length))
        if isinstance(values, str):
            raise SourceError(values, fix="the raw file has changed since it was ingested: restore it")
        text: str = values["text"]
        return text.encode()


def _address(base: str, title: str | None) -> str | None:
    """The page's address, as MediaWiki writes it."""
    return base + quote(title.replace(" ", "_"), safe="/:;@$!*(),~") if base and title else None


def _pages(held: bytes, stream: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes | Fault]]:
    """Offset and bytes of each <page> element.

    Args:
        held: What is read of the stream already.
        stream: The rest.
        max_bytes: Largest page.
    """
    base, seen = 0, 0  # offset of `held`, and where in it the search for the end of a page goes on
    while True:
        used = 0
        while (start := held.find(START, used)) >= 0 and (stop := held.find(STOP, max(start, seen))) >= 0:
            used = stop + len(STOP)
            yield base + start, held[start:used]
        # A tag may be cut by the end of the chunk.
        keep = start if start >= 0 else max(used, len(held) - len(START) + 1)
        base, held = base + keep, held[keep:]
        seen = max(0, len(held) - len(STOP) + 1) if start >= 0 else 0
        if start >= 0 and len(held) > max_bytes:
            yield base, Fault(base, "TooLarge", f"page of more than {max_bytes:,} bytes")
            base, held = _skip_page(stream, base, held)
            seen = 0
        data = stream.read(CHUNK_BYTES)
        if not data:
            break
        held += data
    if held.startswith(START):
        yield base, Fault(base, "Truncated", "the dump ends inside a page")


def _skip_page(stream: BinaryIO, base: int, held: bytes) -> tuple[int, bytes]:
    """Goes to the end of a page that is too large; returns the new offset and what is held."""
    while (stop := held.find(STOP)) < 0:
        keep = len(STOP) - 1
        base, held = base + max(0, len(held) - keep), held[-keep:]
        data = stream.read(CHUNK_BYTES)
        if not data:
            return base, b""
        held += data
    return base + stop + len(STOP), held[stop + len(STOP) :]


def parse_page(page: bytes) -> dict[str, Any] | str:
    """Title, ids, namespace, timestamp and text of one page, or what is wrong with it."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(page, parser)
    except etree.XMLSyntaxError as error:
        return f"page of {len(page):,} bytes is not XML (line {error.lineno})"
    # A dump with the whole history has them in order of time.
    revision = (root.findall("revision") or [None])[-1]
    if revision is None or revision.find("text") is None:
        return f"page of {len(page):,} bytes has no revision with text"
    return {
        "title": root.findtext("title"),
        "page_id": root.findtext("id"),
        "namespace": _integer(root.findtext("ns")),
        "redirect": root.find("redirect") is not None,
        "revision_id": revision.findtext("id"),
        "timestamp": _timestamp(revision.findtext("timestamp")),
        "text": revision.findtext("text") or "",
    }


def _integer(text: str | None) -> int:
    return int(text) if text and text.strip().lstrip("-").isdigit() else 0


def _timestamp(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
