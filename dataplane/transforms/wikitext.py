"""Wikitext to text: references, files and categories go, links, tables and some templates keep their words, headings stay.

One scan with a stack finds the nested constructs and every pattern is bounded, so that time is linear in the text however deep
hostile braces go.

Source: https://www.mediawiki.org/wiki/Help:Formatting, Help:Links, and Writing_systems/Syntax for variants of Chinese.
"""

from __future__ import annotations

import html
import re

import pyarrow as pa

from dataplane.operator import Rewrite, Transform
from dataplane.transforms.wiki_constructs import table, template

WIKI_MIME = "text/x-wiki"
_OPEN = {"{{": "}}", "{|": "|}", "[[": "]]"}
_MARKS = re.compile(r"\{\{|\}\}|\{\||\|\}|\[\[|\]\]")
_REDIRECT = re.compile(r"\s{0,100}#(?:redirect|重定向)\b", re.IGNORECASE)
# Pages that a link embeds or files away instead of leading there, in English and Chinese wikis.
_NO_TEXT = ("file:", "image:", "media:", "category:", "文件:", "檔案:", "档案:", "图像:", "圖像:", "分类:", "分類:")
_OTHER_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,10})?:")
# Elements without text for a reader, and those whose content no other rule may touch.
_DROPPED = ("ref", "references", "gallery", "timeline", "imagemap", "score", "templatestyles", "graph", "mapframe")
_VERBATIM = ("nowiki", "pre", "syntaxhighlight", "source", "code", "math", "chem")
_ELEMENT = re.compile(rf"<!--|<({'|'.join(_DROPPED + _VERBATIM)})(?:\s[^<>]{{0,500}})?>", re.IGNORECASE)
_BREAK = re.compile(r"<br[^<>]{0,20}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_EXTERNAL = re.compile(r"\[(?:https?:)?//[^\s\[\]]{1,2000}(?:[ \t]{1,20}([^\[\]\n]{0,1000}))?\]")
_VARIANT = re.compile(r"-\{([^{}]{0,1000})\}-")
_VARIANT_FLAGS = re.compile(r"\s*([A-Za-z-]{0,10}(?:;[A-Za-z-]{1,10}){0,5})\s*\|")
_HIDDEN_FLAGS = frozenset("HTD-")  # hidden, title, described, removed: rules for the converter, not text
_QUOTES = re.compile(r"'{2,5}")
_MAGIC = re.compile(r"__[A-Z]{2,30}__")
_MARKERS = re.compile(r"[*#:;]+[ \t]*")
_RULE = re.compile(r"-{4,}")
_BLANK_LINES = re.compile(r"\n{3,}")
_HELD = "\x00"  # stands for a verbatim element until the end; NULs of the page itself are taken out first
_MAX_LEVEL = 6


class WikiText(Transform):
    """Turns wikitext into text, and leaves documents of other types alone. A redirect becomes empty."""

    name, version = "wikitext", "3"
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
    if _REDIRECT.match(wikitext):
        return ""
    text, held = _hold(wikitext.replace(_HELD, ""))
    text = _resolve(_VARIANT.sub(_one_variant, text))
    text = _EXTERNAL.sub(lambda match: match[1] or "", text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = _MAGIC.sub("", _QUOTES.sub("", html.unescape(text).replace("\xa0", " ")))
    text = "\n".join(_line(line) for line in text.split("\n"))
    text = _BLANK_LINES.sub("\n\n", text).strip()
    return _release(text, held)


def _hold(text: str) -> tuple[str, list[str]]:
    """Takes out comments and elements without text, and puts verbatim ones aside as NUL, number, NUL."""
    parts: list[str] = []
    held: list[str] = []
    unclosed: set[str] = set()
    at = 0
    lowered = text.lower() if len(text.lower()) == len(text) else text
    while (found := _ELEMENT.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        name = (found[1] or "").lower()
        close = f"</{name}" if name else "-->"
        # What was not closed behind one place is not closed behind any later one: each name is looked for in vain once.
        empty = found[0].endswith("/>")
        end = -1 if empty or close in unclosed else lowered.find(close, found.end())
        at = found.end()
        if end >= 0:
            if name in _VERBATIM:
                parts.append(f"{_HELD}{len(held)}{_HELD}")
                held.append(html.unescape(text[found.end() : end]))
            stop = text.find(">", end)
            at = stop + 1 if stop >= 0 else len(text)
        elif not empty:
            unclosed.add(close)
    parts.append(text[at:])
    return "".join(parts), held


def _release(text: str, held: list[str]) -> str:
    pieces = text.split(_HELD)
    return "".join(held[int(piece)] if i % 2 else piece for i, piece in enumerate(pieces))


def _resolve(text: str) -> str:
    """Replaces links, templates and tables by their words; what is left open stays as it is written."""
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
            frames[-1][1].append(_WRITTEN[opened]("".join(parts)))
        else:
            frames[-1][1].append(mark)
    frames[-1][1].append(text[at:])
    return "".join(opened + "".join(parts) for opened, parts in frames)


def _words(link: str) -> str:
    """What a reader sees of a link: its label, or the page's name."""
    target, bar, label = link.partition("|")
    target = target.strip()
    if target.lower().startswith(_NO_TEXT) or (not bar and _OTHER_LANGUAGE.match(target)):
        return ""
    # "[[:Category:X]]" leads to the category instead of filing the page.
    return label.rpartition("|")[2] if bar else target.removeprefix(":")


_WRITTEN = {"[[": _words, "{{": template, "{|": table}


def _one_variant(match: re.Match[str]) -> str:
    """One of the spellings of "-{zh-hans:计算机;zh-hant:電腦}-": the simplified one, else the first."""
    body = match[1]
    flags = _VARIANT_FLAGS.match(body)
    if flags:
        body = body[flags.end() :]
        if _HIDDEN_FLAGS & set(flags[1]):
            return ""
    spellings = [part.partition(":") for part in body.split(";") if part.strip()]
    if not any(colon and code.strip().startswith("zh") for code, colon, _ in spellings):
        return body
    named = {code.strip(): text.strip() for code, _, text in spellings}
    return next((named[code] for code in ("zh-hans", "zh-cn") if code in named), next(iter(named.values())))


def _line(line: str) -> str:
    """A line without markup at its start: list markers become "- ", headings get one # for each level."""
    line = line.rstrip()
    if line.startswith("="):
        level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), _MAX_LEVEL)
        title = line[level : len(line) - level].strip()
        return f"{'#' * level} {title}" if title and level else line
    if line.startswith("----"):
        return _RULE.sub("", line, count=1).strip()
    markers = _MARKERS.match(line)
    if markers is None:
        return line
    # ":" and ";" only indent; "*" and "#" make items.
    item = markers[0].rstrip()[-1] in "*#"
    return f"- {line[markers.end() :]}" if item else line[markers.end() :]
