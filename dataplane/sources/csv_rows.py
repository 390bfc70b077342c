"""CSV and TSV: a row is a record, one of its cells the text.

A row is found again by its bytes; its dialect, charset and header come from the head of the file, which is read each time.

Source: RFC 4180 for the quoting; the dialect is the one under which the head has the most even rows.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from pydantic import Field

from dataplane.errors import SourceError
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_range, rest_of_line
from dataplane.sources.decode import decode, python_name
from dataplane.sources.fields import SURROGATE, Fields, Locator, record_of

HEAD_BYTES = 256 << 10
SNIFF_ROWS = 200
MAX_ROW_BYTES = 16 << 20
MAX_BREAKS = 100  # bad rows in a row after which the rest is given up
MAX_TWICE = 16  # times the largest row that may be read in vain, for quotes that are never closed
DELIMITERS = (",", "\t", ";", "|")
NAMED = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|"}
# How a quote inside a cell is written -> whether cells may stand in quotes, whether a backslash escapes.
QUOTING = {"doubled": (True, False), "escaped": (True, True), "none": (False, False)}
BOM = b"\xef\xbb\xbf"
FIX = "the raw file has changed since it was ingested: restore it"


@dataclass(frozen=True)
class Dialect:
    """How rows are written.

    Attributes:
        delimiter: What separates cells.
        quoted: Whether cells may stand in double quotes.
        escaped: Whether a backslash, and no second quote, stands before a quote inside.
    """

    delimiter: str
    quoted: bool = True
    escaped: bool = False

    def rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """The cells of each row; csv.Error where quotes do not fit."""
        return csv.reader(
            lines, delimiter=self.delimiter, quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            doublequote=not self.escaped, escapechar="\\" if self.escaped else None, strict=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What the head of a file says about the rest.

    Attributes:
        dialect: How rows are written.
        charset: Python's name of the charset.
        columns: Names of the cells.
        start: First byte of the first row of data.
    """

    dialect: Dialect
    charset: str
    columns: tuple[str, ...]
    start: int


