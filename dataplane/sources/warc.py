"""WARC, WET, WAT and ARC: responses, resources, conversions and metadata of pages, found again by their offset in the file as it lies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, Literal

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import skip
from dataplane.sources.fields import storable
from dataplane.sources.warc_frames import Frame, frames, opened
from dataplane.sources.wat import page_of

MAX_BODY_BYTES = 64 << 20
HTTP_OK = 200
WANTED = frozenset({b"response", b"resource", b"conversion", b"metadata", b"revisit"})
WAT_MIME = "application/json"
# A crawler may store the decoded body beside the header of the coded one: fewer codings are tried in turn.
Decoding = Literal["all", "content", "transfer", "none"]
DECODING: tuple[Decoding, ...] = ("all", "content", "transfer", "none")
SHA1 = "sha1:"  # the one that crawlers write
DIGESTED: tuple[Decoding, ...] = ("none", "transfer")
PLAIN_SNIFF_BYTES = 512
TEXT_BYTES = b"\t\n\f\r\x1b" + bytes(range(32, 256))
CHUNK_HEAD = re.compile(rb"[0-9A-Fa-f]{1,8}\r\n")


class Warc(Source):
    """Reads WARC and ARC (with HTML and text responses), WET and WAT files, gzipped by record, in one piece, or plain.

    Source: WARC 1.1, ISO 28500:2017; ARC File Format Reference, Internet Archive 1996, versions 1 and 2; Common Crawl's WET and WAT.
    """

    name = "warc"
    suffixes = (".warc", ".wet", ".wat", ".warc.wet", ".warc.wat", ".arc")
    seekable_compression = (".gz",)

    class Params(BaseParams):
        """Options of WARC files."""

        mimes: tuple[str, ...] = Field(
            ("text/html", "application/xhtml+xml", "text/plain"), description="Types of the responses that are text; others are put aside."
        )
        max_bytes: int = Field(MAX_BODY_BYTES, ge=1, description="Largest body, before and after decoding.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record for each response, resource, conversion or WAT page; what is not text, or no success, is a fault that says so."""
        found = False
        for frame in frames(opened(stream, 0), WANTED, self.params.max_bytes):
            record = frame if isinstance(frame, Fault) else self._record(frame)
            if record is not None:
                found = True
                yield record
        if not found:
            yield Fault(0, "NoRecords", "the file holds no response, resource, conversion or page's metadata")

    def _record(self, frame: Frame) -> Record | Fault | None:
        """The frame's record; None for metadata that describes no page."""
        try:
            record = _parsed(frame, "none")
        except (OSError, ValueError) as error:
            return Fault(frame.offset, "BadHeader", f"record of {len(frame.data):,} bytes cannot be parsed ({type(error).__name__})")
        kind = str(record.headers.get("WARC-Type")).lower()
        if kind == "revisit":
            return _revisit(record, frame)
        if kind == "metadata":
            return _wat_record(record, frame)
        mime = _mime(record)
        if record.http_headers is not None and record.http_headers.status_code != HTTP_OK:
            return Fault(frame.offset, "HttpStatus", f"status {record.http_headers.status_code or 'not stated'}")
        if mime not in self.params.mimes:
            return Fault(frame.offset, "NotText", f"type {mime or 'not stated'}; the option mimes says which are read")
        body = self._body(frame)
        if isinstance(body, Fault):
            return body
        return Record(
            body, frame.offset, frame.length, row=frame.index or None, url=_url(record), mime=mime, charset=_charset(record),
            key=f"@{frame.offset}#{frame.index}" if frame.index else None, fetched_at=_date(record),
            meta=_meta(record, frame) or None,
        )  # fmt: skip

    def _body(self, frame: Frame) -> bytes | Fault:
        """The body with its codings taken off."""
        for mode in DECODING:
            try:
                body = bytes(_parsed(frame, mode).reader.read(self.params.max_bytes + 1))
            except (OSError, ValueError, EOFError):
                continue
            if len(body) > self.params.max_bytes:
                return Fault(frame.offset, "TooLarge", f"body of more than {self.params.max_bytes:,} bytes")
            # fastwarc gives nothing, and raises nothing, for a coded body that breaks in its head.
            if (body and mode == DECODING[0]) or _is_plain(body) or (not body and mode == DECODING[-1]):
                return body
        return Fault(frame.offset, "BadCoding", f"body of a record of {len(frame.data):,} bytes cannot be decoded")

    def _payload(self, frame: Frame) -> bytes | Fault | None:
        record = _parsed(frame, "none")
        if str(record.headers.get("WARC-Type")).lower() != "metadata":
            return self._body(frame)
        found = _wat_record(record, frame)
        return found.payload if isinstance(found, Record) else found

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The payload of the record at the locator."""
        skip(stream, offset)
        for frame in frames(opened(stream, offset), WANTED, self.params.max_bytes):
            if isinstance(frame, Frame) and frame.offset == offset and frame.index == (row or 0):
                body = self._payload(frame)
                if isinstance(body, bytes):
                    return body
            if frame.offset != offset:
                break
        raise SourceError(f"no WARC record at byte {offset:,}", fix="the raw file has changed since it was ingested: restore it")


def _parsed(frame: Frame, auto_decode: Decoding | None) -> Any:
    """The record; with None its block is left as it lies."""
    from fastwarc.warc import WarcRecord

    record = WarcRecord.from_bytes(frame.data)
    if auto_decode is not None:
        record.parse_http(auto_decode=auto_decode)
    return record


def _revisit(record: Any, frame: Frame) -> Fault:
    """A visit that found the page unchanged: its text is the record of the visit before."""
    url, date = record.headers.get("WARC-Refers-To-Target-URI") or _url(record), record.headers.get("WARC-Refers-To-Date")
    return Fault(frame.offset, "Revisit", f"unchanged since the visit of {date or 'an earlier date'}: see the record of {url}")


def _wat_record(record: Any, frame: Frame) -> Record | Fault | None:
    """The page that a WAT record describes; None where it describes a request, or the metadata is a crawler's own."""
    if _mime(record) != WAT_MIME:
        return None
    try:
        found = page_of(record.reader.read(), _url(record))
    except (ValueError, RecursionError) as error:
        return Fault(frame.offset, "NotJson", f"metadata of {len(frame.data):,} bytes is not JSON ({type(error).__name__})")
    if found is None:
        return None
    text, meta = found
    return Record(
        storable(text).encode(), frame.offset, frame.length, row=frame.index or None, url=_url(record), mime="text/markdown",
        charset="utf-8", key=f"@{frame.offset}#{frame.index}" if frame.index else None, fetched_at=_date(record),
        meta=_meta(record, frame) | {key: storable(value) if isinstance(value, str) else value for key, value in meta.items()},
    )  # fmt: skip


