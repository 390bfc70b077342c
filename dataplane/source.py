"""What reads a format: a Source turns one byte stream into records that know where they came from.

Sources are registered under the entry-point group ``dataplane.sources`` by their `name`. Archives and
compression are taken off before a source sees the stream (`dataplane.sources.archive`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, ClassVar

from dataplane.params import Params as BaseParams


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it arrived.

    Attributes:
        payload: The document's own bytes (a page's body, a field's UTF-8, a file).
        offset: First byte of the record in the stream; -1 where the format has rows instead.
        length: Bytes of the record at `offset` (not of the payload).
        row: Row number where the format has rows.
        key: What names the record within its stream for the doc_id; None takes the locator. A declared
            id field goes here, so that edited content under one id is a new version of one document.
        url, mime, charset, fetched_at: As declared, None where silent.
        meta: Further declared fields (title, licence, ...), JSON-like.
    """

    payload: bytes
    offset: int
    length: int
    row: int | None = None
    key: str | None = None
    url: str | None = None
    mime: str | None = None
    charset: str | None = None
    fetched_at: datetime | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that could not be read; it goes to quarantine and reading goes on.

    Attributes:
        offset: Where in the stream it was met.
        error: Class of the error.
        message: What was wrong, without the record's text.
    """

    offset: int
    error: str
    message: str


class Source(ABC):
    """Reads one format.

    Class attributes:
        name: Name of the format, and of the entry point.
        suffixes: File name endings (lower case, with the dot) that this format claims.
        seekable_compression: Compressed endings (".gz") that this format reads as they lie, so that a
            record is found by its offset in the file itself and not by decompressing all before it.
        Params: Options of the format (field names, ...).
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    seekable_compression: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[BaseParams]] = BaseParams

    def __init__(self, params: Mapping[str, Any] | BaseParams | None = None) -> None:
        parsed = params if isinstance(params, BaseParams) else self.Params.parse(params, where=f"options of source {self.name!r}")
        # Any: each subclass's own Params class types its fields, which the base cannot know.
        self.params: Any = parsed

    @abstractmethod
    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """Records of the stream in order; a record it cannot read is a Fault, never an exception.

        Args:
            stream: Decompressed bytes, read forward only.
            name: File or member name, for formats that look at it.
        """

    @abstractmethod
    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The payload of the record at this locator.

        Args:
            stream: The same decompressed bytes from the start; may be read forward to `offset`.
        """
