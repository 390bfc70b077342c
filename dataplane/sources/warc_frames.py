"""Cuts a WARC or ARC file into records, so that a broken one costs itself alone and the rest is read.

A record of a .gz is found by the file offset of its gzip member and, where a member holds several, by its place in it: both
the usual form (a member for each record) and a file compressed in one piece can be read again from their locators.

Source: WARC 1.1, ISO 28500:2017, sections 4 (records) and annex A (gzip members).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dataplane.source import Fault
from dataplane.sources import arc
from dataplane.sources.archive import MAX_RATIO, RATIO_FLOOR_BYTES

CHUNK_BYTES = 64 << 10
MAX_HEADER_BYTES = 1 << 20
MAX_BREAKS = 100  # damaged places in a row after which the rest is given up: each costs a search
MAX_LENGTH_DIGITS = 18
GZIP = b"\x1f\x8b\x08"
RECORD = b"WARC/"
ENDS = b"\r\n\r\n"
DAMAGE = ("BadGzip", "NotARecord")


class BrokenMember(Exception):
    """A gzip member is damaged; the next one may be whole."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One record as it lies.

    Attributes:
        offset: First byte in a plain stream; in a .gz, of the member in the file.
        length: Bytes from there that hold the record.
        index: Place in its gzip member, from 0; always 0 in a plain stream.
        data: Header and block, uncompressed.
    """

    offset: int
    length: int
    index: int
    data: bytes


class Plain:
    """Bytes as they come; `at` is the offset of the next one."""

    def __init__(self, stream: BinaryIO, at: int, head: bytes) -> None:
        self._stream, self._held, self._next, self.at = stream, head, 0, at
        self._opened = False

    def next_member(self) -> bool:
        """Goes to the next member; a plain stream is one."""
        first, self._opened = not self._opened, True
        return first

    def place(self, start: int, index: int) -> tuple[int, int, int]:
        """Offset, length and index of the record that began at `start` and ends here."""
        return start, self.at - start, 0

    def resync(self) -> bool:
        """Goes to the next whole member after damage; False where there is none."""
        return False

    def readline(self, max_bytes: int) -> bytes:
        """The next line with its end, or `max_bytes` of it; empty at the end."""
        while (stop := self._held.find(b"\n", self._next)) < 0 and len(self._held) - self._next < max_bytes and self._more():
            pass
        end = len(self._held) if stop < 0 else stop + 1
        return self._take(min(end - self._next, max_bytes))

    def read(self, n_bytes: int) -> bytes:
        """Up to `n_bytes`; fewer at the end only."""
        pieces = []
        while n_bytes > 0 and (self._next < len(self._held) or self._more()):
            pieces.append(self._take(min(n_bytes, len(self._held) - self._next)))
            n_bytes -= len(pieces[-1])
        return b"".join(pieces)

    def skip(self, n_bytes: int) -> int:
        """Passes over `n_bytes`; returns how many are missing."""
        while n_bytes > 0 and (self._next < len(self._held) or self._more()):
            n_bytes -= len(self._take(min(n_bytes, len(self._held) - self._next)))
        return n_bytes

    def unread(self, data: bytes) -> None:
        """Gives back what was read last."""
        self._held, self._next = data + self._held[self._next :], 0
        self.at -= len(data)

    def _take(self, n_bytes: int) -> bytes:
        taken = self._held[self._next : self._next + n_bytes]
        self._next += len(taken)
        self.at += len(taken)
        return taken

    def _more(self) -> bool:
        data = self._fill()
        self._held, self._next = self._held[self._next :] + data, 0
        return bool(data)

    def _fill(self) -> bytes:
        return self._stream.read(CHUNK_BYTES)


class GzipMembers(Plain):
    """The bytes of one gzip member after the other; `start` is the file offset of the present one."""

    def __init__(self, stream: BinaryIO, start: int, head: bytes) -> None:
        super().__init__(stream, 0, b"")
        self.start, self._consumed, self._produced = start, 0, 0
        self._input = head
        self._inflater = zlib.decompressobj(wbits=31)

    def next_member(self) -> bool:
        """Goes to the member that follows; zeros between members are padding."""
        self.start += self._consumed
        self._consumed = 0
        while not (rest := self._input.lstrip(b"\0")):
            self.start += len(self._input)
            self._input = self._stream.read(CHUNK_BYTES)
            if not self._input:
                return False
        self.start += len(self._input) - len(rest)
        self._begin(rest)
        return True

    def _begin(self, data: bytes) -> None:
        self._input, self._held, self._next, self.at = data, b"", 0, 0
        self._consumed = self._produced = 0
        self._inflater = zlib.decompressobj(wbits=31)

    def place(self, start: int, index: int) -> tuple[int, int, int]:
        """The member's offset, its bytes so far, and the record's place in it."""
        try:
            if self._next == len(self._held):
                self._more()  # the member's own end belongs to it
        except BrokenMember:
            pass  # the record is whole; the damage shows again when the next one is read
        return self.start, self._consumed, index

    def resync(self) -> bool:
        """Goes to the next bytes that look like the head of a member."""
        if not self._stream.seekable():
            return False
        at = self.start + 1
        self._stream.seek(at)
        data = self._stream.read(CHUNK_BYTES)
        while (found := data.find(GZIP)) < 0:
            more = self._stream.read(CHUNK_BYTES)
            if not more:
                return False
            keep = min(len(GZIP) - 1, len(data))
            at, data = at + len(data) - keep, data[len(data) - keep :] + more
        self.start = at + found
        self._begin(data[found:])
        self._consumed = 0
        return True

    def _fill(self) -> bytes:
        while not self._inflater.eof:
            if not self._input:
                self._input = self._stream.read(CHUNK_BYTES)
                if not self._input:
                    raise BrokenMember("the file ends inside a gzip member")
            try:
                data = self._inflater.decompress(self._input, CHUNK_BYTES)
            except zlib.error as error:
                raise BrokenMember(f"damaged gzip member ({error})") from None
            rest = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            self._consumed += len(self._input) - len(rest)
            self._input = rest
            self._produced += len(data)
            if self._produced > max(RATIO_FLOOR_BYTES, MAX_RATIO * self._consumed):
                raise BrokenMember(f"the gzip member grows past {MAX_RATIO} times its size")
            if data:
                return data
        return b""


def opened(stream: BinaryIO, at: int) -> Plain:
    """The bytes of a stream whose next byte is at `at`: gzip members where it holds such, else as they come."""
    head = stream.read(len(GZIP))
    return GzipMembers(stream, at, head) if head == GZIP else Plain(stream, at, head)


def frames(source: Plain, wanted: frozenset[bytes], max_bytes: int) -> Iterator[Frame | Fault]:
    """The records of the wanted types, and a fault for each damaged place.

    Args:
        source: The bytes.
        wanted: Values of WARC-Type, in lower case; other records are passed over.
        max_bytes: Largest block; a larger one is a fault.
    """
    breaks = 0
    for found in _members(source, wanted, max_bytes):
        yield found
        if isinstance(found, Frame):
            breaks = 0
        elif found.error in DAMAGE:
            breaks += 1
        if breaks >= MAX_BREAKS:
            yield Fault(found.offset, "GivenUp", f"{breaks} damaged places in a row: the rest is not read")
            return


def _members(source: Plain, wanted: frozenset[bytes], max_bytes: int) -> Iterator[Frame | Fault]:
    more = source.next_member()
    while more:
        try:
            yield from _member(source, wanted, max_bytes)
            more = source.next_member()
        except BrokenMember as error:
            yield Fault(source.place(source.at, 0)[0], "BadGzip", str(error))
            more = source.resync()


def _member(source: Plain, wanted: frozenset[bytes], max_bytes: int) -> Iterator[Frame | Fault]:
    index, lost = 0, False
    while line := source.readline(MAX_HEADER_BYTES):
        start = source.at - len(line)
        if not line.strip():
            continue
        old = not line.startswith(RECORD)
        if old and not arc.HEADER.match(line):
            if not lost:
                message = "bytes that are no WARC record; reading goes on at the next one"
                yield Fault(source.place(start, index)[0], "NotARecord", message)
            lost = True
            continue
        found = arc.record(source, line, max_bytes) if old else _record(source, line, wanted, max_bytes)
        if isinstance(found, bytes):
            yield Frame(*source.place(start, index), found)
        elif found is not None:
            yield Fault(source.place(start, index)[0], *found)
        index, lost = index + 1, isinstance(found, tuple)


def _record(source: Plain, first: bytes, wanted: frozenset[bytes], max_bytes: int) -> bytes | tuple[str, str] | None:
    """Header and block of the record whose first line is read; None where it is of another type; else what is wrong."""
    head = _header(source, first)
    if head is None:
        return "BadHeader", f"the header does not end within {MAX_HEADER_BYTES:,} bytes"
    fields = _fields(head)
    stated = fields.get(b"content-length", b"")
    if not stated.isdigit() or len(stated) > MAX_LENGTH_DIGITS:
        return "BadHeader", "no Content-Length"
    length, skipped = int(stated), fields.get(b"warc-type", b"").lower() not in wanted
    if skipped or length > max_bytes:
        missing = source.skip(length)
        if missing:
            return "Truncated", f"the file ends {missing:,} bytes before the record does"
        return None if skipped else ("TooLarge", f"block of {length:,} bytes; the option max_bytes is {max_bytes:,}")
    block = source.read(length)
    wrong = _ends_badly(source, block, length)
    if wrong:
        # What was taken for the block may hold the records that follow.
        following = block.find(b"\n" + RECORD)
        source.unread(block[following + 1 :] if following >= 0 else b"")
        return wrong
    return b"".join(head) + block


def _header(source: Plain, first: bytes) -> list[bytes] | None:
    lines, size = [first], len(first)
    while lines[-1].strip(b"\r\n"):
        lines.append(source.readline(MAX_HEADER_BYTES))
        size += len(lines[-1])
        if size > MAX_HEADER_BYTES or not lines[-1]:
            return None
    return lines


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _ends_badly(source: Plain, block: bytes, length: int) -> tuple[str, str] | None:
    """What is wrong with the end of a record: two line ends follow the block, though writers differ in them."""
    if len(block) < length:
        return "Truncated", f"the block has {len(block):,} of {length:,} bytes"
    tail = source.read(len(ENDS + RECORD))
    rest = tail.lstrip(b"\r\n")
    if rest and not tail.startswith(ENDS) and not rest.startswith(RECORD):
        source.unread(tail)
        return "BadLength", f"the block does not end after its {length:,} bytes"
    source.unread(rest)
    return None
