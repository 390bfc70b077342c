"""WARC and WET: responses, resources and conversions, found again by their offset in the file as it lies."""

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
from dataplane.sources.warc_frames import Frame, frames, opened

MAX_BODY_BYTES = 64 << 20
HTTP_OK = 200
WANTED = frozenset({b"response", b"resource", b"conversion"})
# A crawler may store the decoded body beside the header of the coded one: fewer codings are tried in turn.
Decoding = Literal["all", "content", "transfer", "none"]
DECODING: tuple[Decoding, ...] = ("all", "content", "transfer", "none")
PLAIN_SNIFF_BYTES = 512
TEXT_BYTES = b"\t\n\f\r\x1b" + bytes(range(32, 256))
CHUNK_HEAD = re.compile(rb"[0-9A-Fa-f]{1,8}\r\n")


class Warc(Source):
    """Reads WARC (with HTML and text responses) and WET files, gzipped by record, in one piece, or plain."""

    name = "warc"
    suffixes = (".warc", ".wet", ".warc.wet", ".arc")
    seekable_compression = (".gz",)

    class Params(BaseParams):
        """Options of WARC files."""

        mimes: tuple[str, ...] = Field(
            ("text/html", "application/xhtml+xml", "text/plain"), description="Types of the responses that are text; others are put aside."
        )
        max_bytes: int = Field(MAX_BODY_BYTES, ge=1, description="Largest body, before and after decoding.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record for each response, resource or conversion; what is not text, or no success, is a fault that says so."""
        found = False
        for frame in frames(opened(stream, 0), WANTED, self.params.max_bytes):
            found = True
            yield frame if isinstance(frame, Fault) else self._record(frame)
        if not found:
            yield Fault(0, "NoRecords", "the file holds no WARC response, resource or conversion")

    def _record(self, frame: Frame) -> Record | Fault:
        try:
            record = _parsed(frame, "none")
        except (OSError, ValueError) as error:
            return Fault(frame.offset, "BadHeader", f"record of {len(frame.data):,} bytes cannot be parsed ({type(error).__name__})")
        mime = _mime(record)
        if record.http_headers is not None and record.http_headers.status_code != HTTP_OK:
            return Fault(frame.offset, "HttpStatus", f"status {record.http_headers.status_code or 'not stated'}")
        if mime not in self.params.mimes:
            return Fault(frame.offset, "NotText", f"type {mime or 'not stated'}; the option mimes says which are read")
        body = self._body(frame)
        if isinstance(body, Fault):
            return body
        cut = record.headers.get("WARC-Truncated")
        return Record(
            body, frame.offset, frame.length, row=frame.index or None, url=_url(record), mime=mime, charset=_charset(record),
            key=f"@{frame.offset}#{frame.index}" if frame.index else None, fetched_at=_date(record),
            meta={"warc_record_id": str(record.record_id)} | ({"warc_truncated": cut} if cut else {}),
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

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The body of the record at the locator."""
        skip(stream, offset)
        for frame in frames(opened(stream, offset), WANTED, self.params.max_bytes):
            if isinstance(frame, Frame) and frame.offset == offset and frame.index == (row or 0):
                body = self._body(frame)
                if isinstance(body, bytes):
                    return body
            if frame.offset != offset:
                break
        raise SourceError(f"no WARC record at byte {offset:,}", fix="the raw file has changed since it was ingested: restore it")


def _parsed(frame: Frame, auto_decode: Decoding) -> Any:
    from fastwarc.warc import WarcRecord

    record = WarcRecord.from_bytes(frame.data)
    record.parse_http(auto_decode=auto_decode)
    return record


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
