"""What a section of the report is made of. Sections hold data; the template alone knows HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

ColumnKind = Literal["text", "figure", "code", "int", "decimal", "share", "bytes", "bar"]
NOT_RUN = "Not run yet."


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its heading.
        kind: How its cells are written; numbers are set to the right.
        digits: Digits after the point of a decimal.
    """

    name: str
    kind: ColumnKind = "text"
    digits: int = 3

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.kind not in {"text", "code", "bar"}


@dataclass(frozen=True)
class Table:
    """Rows under headings; a cell of None is shown as a dash."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    type: str = "table"


@dataclass(frozen=True)
class Figure:
    """A chart, as SVG that is safe to place in the page."""

    svg: Markup
    caption: str
    type: str = "figure"


@dataclass(frozen=True)
class Sample:
    """A piece of somebody's text with what is to be said about it.

    Attributes:
        label: What it is, usually a doc_id.
        text: The text, not yet cleaned.
        note: One line about it.
    """

    label: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Samples:
    """Samples below a title that opens and closes.

    Attributes:
        title: What they have in common.
        items: Rows of samples; the samples of a row stand side by side.
        open: Whether it is open at first.
    """

    title: str
    items: Sequence[Sequence[Sample]]
    open: bool = False
    type: str = "samples"


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str
    type: str = "note"


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str
    type: str = "heading"


@dataclass(frozen=True)
class Command:
    """A command to copy, and what it answers."""

    command: str
    answers: str
    type: str = "command"


Block = Table | Figure | Samples | Note | Heading | Command


@dataclass
class Section:
    """A part of the page with an anchor.

    Attributes:
        anchor: Its id in the page.
        title: Its heading.
        lead: One sentence that says what is to be seen.
        blocks: Its content; none where the stage has not run.
    """

    anchor: str
    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)
