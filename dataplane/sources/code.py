"""Source code trees: a file is a document; its language goes by its name, and by its text where the name leaves a choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import Field

from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_all, read_range
from dataplane.sources.code_language import MAX_CHARS, endings, language_of, source_mime

MAX_FILE_BYTES = 16 << 20
SNIFF_BYTES = 8192
MAX_LOOK_BYTES = 4 * MAX_CHARS  # a character is four bytes at most

# Endings that the other formats of this package read as what they are.
OTHER_FORMATS = frozenset(
    ".html .htm .xhtml .json .jsonl .xml .txt .text .md .markdown .rst .tex .csv .tsv .tab .arrow .arc .wat .parquet".split()  # noqa: SIM905 -- a list of words
)


class Code(Source):
    """Reads source files; binary files and files of no known language are faults that say so.

    Source: endings of file names as the languages' own documentation gives them.
    """

    name = "code"
    suffixes = tuple(ending for ending in endings() if ending not in OTHER_FORMATS)

    class Params(BaseParams):
        """Options of source code."""

        max_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Largest file.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record."""
        if language_of(name) is None:
            yield Fault(0, "UnknownLanguage", f"{name!r} has no ending of a known programming language")
            return
        data = read_all(stream, self.params.max_bytes)
        if isinstance(data, Fault):
            yield data
        elif b"\0" in data[:SNIFF_BYTES]:
            yield Fault(0, "Binary", "the file holds NUL bytes")
        elif data:
            language = language_of(name, data[:MAX_LOOK_BYTES].decode("utf-8", "replace")) or ""
            yield Record(data, 0, len(data), mime=source_mime(language), meta={"path": name, "programming_language": language})

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The bytes at the locator are the payload."""
        return read_range(stream, offset, length)
