"""A page of HTML as its readers see it: bytes, and a tree of rows over them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dataplane.kernels.html_names import IDS, NAMES
from dataplane.kernels.html_tree import END, I32, LAST, START, TAG, tree

_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+)))?""")
MAX_JSON_BYTES = 200_000
MAX_TAGS = 1_000_000  # of which each takes 64 bytes; pages that people read have a thousandth of that


@dataclass(frozen=True)
class Page:
    """The page's bytes in UTF-8, the rows of its tree (see `dataplane.kernels.html_tree`), and how deep they nest."""

    data: bytes
    rows: I32
    depth: int

    @classmethod
    def parse(cls, text: str) -> Page | None:
        """The page of a text, None where it has too many tags to be one."""
        data = text.encode("utf-8", "replace")
        n_tags = data.count(b"<")
        return cls(data, *tree(np.frombuffer(data, np.uint8), n_tags)) if n_tags <= MAX_TAGS else None

    def elements(self, *names: str) -> Iterator[int]:
        """The rows of all elements of those names, in document order."""
        tags = self.rows[:, TAG]
        found = tags == IDS[names[0]]
        for name in names[1:]:
            found |= tags == IDS[name]
        yield from np.flatnonzero(found).tolist()

    def name(self, row: int) -> str:
        """The name of an element, empty for a run of text."""
        return NAMES[int(self.rows[row, TAG])]

    def attributes(self, row: int) -> dict[str, str]:
        """The attributes of an element, by their names in lower case."""
        source = self.data[self.rows[row, START] : self.rows[row, END]].decode("utf-8", "replace")
        values: dict[str, str] = {}
        for match in _ATTRIBUTE.finditer(source):
            values.setdefault(match[1].lower(), html.unescape(match[2] or match[3] or match[4] or ""))
        return values

    def row_at(self, place: int) -> int:
        """The row that has the byte at `place`."""
        return int(np.searchsorted(self.rows[:, START], place, "right")) - 1

    @cached_property
    def linked_data(self) -> list[Mapping[str, Any]]:
        """The objects that the page's JSON-LD describes."""
        items: list[Mapping[str, Any]] = []
        for row in self.elements("script") if b"ld+json" in self.data else ():
            start, end = self.rows[row + 1, START : END + 1].tolist()
            if b"ld+json" in self.data[self.rows[row, START] : self.rows[row, END]] and 0 < end - start <= MAX_JSON_BYTES:
                try:
                    items.extend(_items(json.loads(self.data[start:end])))
                except (ValueError, RecursionError):
                    continue
        return items

    def text(self, row: int) -> str:
        """All text in an element, scripts' too."""
        rows = self.rows[row : self.rows[row, LAST], (TAG, START, END)].tolist()
        return html.unescape("".join(self.data[start:end].decode("utf-8", "replace") for tag, start, end in rows if tag == 0))


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects that describe a work: of a graph each, of a list each."""
    values = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, Mapping):
            yield item
            graph = item.get("@graph")
            yield from (node for node in graph if isinstance(node, Mapping)) if isinstance(graph, list) else ()
