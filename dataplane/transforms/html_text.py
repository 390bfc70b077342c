"""Main text of HTML pages: by cues and prose, by trafilatura where that is not sure, by resiliparse where neither finds any.

Source: Barbaresi 2021, doi:10.18653/v1/2021.acl-demo.15; Bevendorff et al. 2018, doi:10.1007/978-3-319-76941-7_83.
"""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.html_metadata import FIELDS, metadata
from dataplane.transforms.html_page import Page
from dataplane.transforms.main_content import content

HTML_MIMES = frozenset({"text/html", "application/xhtml+xml"})
# The slower extractors take time that grows with the square of the depth. Real pages stay below 200; from here on the tags alone are
# taken off.
MAX_DEPTH = 1_000
# A second opinion on larger pages, most often lists of links, takes long and is seldom better.
MAX_UNSURE_ROWS = 2_000
_TAG = re.compile(r"<[^<>]{0,1000}>")
# White space of <pre> travels through the extractors, which would fold it, as the visible signs for it (Control Pictures;
# trafilatura has a use of its own for U+2424, the sign for a line end).
_PRE = re.compile(r"<(/?)pre\b[^<>]{0,1000}>", re.IGNORECASE)
_MARKUP = re.compile(r"(<[^<>]{0,1000}>)")
_TO_SIGNS = {ord("\n"): "␊", ord(" "): "␠", ord("\t"): "␉"}
_FROM_SIGNS = {ord(sign): chr(space) for space, sign in _TO_SIGNS.items()}
_BLANK_LINES = re.compile(r"\n{3,}")


class HtmlText(Transform):
    """Turns pages into their main text, and leaves documents of other types alone."""

    name, version = "html_text", "4"
    reads = {"text": pa.large_string(), "mime": pa.string()}
    writes = {**dict.fromkeys(FIELDS, pa.string()), "extractor": pa.string()}
    edits = ("html",)

    class Params(BaseParams):
        """How main text is found."""

        extractor: Literal["cascade", "trafilatura", "resiliparse"] = Field(
            "trafilatura",
            description="trafilatura and resiliparse give plain text; cascade chooses by the cues of elements and by prose, as Markdown, "
            "and asks trafilatura where it is not sure: eight times as fast, better on pages of many kinds, just behind on new articles.",
        )
        min_chars: int = Field(100, ge=0, description="Shorter results are taken for a miss, and the next extractor is asked.")

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """The main text of each page, what it says about itself, and which extractor found it."""
        texts: list[str] = []
        edits: list[int] = []
        signals: dict[str, list[str | None]] = {name: [] for name in self.writes}
        for text, mime in zip(batch.column("text").to_pylist(), batch.column("mime").to_pylist(), strict=True):
            is_page = mime in HTML_MIMES and bool(text)
            found, values = self._page(text) if is_page else (text, {})
            texts.append(found)
            edits.append(int(is_page))
            for name, column in signals.items():
                column.append(values.get(name))
        return Rewrite(
            pa.array(texts, pa.large_string()),
            {"html": pa.array(edits, pa.int32())},
            {name: pa.array(column, pa.string()) for name, column in signals.items()},
        )

    def _page(self, html: str) -> tuple[str, dict[str, str | None]]:
        """Text of a page, and its signals."""
        page = Page.parse(html)
        if page is None:
            return _tidy(_TAG.sub(" ", html)), {"extractor": "tags"}
        values = metadata(page)
        found, sure = content(page) if self.params.extractor == "cascade" else ("", False)
        if sure and len(found) >= self.params.min_chars:
            return found, values | {"extractor": "density"}
        if page.depth > MAX_DEPTH:
            return _tidy(_TAG.sub(" ", html)), values | {"extractor": "tags"}
        text, extractor = self._extract(html, found, len(page.rows))
        return text, values | {"extractor": extractor}

    def _extract(self, html: str, found: str, n_rows: int) -> tuple[str, str]:
        """What the slower ways find; what the fast one has found, where they find no more than a miss."""
        marked = _mark_code(html)
        if self.params.extractor == "trafilatura" or (self.params.extractor == "cascade" and n_rows <= MAX_UNSURE_ROWS):
            text = _tidy(_trafilatura(marked))
            if len(text) >= self.params.min_chars:
                return _unmark_code(text, html, marked), "trafilatura"
        if found and len(found) >= self.params.min_chars:
            return found, "density"
        return _unmark_code(_tidy(_resiliparse(marked)), html, marked), "resiliparse"


def _mark_code(html: str) -> str:
    """The page with the white space of its <pre> elements as signs; pages that show such signs themselves stay as they are."""
    if any(sign in html for sign in _TO_SIGNS.values()):
        return html
    html = html.replace("\r\n", "\n").replace("\r", "\n")
    parts: list[str] = []
    at = depth = 0
    for match in _PRE.finditer(html):
        parts += [_signs(html[at : match.start()]) if depth else html[at : match.start()], match[0]]
        depth = max(0, depth - 1) if match[1] else depth + 1
        at = match.end()
    parts.append(html[at:])  # a <pre> that is never closed is not trusted to be code
    return "".join(parts)


def _signs(html: str) -> str:
    """White space outside tags as signs; the line end right after <pre> is none of the text."""
    pieces = _MARKUP.split(html.removeprefix("\n"))
    return "".join(piece if i % 2 else piece.translate(_TO_SIGNS) for i, piece in enumerate(pieces))


def _unmark_code(text: str, html: str, marked: str) -> str:
    return text if html == marked else text.translate(_FROM_SIGNS)


def _trafilatura(html: str) -> str:
    import trafilatura

    return trafilatura.extract(html, include_comments=False, include_tables=True, deduplicate=False) or ""


def _resiliparse(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    text: str = extract_plain_text(html, main_content=True, alt_texts=False, preserve_formatting=True)
    return text


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()
