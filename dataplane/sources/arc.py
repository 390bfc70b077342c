"""ARC, the format before WARC: its records in the form of WARC responses, so that the twin of a WARC gives the same documents.

Source: ARC File Format Reference, Internet Archive 1996, https://archive.org/web/researcher/ArcFileFormat.php, versions 1 and 2.
"""

from __future__ import annotations

import re
from typing import Protocol

MAX_LINE_BYTES = 64 << 10
# URL, IP address, date, type [, result, checksum, location, offset, file name], length: what lies between is told by its ends.
HEADER = re.compile(
    rb"(?P<url>[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\r\n]*?) \S+ (?P<date>\d{14}) (?P<mime>[^\r\n ]*)[^\r\n]*? (?P<length>\d{1,12})\r?\n?\Z"
)
NEXT = re.compile(rb"\n(?=[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\r\n]{0,4000} \d{14} [^\r\n]{0,4000} \d{1,12}\r?\n)")
# Records about the file and about name servers hold no document.
NO_DOCUMENT = (b"filedesc:", b"dns:", b"warcinfo:")


class Bytes(Protocol):
    """Bytes that are read forward, and given back."""

    def read(self, n_bytes: int) -> bytes:
        """Up to `n_bytes`; fewer at the end only."""

    def readline(self, max_bytes: int) -> bytes:
        """The next line with its end."""

    def skip(self, n_bytes: int) -> int:
        """Passes over `n_bytes`; returns how many are missing."""

    def unread(self, data: bytes) -> None:
        """Gives back what was read last."""


def record(source: Bytes, line: bytes, max_bytes: int) -> bytes | tuple[str, str] | None:
    """The record whose first line is read as a WARC response; None where it holds no document; else what is wrong.

    Args:
        source: The bytes behind the line.
        line: A line that HEADER matches.
        max_bytes: Largest block.
    """
    header = HEADER.match(line)
    if header is None:
        return "NotARecord", "bytes that are no ARC record; reading goes on at the next one"
    length, skipped = int(header["length"]), line.startswith(NO_DOCUMENT)
    if skipped or length > max_bytes:
        missing = source.skip(length)
        if missing:
            return "Truncated", f"the file ends {missing:,} bytes before the record does"
        return None if skipped else ("TooLarge", f"block of {length:,} bytes; the option max_bytes is {max_bytes:,}")
    block = source.read(length)
    if len(block) < length:
        return "Truncated", f"the block has {len(block):,} of {length:,} bytes"
    following = source.readline(MAX_LINE_BYTES)
    if following.strip() and not HEADER.match(following):
        # What was taken for the block may hold the records that follow.
        taken = block + following
        inside = NEXT.search(taken)
        source.unread(taken[inside.end() :] if inside else following)
        return "BadLength", f"the block does not end after its {length:,} bytes"
    source.unread(following if following.strip() else b"")
    return _as_warc(header, block)


def _as_warc(header: re.Match[bytes], block: bytes) -> bytes:
    over_http = block.startswith(b"HTTP/")
    date = header["date"].decode()
    fields = (
        b"WARC/1.0",
        b"WARC-Type: " + (b"response" if over_http else b"resource"),
        b"WARC-Target-URI: " + header["url"],
        f"WARC-Date: {date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:]}Z".encode(),
        b"Content-Type: " + (b"application/http; msgtype=response" if over_http else header["mime"]),
        b"Content-Length: " + str(len(block)).encode(),
    )
    return b"\r\n".join(fields) + b"\r\n\r\n" + block
