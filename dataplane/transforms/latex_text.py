"""LaTeX to text: comments, preamble and layout go, sections become headings, lists items, and mathematics stays as it is written.

One scan over tokens with a stack of groups, so that time is linear in the text however deep hostile braces go. Macros that the document
defines without arguments are put in where they are used; those with arguments give the words of their arguments.

Source: Lamport, LaTeX: A Document Preparation System, 2nd ed., appendix C, for what the commands mean.
"""

from __future__ import annotations

import re

import pyarrow as pa

from dataplane.operator import Rewrite, Transform
from dataplane.transforms.latex_commands import ACCENTS, DROPPED_ARGUMENTS, HEADINGS, SYMBOLS, accented

LATEX_MIME = "text/x-tex"
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*(?:\n[ \t]*(?=\S))?")
_BODY = re.compile(r"\\begin\s*\{document\}")
_BODY_END = re.compile(r"\\end\s*\{document\}")
_TITLE = re.compile(r"\\title\s*(?:\[[^\]]{0,500}\])?\s*(?=\{)")
_ABBREVIATION = re.compile(
    r"\\(?:re)?newcommand\*?\s*\{?\s*(\\[A-Za-z]+)\s*\}?\s*\{([^{}\n]{0,200}(?:\{[^{}\n]{0,200}\}[^{}\n]{0,200}){0,5})\}"
    r"|\\def\s*(\\[A-Za-z]+)\s*\{([^{}\n]{0,200})\}"
)
# Content that no other rule may touch: mathematics with its marks, and code without.
_MATHS = ("equation", "align", "gather", "multline", "eqnarray", "math", "displaymath", "alignat", "flalign", "subequations")
_CODE = ("verbatim", "Verbatim", "lstlisting", "minted", "alltt")
_DROPPED = ("tikzpicture", "picture", "thebibliography", "filecontents", "comment", "pspicture")
_HELD = re.compile(
    rf"\\begin\s*\{{(?P<env>(?:{'|'.join(_MATHS + _CODE + _DROPPED)})\*?)\}}"
    r"|(?P<open>(?<!\\)\$\$?|\\\[|\\\()|\\(?:verb|lstinline)\*?(?P<mark>[^A-Za-z\s*{])"
)
_CLOSE = {"$": "$", "$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_TOKEN = re.compile(r"\\(?:([A-Za-z@]+)\*?[ \t]*|(.|\n))|([{}\[\]~&])|\n[ \t]*\n\s*", re.DOTALL)
_MARK = "\x00"  # stands for held content until the end; NULs of the document itself are taken out first
_SPACES = re.compile(r"[ \t]{2,}")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_QUOTES = (("``", "“"), ("''", "”"), ("---", "—"), ("--", "–"))
_MAX_MACROS = 500
_MAX_EXPANSION = 4  # times the document that abbreviations may make of it


class LatexText(Transform):
    """Turns LaTeX into text, and leaves documents of other types alone."""

    name, version = "latex_text", "1"
    reads = {"text": pa.large_string(), "mime": pa.string()}
    edits = ("latex",)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """The text of each document."""
        texts, edits = [], []
        for text, mime in zip(batch.column("text").to_pylist(), batch.column("mime").to_pylist(), strict=True):
            plain = plain_text(text) if mime == LATEX_MIME else text
            texts.append(plain)
            edits.append(int(plain != text))
        return Rewrite(pa.array(texts, pa.large_string()), {"latex": pa.array(edits, pa.int32())})


def plain_text(latex: str) -> str:
    """The words of a document."""
    text = latex.replace(_MARK, "").replace("\r\n", "\n")
    text, held = _hold(_uncommented(text))
    preamble, body = _parts(text)
    body = _abbreviations_put_in(body, preamble + body)
    words = _Words().of(body)
    for plain, typeset in _QUOTES:
        words = words.replace(plain, typeset)
    words = _SPACES.sub(" ", "\n".join(line.strip() for line in words.split("\n")))
    pieces = _BLANK_LINES.sub("\n\n", words).strip().split(_MARK)
    return "".join(held[int(piece)] if i % 2 else piece for i, piece in enumerate(pieces))


def _uncommented(text: str) -> str:
    """Without comments; in code a percent sign is none."""
    parts: list[str] = []
    unclosed: set[str] = set()
    at = 0
    for match in re.finditer(rf"\\begin\s*\{{({'|'.join(_CODE)})\*?\}}", text):
        if match.start() < at or match[1] in unclosed:
            continue
        end = text.find(f"\\end{{{match[1]}", match.end())
        if end < 0:
            unclosed.add(match[1])
        else:
            parts += [_COMMENT.sub(r"\1", text[at : match.start()]), text[match.start() : end]]
            at = end
    return "".join(parts) + _COMMENT.sub(r"\1", text[at:])


def _hold(text: str) -> tuple[str, list[str]]:
    """Puts mathematics and code aside as NUL, number, NUL, and takes out pictures and bibliographies."""
    parts: list[str] = []
    held: list[str] = []
    unclosed: set[str] = set()
    at = 0
    while (found := _HELD.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        close = f"\\end{{{found['env']}}}" if found["env"] else found["mark"] or _CLOSE[found["open"]]
        # What is not closed behind one place is not closed behind any later one.
        end = -1 if close in unclosed else _closing(text, close, found.end())
        if end < 0:
            unclosed.add(close)
            parts.append(found[0] if found["env"] else "")
            at = found.end()
            continue
        at = end + len(close)
        if not (found["env"] or "").startswith(_DROPPED):
            mark = f"{_MARK}{len(held)}{_MARK}"
            block = found["env"] or found["open"] in ("$$", "\\[")
            parts.append(f"\n\n{mark}\n\n" if block else mark)
            held.append(_kept(text[found.start() : at], text[found.end() : end], found))
    return "".join([*parts, text[at:]]), held


def _closing(text: str, close: str, at: int) -> int:
    """Place of the closing mark; a dollar behind a backslash is a sign of money."""
    end = text.find(close, at)
    while close.startswith("$") and end > 0 and text[end - 1] == "\\":
        end = text.find(close, end + 1)
    return end


def _kept(whole: str, inner: str, found: re.Match[str]) -> str:
    if (found["env"] or "").startswith(_CODE):
        return re.sub(r"\A(?:\[[^\]\n]{0,300}\]|\{[^}\n]{0,100}\})*", "", inner).strip("\n")
    return inner if found["mark"] else whole


def _parts(text: str) -> tuple[str, str]:
    """Preamble, and title and body; a file without \\begin{document} is all body."""
    start = _BODY.search(text)
    if start is None:
        return "", text
    stop = _BODY_END.search(text, start.end())
    body = text[start.end() : stop.start() if stop else len(text)]
    title = _TITLE.search(text[: start.start()])
    # The title is written where \maketitle stands, most often at once.
    return text[: start.start()], ("\\title" + _group(text, title.end()) + "\n\n" if title else "") + body


def _group(text: str, at: int) -> str:
    """The group in braces that begins at a place."""
    depth = 0
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, at):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[at : match.end()]
    return ""


def _abbreviations_put_in(body: str, definitions: str) -> str:
    """The body with each macro that takes no argument replaced by what it stands for."""
    macros: dict[str, str] = {}
    for match in _ABBREVIATION.finditer(definitions):
        if len(macros) < _MAX_MACROS:
            macros[match[1] or match[3]] = (match[2] or match[4] or "").replace("\\xspace", "")
    body = _ABBREVIATION.sub("", body)
    if not macros:
        return body
    names = re.compile(rf"({'|'.join(sorted(map(re.escape, macros), key=len, reverse=True))})(?![A-Za-z])(?:\{{\}})?")
    put_in = names.sub(lambda match: macros[match[1]], body)
    return put_in if len(put_in) <= _MAX_EXPANSION * len(body) + 1000 else body


class _Words:
    """What a reader sees of the commands and groups of a text."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._groups: list[str] = []  # what ends each open brace: text to write, or _DROP
        self._dropping = 0
        self._next: list[str] = []  # how to take the groups that follow the last command

    def of(self, text: str) -> str:
        """The words of a text without comments and mathematics."""
        at = 0
        for match in _TOKEN.finditer(text):
            if match.start() < at:
                continue
            self._write(text[at : match.start()])
            at = match.end()
            if match[1]:
                at = self._command(match[1], text, at)
            elif match[2]:
                at = self._symbol(match[2], text, at)
            elif match[3]:
                self._punctuation(match[3])
            else:
                self._write("\n\n")
        self._write(text[at:])
        return "".join(self._out)

    def _write(self, text: str) -> None:
        if text.strip():
            self._next = []
        if not self._dropping:
            self._out.append(text)

    def _punctuation(self, sign: str) -> None:
        if sign == "{":
            ending = self._next.pop(0) if self._next else ""
            self._groups.append(ending)
            self._dropping += ending == "drop"
        elif sign == "}":
            ending = self._groups.pop() if self._groups else ""
            self._dropping -= ending == "drop"
            following = self._next
            self._write("" if ending == "drop" else ending)
            self._next = following
        else:
            self._write({"~": " ", "&": " | "}.get(sign, sign))

    def _symbol(self, sign: str, text: str, at: int) -> int:
        if sign in ACCENTS:
            letter = re.compile(r"\s*(?:\{\s*\\?([A-Za-z])\s*\}|\\?([A-Za-z]))").match(text, at)
            if letter:
                self._write(accented(sign, letter[1] or letter[2]))
                return letter.end()
        if sign == "\\":
            at = _past_option(text, at)
        self._write({"\\": "\n", ",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "-": "", "/": "", "!": "", "@": ""}.get(sign, sign))
        return at

    def _command(self, name: str, text: str, at: int) -> int:
        if name in ACCENTS:
            return self._symbol(name, text, at)
        if name in ("begin", "end"):
            return self._environment(name, text, at)
        if name in SYMBOLS:
            self._write(SYMBOLS[name])
            return at + 2 if text.startswith("{}", at) else at
        at = _past_option(text, at)
        if name in HEADINGS:
            self._write(f"\n\n{'#' * HEADINGS[name]} ")
            self._next = ["\n\n"]
        elif name == "item":
            self._write("\n- ")
        elif name in ("footnote", "footnotetext"):
            self._write(" (")
            self._next = [")"]
        elif name in ("par", "newline", "maketitle", "caption"):
            self._write("\n\n")
        elif name in DROPPED_ARGUMENTS:
            self._next = ["drop"] * DROPPED_ARGUMENTS[name]
        return at

    def _environment(self, name: str, text: str, at: int) -> int:
        group = re.compile(r"\s*\{([^{}]{0,100})\}").match(text, at)
        if group is None:
            return at
        at = _past_option(text, group.end())
        self._write("\n\n")
        if name == "begin" and group[1].rstrip("*") in ("tabular", "tabularx", "longtable", "array", "minipage", "multicols", "wrapfigure"):
            self._next = ["drop", "drop"] if group[1].startswith(("tabularx", "wrapfigure")) else ["drop"]
        return at


_OPTION = re.compile(r"[ \t]*\[[^\[\]]{0,500}\]")


def _past_option(text: str, at: int) -> int:
    """Behind an argument in square brackets, where there is one."""
    found = _OPTION.match(text, at)
    return found.end() if found else at
