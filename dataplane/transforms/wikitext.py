"""Wikitext to text: templates, tables, references, files and categories go, links keep their words, headings stay.

One scan with a stack finds the nested constructs, so that time is linear in the text however deep hostile braces go.

Source: https://www.mediawiki.org/wiki/Help:Formatting and https://www.mediawiki.org/wiki/Help:Links.
"""

from __future__ import annotations

import html
import re

import pyarrow as pa

from dataplane.operator import Rewrite, Transform

WIKI_MIME = "text/x-wiki"
_OPEN = {"{{": "}}", "{|": "|}", "[[": "]]"}
_MARKS = re.compile(r"\{\{|\}\}|\{\||\|\}|\[\[|\]\]")
# Pages that a link embeds or files away instead of leading there, in English and Chinese wikis.
_NO_TEXT = ("file:", "image:", "media:", "category:", "文件:", "檔案:", "档案:", "图像:", "圖像:", "分类:", "分類:")
MAX_ELEMENT_CHARS = 50_000  # of a comment or reference; a longer one is a tag that was never closed
_COMMENT = re.compile(rf"<!--.{{0,{MAX_ELEMENT_CHARS}}}?-->", re.DOTALL)
_EMPTY_REF = re.compile(r"<ref\b[^<>]{0,500}/>", re.IGNORECASE)
_DROPPED_TAGS = re.compile(
    rf"<(ref|gallery|timeline|imagemap|score|templatestyles)\b[^<>]{{0,500}}>.{{0,{MAX_ELEMENT_CHARS}}}?</\1\s{{0,10}}>", re.DOTALL | re.IGNORECASE
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_EXTERNAL = re.compile(r"\[(?:https?:)?//[^\s\]]{1,2000}(?:[ \t]+([^\]\n]{0,1000}))?\]")
_HEADING = re.compile(r"^(={1,6})[ \t]*(.+?)[ \t]*\1[ \t]*$", re.MULTILINE)
_QUOTES = re.compile(r"'{2,5}")
_MAGIC = re.compile(r"__[A-Z]{2,30}__")
_LIST = re.compile(r"^[*#:;]+[ \t]*", re.MULTILINE)
_RULE = re.compile(r"^-{4,}[ \t]*$", re.MULTILINE)
_SPACES = re.compile(r"[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


class WikiText(Transform):
    """Turns wikitext into text, and leaves documents of other types alone."""

    name, version = "wikitext", "1"
    reads = {"text": pa.large_string(), "mime": pa.string()}
    edits = ("wikitext",)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """The text of each page."""
        texts, edits = [], []
        for text, mime in zip(batch.column("text").to_pylist(), batch.column("mime").to_pylist(), strict=True):
            plain = plain_text(text) if mime == WIKI_MIME else text
            texts.append(plain)
            edits.append(int(plain != text))
        return Rewrite(pa.array(texts, pa.large_string()), {"wikitext": pa.array(edits, pa.int32())})


def plain_text(wikitext: str) -> str:
    """The words of a page."""
    text = _COMMENT.sub("", wikitext)
    text = _EMPTY_REF.sub("", text)
    text = _DROPPED_TAGS.sub("", text)
    text = _resolve(text)
    text = _EXTERNAL.sub(lambda match: match[1] or "", text)
    text = _TAG.sub("", text)
    text = _HEADING.sub(lambda match: f"{'#' * len(match[1])} {match[2]}", text)
    text = _LIST.sub("- ", _RULE.sub("", _MAGIC.sub("", _QUOTES.sub("", text))))
    text = _BLANK_LINES.sub("\n\n", _SPACES.sub("", html.unescape(text)))
    return text.strip()


def _resolve(text: str) -> str:
    """Takes templates and tables out and replaces links by their words; what is left open stays as it is written."""
    frames: list[tuple[str, list[str]]] = [("", [])]
    at = 0
    for match in _MARKS.finditer(text):
        frames[-1][1].append(text[at : match.start()])
        at = match.end()
        mark = match[0]
        if mark in _OPEN:
            frames.append((mark, []))
        elif _OPEN.get(frames[-1][0]) == mark:
            opened, parts = frames.pop()
            frames[-1][1].append(_words("".join(parts)) if opened == "[[" else "")
        else:
            frames[-1][1].append(mark)
    frames[-1][1].append(text[at:])
    return "".join(opened + "".join(parts) for opened, parts in frames)


def _words(link: str) -> str:
    """What a reader sees of a link: its label, or the page's name."""
    target, bar, label = link.partition("|")
    if target.strip().lower().startswith(_NO_TEXT):
        return ""
    # "[[:Category:X]]" leads to the category instead of filing the page.
    return label.rpartition("|")[2] if bar else target.removeprefix(":")
