"""Elements of HTML as Markdown: headings, lists, tables, quotations and code keep their form."""

from __future__ import annotations

import html

from dataplane.kernels.html_names import NAMES
from dataplane.kernels.html_tree import END, I32, LAST, START, TAG

HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "form", "header", "hr", "html", "li", "main", "ol", "p", "pre", "section", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul", "nav", "footer", "caption", "hgroup",
    *HEADINGS,
))  # fmt: skip
LINES = frozenset({"br", "tr", "dt", "dd", "tbody", "thead", "tfoot"})  # that begin a line, and no paragraph
MAX_INDENT = 20  # levels of lists; deeper ones are no lists, and their indents would grow with the square of the depth
LISTS = {"ul": -1, "ol": 0}
STRUCTURE = BLOCKS | {"td", "th"}


def markdown(data: bytes, rows: I32) -> str:
    """The text of elements and runs of text.

    Args:
        data: The page.
        rows: Rows of its tree, the first with all others in it, whose columns `LAST` refer to these rows.
    """
    writer = _Writer()
    writer.write(data, *(rows[:, column].tolist() for column in (TAG, START, END, LAST)))
    return "".join(writer.out).strip()


class _Writer:
    """Writes elements in order; an explicit stack, since pages nest deeper than Python calls."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._breaks = 0  # line ends due before the next text
        self._mark = ""  # what the next line begins with
        self._pre = 0
        self._lists: list[int] = []  # -1 for bullets, else the number of the last item
        self._cell = False

    def write(self, data: bytes, tags: list[int], starts: list[int], ends: list[int], lasts: list[int]) -> None:
        """Writes the rows in order."""
        open_until: list[tuple[int, str]] = []
        for at, (tag, start, end, last) in enumerate(zip(tags, starts, ends, lasts, strict=True)):
            while open_until and open_until[-1][0] <= at:
                self._close(open_until.pop()[1])
            if tag == 0:
                text = data[start:end].decode("utf-8", "replace")
                self._text(html.unescape(text) if "&" in text else text)
            elif NAMES[tag] in STRUCTURE:
                self._open(NAMES[tag])
                open_until.append((last, NAMES[tag]))
        while open_until:
            self._close(open_until.pop()[1])

    def _text(self, text: str) -> None:
        if self._pre:
            self._flush()
            self.out.append(text)
            return
        words = text.split()
        if not words:
            if not self._breaks:
                self.out.append(" ")
            return
        before = " " if text[0].isspace() and not self._breaks else ""
        self._flush()
        self.out.append(before + " ".join(words) + (" " if text[-1].isspace() else ""))

    def _flush(self) -> None:
        """Writes the line ends and the mark that are due."""
        if self._breaks or self._mark:
            if self.out:
                self.out[-1] = self.out[-1].rstrip(" ")
            self.out.append("\n" * self._breaks + self._mark)
            self._breaks, self._mark = 0, ""

    def _break(self, lines: int) -> None:
        self._breaks = max(self._breaks, lines)

    def _open(self, tag: str) -> None:
        if tag in ("td", "th"):
            if self._cell and not self._breaks:
                self.out.append(" | ")
            self._cell = True
        elif tag in HEADINGS:
            self._break(2)
            self._mark = f"{HEADINGS[tag]} "
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self._break(2)
            if not self._pre:
                self._mark += "```\n"
            self._pre += 1
        elif tag in BLOCKS:
            if tag == "tr":
                self._cell = False
            self._break(1 if self._lists or tag in LINES else 2)
            if tag in LISTS:
                self._lists.append(LISTS[tag])

    def _item(self) -> None:
        mark = "- "
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}. "
        self._break(1)
        self._mark = "  " * min(len(self._lists) - 1, MAX_INDENT) + mark

    def _end_code(self) -> None:
        if self.out and not self._mark:  # of an empty one nothing is written
            self.out.append("```" if self.out[-1].endswith("\n") else "\n```")
        self._mark = ""
        self._break(2)

    def _close(self, tag: str) -> None:
        if tag == "pre":
            self._pre -= 1
            if not self._pre:
                self._end_code()
        elif tag in LISTS:
            self._lists.pop()
            self._break(1 if self._lists else 2)
        elif tag in BLOCKS:
            if tag == "li" or tag in HEADINGS:
                self._mark = ""
            self._break(1 if tag in LINES or (self._lists and tag not in HEADINGS) else 2)