def _meta(record: Any, frame: Frame) -> dict[str, Any]:
    """What the header says beside the address and the date; digests that do not fit are named."""
    stated = {"warc_record_id": record.headers.get("WARC-Record-ID"), "warc_truncated": record.headers.get("WARC-Truncated")}
    return {key: str(value) for key, value in stated.items() if value} | dict.fromkeys(_wrong_digests(frame), "wrong")


def _wrong_digests(frame: Frame) -> Iterator[str]:
    """Which of the stated digests the bytes do not have. Writers differ in whether a chunked payload is digested as it was sent."""
    record = _parsed(frame, None)
    block, payload = record.headers.get("WARC-Block-Digest") or "", record.headers.get("WARC-Payload-Digest") or ""
    if block.startswith(SHA1) and not record.verify_block_digest():
        yield "warc_block_digest"
    if payload.startswith(SHA1) and not any(_has_payload_digest(frame, mode) for mode in DIGESTED):
        yield "warc_payload_digest"


def _has_payload_digest(frame: Frame, mode: Decoding) -> bool:
    try:
        record = _parsed(frame, mode)
        # fastwarc knows a payload only behind an HTTP header; elsewhere the block is all of it, with a digest of its own.
        return record.http_headers is None or bool(record.verify_payload_digest())
    except (OSError, ValueError, EOFError):
        return False


def _is_plain(body: bytes) -> bool:
    """Whether a body that its stated coding does not fit is text as it lies: no control characters, no length of a chunk."""
    head = body[:PLAIN_SNIFF_BYTES]
    return len(head) > 0 and not head.translate(None, TEXT_BYTES) and not CHUNK_HEAD.match(head)


def _mime(record: Any) -> str:
    """The type as declared: by HTTP, else by the record, else as the crawler recognised it."""
    declared = record.http_content_type if record.http_headers is not None else record.headers.get("Content-Type")
    return (declared or record.headers.get("WARC-Identified-Payload-Type") or "").partition(";")[0].strip().lower()


def _charset(record: Any) -> str | None:
    return (record.http_charset or "").strip(" \"'") or None


def _url(record: Any) -> str | None:
    url = record.headers.get("WARC-Target-URI")
    return url.strip("<>") if url else None


def _date(record: Any) -> datetime | None:
    found: datetime | None = record.record_date
    return found
