"""Main text of HTML pages: trafilatura, and resiliparse where it finds none.

Source: Barbaresi 2021, doi:10.18653/v1/2021.acl-demo.15; Bevendorff et al. 2018, doi:10.1007/978-3-319-76941-7_83.
"""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams

HTML_MIMES = frozenset({"text/html", "application/xhtml+xml"})
# Both extractors take time that grows with the square of the depth. Real pages stay below 200; from here on the tags alone are
# taken off.
MAX_DEPTH = 1_000
_TAG = re.compile(r"<[^<>]{0,1000}>")
# Elements that HTML lets stand open nest nothing; the others do.
_NESTING = re.compile(
    r"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|p|li|dt|dd|option|tr|td|th|thead|tbody|tfoot)\b)[a-zA-Z]",
    re.IGNORECASE,
)
# White space of <pre> travels through the extractors, which would fold it, as the visible signs for it (Control Pictures;
# trafilatura has a use of its own for U+2424, the sign for a line end).
_PRE = re.compile(r"<(/?)pre\b[^<>]{0,1000}>", re.IGNORECASE)
_MARKUP = re.compile(r"(<[^<>]{0,1000}>)")
_TO_SIGNS = {ord("\n"): "␊", ord(" "): "␠", ord("\t"): "␉"}
_FROM_SIGNS = {ord(sign): chr(space) for space, sign in _TO_SIGNS.items()}
_BLANK_LINES = re.compile(r"\n{3,}")


class HtmlText(Transform):
    """Turns pages into their main text, and leaves documents of other types alone."""

    name, version = "html_text", "2"
    reads = {"text": pa.large_string(), "mime": pa.string()}
    writes = {"title": pa.string(), "extractor": pa.string()}
    edits = ("html",)

    class Params(BaseParams):
        """How main text is found."""

        extractor: Literal["trafilatura", "resiliparse"] = Field(
            "trafilatura", description="trafilatura is better and slow; resiliparse is ten times as fast and .03-.10 F1 behind."
        )
        min_chars: int = Field(100, ge=0, description="Shorter results of trafilatura are taken for a miss, and resiliparse is asked.")

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """The main text of each page, its title, and which extractor found it."""
        texts: list[str] = []
        titles: list[str | None] = []
        extractors: list[str | None] = []
        edits: list[int] = []
        for text, mime in zip(batch.column("text").to_pylist(), batch.column("mime").to_pylist(), strict=True):
            if mime in HTML_MIMES and text:
                found, extractor = self._extract(text)
                texts.append(found)
                titles.append(_title(text))
                extractors.append(extractor)
                edits.append(1)
            else:
                texts.append(text)
                titles.append(None)
                extractors.append(None)
                edits.append(0)
        return Rewrite(
            pa.array(texts, pa.large_string()),
            {"html": pa.array(edits, pa.int32())},
            {"title": pa.array(titles, pa.string()), "extractor": pa.array(extractors, pa.string())},
        )

    def _extract(self, html: str) -> tuple[str, str]:
        if _depth(html) > MAX_DEPTH:
            return _tidy(_TAG.sub(" ", html)), "tags"
        marked = _mark_code(html)
        if self.params.extractor == "trafilatura":
            found = _tidy(_trafilatura(marked))
            if len(found) >= self.params.min_chars:
                return _unmark_code(found, html, marked), "trafilatura"
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


def _depth(html: str) -> int:
    """Deepest nesting of elements, counted by their tags alone."""
    deepest = depth = 0
    for match in _NESTING.finditer(html):
        depth = max(0, depth - 1) if match[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _trafilatura(html: str) -> str:
    import trafilatura

    return trafilatura.extract(html, include_comments=False, include_tables=True, deduplicate=False) or ""


def _resiliparse(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    text: str = extract_plain_text(html, main_content=True, alt_texts=False, preserve_formatting=True)
    return text


def _title(html: str) -> str | None:
    from resiliparse.parse.html import HTMLTree

    title = HTMLTree.parse(html).title
    return " ".join(title.split()) or None if title else None


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()
