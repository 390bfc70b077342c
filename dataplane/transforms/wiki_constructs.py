"""What a reader sees of a template or a table of wikitext.

Source: https://www.mediawiki.org/wiki/Help:Templates and Help:Tables; the templates named here are those of English and Chinese wikis
whose arguments are words of the sentence around them.
"""

from __future__ import annotations

import re

# Template -> which of its unnamed arguments are text; -1 is the last.
TEXT_ARGUMENT = {
    "lang": -1, "lang-en": 1, "transl": -1, "transliteration": -1, "nowrap": 1, "nobr": 1, "small": 1, "big": 1, "smaller": 1, "larger": 1,
    "em": 1, "strong": 1, "abbr": 1, "tooltip": 1, "quote": 1, "blockquote": 1, "cquote": 1, "quotation": 1, "center": 1, "sub": 1,
    "sup": 1, "math": 1, "mvar": 1, "var": 1, "code": 1, "tq": 1, "underline": 1, "ill": 1, "interlanguage link": 1, "link-en": 1, "le": 1,
    "tsl": -1,
    "le2": 1, "internal link helper": 1, "nihongo": 1, "visible anchor": 1, "vanchor": 1, "noitalic": 1, "zhwp": 1,
}  # fmt: skip
SIGNS = {
    "mdash": "—",
    "ndash": "–",
    "snd": " – ",
    "spnd": " – ",
    "dash": "–",
    "!": "|",
    "=": "=",
    "'": "'",
    "nbsp": " ",
    "·": "·",
    "•": "•",
}
_NAMED = re.compile(r"\s*[\w -]{1,40}=")
_ATTRIBUTES = re.compile(r"\s*(?:[\w-]{1,40}\s*=\s*(?:\"[^\"|]{0,500}\"|'[^'|]{0,500}'|[^\s\"'|]{1,200})(?:\s+|(?=\|)))+\|(?!\|)")
_CELLS = re.compile(r"\|\||!!")


def template(body: str) -> str:
    """The words of a template; of one that is not known to hold any, none.

    Args:
        body: What stands between the braces, with inner constructs resolved.
    """
    name, *arguments = body.split("|")
    name = name.strip().lower().replace("_", " ")
    if name in SIGNS:
        return SIGNS[name]
    if name in ("convert", "cvt"):
        return " ".join(argument.strip() for argument in arguments[:2])
    unnamed = [argument.strip() for argument in arguments if not _NAMED.match(argument)]
    at = TEXT_ARGUMENT.get(name, 0)
    if at == 0 or not unnamed:
        return ""
    return unnamed[-1] if at < 0 else unnamed[min(at, len(unnamed)) - 1]


def table(body: str) -> str:
    """The caption and the rows of a table, one a line, with bars between cells.

    Args:
        body: What stands between the marks, with inner constructs resolved.
    """
    rows: list[list[str]] = [[]]
    for line in body.split("\n")[1:]:
        line = line.strip()
        if line.startswith("|-"):
            rows.append([])
        elif line.startswith("|+"):
            rows.append([_cell(line[2:])])
            rows.append([])
        elif line.startswith(("|", "!")):
            rows[-1] += [_cell(cell) for cell in (_CELLS.split(line[1:]) if line[0] == "!" else line[1:].split("||"))]
        elif line and rows[-1]:
            rows[-1][-1] = f"{rows[-1][-1]} {line}".strip()
    lines = [" | ".join(row) for row in rows if any(row)]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _cell(text: str) -> str:
    attributes = _ATTRIBUTES.match(text)
    return text[attributes.end() if attributes else 0 :].strip()
