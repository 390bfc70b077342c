"""Elements of HTML as Markdown: headings, lists, tables, quotations and code keep their form."""

from __future__ import annotations

from typing import Any

HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "form", "header", "hr", "html", "li", "main", "ol", "p", "pre", "section", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul",
    *HEADINGS,
))  # fmt: skip
LINES = frozenset({"br", "tr", "dt", "dd", "tbody", "thead", "tfoot"})  # that begin a line, and no paragraph
LISTS = {"ul": -1, "ol": 0}


def markdown(root: Any) -> str:
    """The text of an element."""
    writer = _Writer()
    writer.write(root)
    return "".join(writer.out).strip()


class _Writer:
    """Writes elements in order; an explicit stack, since pages nest deeper than Python calls."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._breaks = 0  # line ends due before the next text
        self._mark = ""  # what the next line begins with
        self._pre = 0
        self._lists: list[int] = []  # -1 for bullets, else the number of the last item

    def write(self, root: Any) -> None:
        """Writes an element with everything in it."""
        stack: list[Any] = [root]  # an element in a tuple is to be closed
        while stack:
            item = stack.pop()
            if type(item) is tuple:
                (element,) = item
                self._close(element)
                if element is not root and element.tail:
                    self._text(element.tail)
                continue
            self._open(item)
            if item.text:
                self._text(item.text)
            stack.append((item,))
            stack.extend(reversed(item))

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

    def _open(self, element: Any) -> None:
        tag = element.tag
        if tag in ("td", "th"):
            self._cell(element)
        elif tag in HEADINGS:
            self._break(2)
            self._mark = f"{HEADINGS[tag]} "
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self._break(2)
            self._mark += "```\n"
            self._pre += 1
        elif tag in BLOCKS:
            self._break(1 if self._lists or tag in LINES else 2)
            if tag in LISTS:
                self._lists.append(LISTS[tag])

    def _item(self) -> None:
        mark = "- "
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}. "
        self._break(1)
        self._mark = "  " * (len(self._lists) - 1) + mark

    def _cell(self, element: Any) -> None:
        if element.getprevious() is not None and not self._breaks:
            self.out.append(" | ")

    def _close(self, element: Any) -> None:
        tag = element.tag
        if tag == "pre":
            self._pre -= 1
            if self.out and not self._mark:  # of an empty one nothing is written
                self.out.append("```" if self.out[-1].endswith("\n") else "\n```")
            self._mark = ""
            self._break(2)
        elif tag in LISTS:
            self._lists.pop()
            self._break(1 if self._lists else 2)
        elif tag in BLOCKS:
            if tag == "li" or tag in HEADINGS:
                self._mark = ""
            self._break(1 if tag in LINES or (self._lists and tag not in HEADINGS) else 2)