class Csv(Source):
    """Reads CSV and TSV; a row whose quotes do not fit costs itself alone."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab")

    class Params(Fields):
        """Options of CSV files. Columns go by the names in the header, or by their number from 1."""

        header: bool = Field(True, description="Whether the first row names the columns.")
        delimiter: Literal["auto", "comma", "tab", "semicolon", "bar"] = Field("auto", description="Between cells; auto goes by the head.")
        quotes: Literal["auto", "doubled", "escaped", "none"] = Field(
            "auto", description='How a cell holds a quote: "" or \\" within quotes, or there is no quoting at all.'
        )
        charset: str | None = Field(None, description="Charset; null goes by the head.")
        mime: str = Field("text/plain", description="What the text is.")
        max_bytes: int = Field(MAX_ROW_BYTES, ge=1, description="Largest row.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record a row; empty lines are passed over."""
        head = stream.read(HEAD_BYTES)
        layout = self._layout(head)
        if isinstance(layout, Fault):
            yield layout
            return
        lines = _Lines(head, stream, layout.start, layout.charset, self.params.max_bytes)
        breaks = 0
        for start, cells in _rows(lines, layout.dialect):
            if isinstance(cells, Sequence):
                yield self._record(cells, layout, start, lines.at - start)
                breaks = 0
                continue
            yield cells
            breaks += 1
            if breaks == MAX_BREAKS or lines.read_twice > MAX_TWICE * self.params.max_bytes:
                yield Fault(start, "GivenUp", f"{breaks} bad rows in a row: the rest is not read; state `delimiter` and `quotes`")
                return

    def _layout(self, head: bytes) -> Layout | Fault:
        if b"\0" in head:
            return Fault(0, "Binary", "the file holds NUL bytes: it is no CSV, or one in UTF-16, to be converted first")
        csv.field_size_limit(max(csv.field_size_limit(), self.params.max_bytes))  # the module's own limit is 128 KiB
        start = len(BOM) if head.startswith(BOM) else 0
        charset = python_name(self.params.charset) or decode(head, None, None).charset
        dialect = self._dialect(head, start, charset)
        lines = _Lines(head, io.BytesIO(), start, charset, self.params.max_bytes)
        _, first = next(_rows(lines, dialect), (0, Fault(0, "Empty", "the file holds no row")))
        if isinstance(first, Fault):
            return first
        if not self.params.header:
            return Layout(dialect, charset, tuple(str(i + 1) for i in range(len(first))), start)
        columns = tuple(cell.strip() for cell in first)
        if not set(columns) & set(self.params.texts()):
            message = f"no column {self.params.texts()[0]!r} (columns: {', '.join(columns[:8])}); set the option `text`"
            return Fault(0, "NoText", message)
        return Layout(dialect, charset, columns, lines.at)

    def _dialect(self, head: bytes, start: int, charset: str) -> Dialect:
        delimiters = DELIMITERS if self.params.delimiter == "auto" else (NAMED[self.params.delimiter],)
        # Python's reader is lax where a backslash escapes: that is tried only where one does.
        tried = [name for name in QUOTING if name != "escaped" or b'\\"' in head] if self.params.quotes == "auto" else [self.params.quotes]
        candidates = [Dialect(delimiter, *how) for delimiter in delimiters for how in map(QUOTING.__getitem__, tried)]

        def fit(dialect: Dialect) -> tuple[bool, float]:
            lines = _Lines(head, io.BytesIO(), start, charset, self.params.max_bytes)
            rows = [cells for _, cells in itertools.islice(_rows(lines, dialect), SNIFF_ROWS)]
            first = rows[0] if rows and isinstance(rows[0], Sequence) else ()
            even = sum(isinstance(cells, Sequence) and len(cells) == len(first) for cells in rows)
            named = {cell.strip() for cell in first}
            return bool(named & set(self.params.texts())), math.log1p(len(first)) * even / max(1, len(rows))

        # The first of the best: quoting is RFC 4180's unless another fits better.
        return max(candidates, key=fit)

    def _record(self, cells: Sequence[str], layout: Layout, start: int, length: int) -> Record | Fault:
        if any(cells[len(layout.columns) :]):
            return Fault(start, "ExtraCells", f"row has {len(cells)} cells for {len(layout.columns)} columns")
        values: dict[str, str | bytes] = dict(zip(layout.columns, cells, strict=False))
        text = values.get(self.params.texts()[0])
        if isinstance(text, str) and SURROGATE.search(text):
            # The head was UTF-8 and this row is not: its bytes are kept as they are, for their own charset to be found.
            values[self.params.texts()[0]] = text.encode("utf-8", "surrogateescape")
        return record_of(values, self.params, Locator(start, length), self.params.mime)

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of the row at the locator."""
        head = stream.read(HEAD_BYTES)
        layout = self._layout(head)
        if isinstance(layout, Fault):
            raise SourceError(layout.message, fix=FIX)
        lines = _Lines(_range(head, stream, offset, length), io.BytesIO(), 0, layout.charset, self.params.max_bytes)
        _, cells = next(_rows(lines, layout.dialect), (0, Fault(0, "Empty", "the row is empty")))
        found = cells if isinstance(cells, Fault) else self._record(cells, layout, offset, length)
        if isinstance(found, Fault):
            raise SourceError(found.message, fix=FIX)
        return found.payload


class _RowTooLarge(Exception):
    """A row is larger than the option allows."""


class _Headed(io.RawIOBase):
    """What is read of a stream already, and then the stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = io.BytesIO(head), stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Lines:
    """Lines as text, which know where they are and can be given back.

    Attributes:
        at: Offset of the next line.
        read_twice: Bytes given back so far.
    """

    def __init__(self, head: bytes, stream: BinaryIO, at: int, charset: str, max_bytes: int) -> None:
        self._stream, self.at = io.BufferedReader(_Headed(head[at:], stream)), at
        self._charset, self._max_bytes = charset, max_bytes
        self._errors = "surrogateescape" if charset == "utf-8" else "replace"
        self._given: list[bytes] = []  # the next one last
        self._row: list[bytes] = []
        self._row_bytes = self.read_twice = 0

    def begin(self) -> int:
        """Starts a row; returns its offset."""
        self._row, self._row_bytes = [], 0
        return self.at

    def give_back(self) -> None:
        """Gives the lines of the row back but for the first."""
        back = self._row[1:]
        self._given += back[::-1]
        n_bytes = sum(map(len, back))
        self.at -= n_bytes
        self.read_twice += n_bytes

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._next()
        if not line:
            raise StopIteration
        self.at += len(line)
        self._row.append(line)
        self._row_bytes += len(line)
        if self._row_bytes > self._max_bytes:
            if len(self._row) == 1 and not line.endswith(b"\n"):
                self.at += rest_of_line(self._stream)
            raise _RowTooLarge
        return line.decode(self._charset, self._errors)

    def _next(self) -> bytes:
        line = self._given.pop() if self._given else self._stream.readline(self._max_bytes + 1)
        if not line.endswith(b"\n") and len(line) <= self._max_bytes:
            line += self._stream.readline(self._max_bytes + 1 - len(line))
        return line


def _rows(lines: _Lines, dialect: Dialect) -> Iterator[tuple[int, list[str] | Fault]]:
    """Offset and cells of each row that is not empty. Of a bad one the first line is lost, and reading goes on at the second."""
    while True:
        start = lines.begin()
        try:
            cells = next(dialect.rows(lines))
        except StopIteration:
            return
        except csv.Error as error:
            lines.give_back()
            yield start, Fault(start, "BadRow", str(error))
        except _RowTooLarge:
            lines.give_back()
            yield start, Fault(start, "TooLarge", "the row, or the quote left open in it, goes past the option max_bytes")
        else:
            if cells:
                yield start, cells


def _range(head: bytes, stream: BinaryIO, offset: int, length: int) -> bytes:
    """The bytes at an offset of a stream whose head is read already."""
    held = head[offset : offset + length]
    if len(held) == length:
        return held
    if stream.seekable():
        return read_range(stream, offset, length)
    return held + read_range(stream, max(0, offset - len(head)), length - len(held))
