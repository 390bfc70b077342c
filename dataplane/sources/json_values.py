"""JSON that is no lines: an array of objects, or objects one after the other, however they are laid out.

The file is cut into its objects by a scan for brackets and strings, and each is parsed alone: memory is bounded by the largest object,
a cut file gives every object before the cut, and an object is found again by its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from dataplane.source import Fault, Record
from dataplane.sources.jsonl import Jsonl

CHUNK_BYTES = 1 << 20
# A whole string, an open one, or a bracket.
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|"|[{}\[\]]', re.DOTALL)


class Json(Jsonl):
    """Reads the objects of a JSON array or of a sequence; what one object cannot give is a fault.

    Source: RFC 8259; RFC 7464 and NDJSON for sequences.
    """

    name = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record an object."""
        for found in _objects(stream, self.params.max_bytes):
            if isinstance(found, Fault):
                yield found
            else:
                offset, data = found
                yield self._record(data, offset)


class _Scan:
    """Where the objects of the held bytes begin and end.

    Attributes:
        start: Place of the open object, -1 between objects.
        at: Where the scan goes on.
    """

    def __init__(self) -> None:
        self.start, self.at = -1, 0
        self._depth = self._arrays = 0

    def spans(self, held: bytes) -> Iterator[tuple[int, int]]:
        """Start and stop of each object that ends in the held bytes."""
        while match := TOKEN.search(held, self.at):
            token = match[0]
            if token == b'"':
                self.at = match.start()  # the string is cut by the end of what is held
                return
            self.at = match.end()
            if token in (b"{", b"["):
                self._open(token, match.start())
            elif token in (b"}", b"]") and self._closes():
                yield self.start, match.end()
                self.start = -1
        self.at = len(held)

    def _open(self, token: bytes, at: int) -> None:
        if self.start < 0 and token == b"[":
            self._arrays += 1  # arrays around the objects: only what is in them counts
            return
        self.start = at if self.start < 0 else self.start
        self._depth += 1

    def _closes(self) -> bool:
        """Whether this bracket closes an object."""
        if self.start < 0:
            self._arrays = max(0, self._arrays - 1)
            return False
        self._depth -= 1
        return self._depth == 0

    def drop(self, n_bytes: int) -> None:
        """Tells that so many bytes left the front of what is held."""
        self.at -= n_bytes
        self.start -= n_bytes if self.start >= 0 else 0


def _objects(stream: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes] | Fault]:
    """Offset and bytes of each object outside every other."""
    scan, held, base, found = _Scan(), b"", 0, False
    # A string that is cut is scanned again when more is held: each read doubles what there is, so that time stays linear.
    while data := stream.read(max(CHUNK_BYTES, len(held))):
        held += data
        for start, stop in scan.spans(held):
            found = True
            yield base + start, held[start:stop]
        keep = scan.start if scan.start >= 0 else scan.at
        base, held = base + keep, held[keep:]
        scan.drop(keep)
        if len(held) > max_bytes:
            yield Fault(base, "TooLarge", f"object of more than {max_bytes:,} bytes: the rest is not read")
            return
    if scan.start >= 0:
        yield Fault(base, "Truncated", "the file ends inside an object")
    elif not found:
        yield Fault(0, "NoObjects", "the file holds no JSON object")
