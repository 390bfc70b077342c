"""WARC and WET: responses, resources and conversions, found again by their offset in the file as it lies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import seekable

MAX_BODY_BYTES = 64 << 20
HTTP_OK = 200


class Warc(Source):
    """Reads WARC (with HTML and text responses) and WET files, gzipped by record or plain."""

    name = "warc"
    suffixes = (".warc", ".wet", ".warc.wet", ".arc")
    seekable_compression = (".gz",)

    class Params(BaseParams):
        """Options of WARC files."""

        mimes: tuple[str, ...] = Field(
            ("text/html", "application/xhtml+xml", "text/plain"), description="Types of the responses that are text; others are put aside."
        )
        max_bytes: int = Field(MAX_BODY_BYTES, ge=1, description="Largest body after decoding.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record for each response, resource or conversion; what is not text, or no success, is a fault that says so."""
        found = False
        with seekable(stream) as source:
            for record in _records(source):
                found = True
                yield self._record(record)
        if not found:
            yield Fault(0, "NoRecords", "the file holds no WARC response, resource or conversion")

    def _record(self, record: Any) -> Record | Fault:
        at = int(record.stream_pos)
        mime, status = _mime(record), record.http_headers.status_code if record.http_headers else None
        if record.http_headers is not None and status != HTTP_OK:
            return Fault(at, "HttpStatus", f"status {status}")
        if mime not in self.params.mimes:
            return Fault(at, "NotText", f"type {mime or 'not stated'}; the option mimes says which are read")
        try:
            body = record.reader.read(self.params.max_bytes + 1)
        except (OSError, ValueError, EOFError) as error:
            return Fault(at, type(error).__name__, f"body of {record.content_length:,} bytes cannot be decoded")
        if len(body) > self.params.max_bytes:
            return Fault(at, "TooLarge", f"body of more than {self.params.max_bytes:,} bytes")
        return Record(
            bytes(body), at, int(record.content_length), url=_url(record), mime=mime, charset=record.http_charset or None,
            fetched_at=_date(record), meta={"warc_record_id": str(record.record_id)},
        )  # fmt: skip

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The body of the record at the locator."""
        with seekable(stream) as source:
            source.seek(offset)
            for record in _records(source):
                return bytes(record.reader.read(self.params.max_bytes + 1))
        raise SourceError(f"no WARC record at byte {offset:,}", fix="the raw file has changed since it was ingested: restore it")


def _records(stream: BinaryIO) -> Iterator[Any]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    wanted = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion
    return iter(ArchiveIterator(stream, record_types=wanted, auto_decode="all"))


def _mime(record: Any) -> str:
    """The type as declared: by HTTP, else by the record."""
    declared = record.http_content_type if record.http_headers is not None else record.headers.get("Content-Type")
    return (declared or "").partition(";")[0].strip().lower()


def _url(record: Any) -> str | None:
    url = record.headers.get("WARC-Target-URI")
    return url.strip("<>") if url else None


def _date(record: Any) -> datetime | None:
    found: datetime | None = record.record_date
    return found
