"""What the commands of LaTeX stand for in plain text."""

from __future__ import annotations

import unicodedata

# Levels as the heading of a Markdown document; \chapter and \section are told apart only where both occur.
HEADINGS = {
    "title": 1, "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
}  # fmt: skip
SYMBOLS = {
    "ldots": "…", "dots": "…", "textellipsis": "…", "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^",
    "textbar": "|", "textless": "<", "textgreater": ">", "textdollar": "$", "textunderscore": "_", "textquotedblleft": "“",
    "textquotedblright": "”", "textquoteleft": "‘", "textquoteright": "’", "textemdash": "—", "textendash": "–", "textdegree": "°",
    "textregistered": "®", "texttrademark": "™", "copyright": "©", "pounds": "£", "euro": "€", "S": "§", "P": "¶", "dag": "†",
    "ddag": "‡", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł",
    "i": "ı", "j": "ȷ", "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX", "quad": " ", "qquad": " ", "enspace": " ", "thinspace": " ",
}  # fmt: skip
# Command -> how many of the groups behind it are no text.
DROPPED_ARGUMENTS = {
    "cite": 1, "citep": 1, "citet": 1, "citealp": 1, "citeauthor": 1, "citeyear": 1, "autocite": 1, "parencite": 1, "textcite": 1,
    "nocite": 1, "ref": 1, "eqref": 1, "autoref": 1, "cref": 1, "Cref": 1, "pageref": 1, "label": 1, "index": 1, "glossary": 1,
    "input": 1, "include": 1, "includegraphics": 1, "bibliography": 1, "bibliographystyle": 1, "usepackage": 1, "documentclass": 1,
    "vspace": 1, "hspace": 1, "setlength": 2, "addtolength": 2, "setcounter": 2, "addtocounter": 2, "pagestyle": 1, "thispagestyle": 1,
    "color": 1, "textcolor": 1, "colorbox": 1, "href": 1, "hypertarget": 1, "hyperlink": 1, "newcommand": 2, "renewcommand": 2,
    "providecommand": 2, "newenvironment": 3, "newtheorem": 2, "DeclareMathOperator": 2, "definecolor": 3, "graphicspath": 1,
    "hypersetup": 1, "geometry": 1, "markboth": 2, "markright": 1, "fontsize": 2, "rule": 2, "multicolumn": 2, "multirow": 2, "cline": 1,
    "cmidrule": 1, "addcontentsline": 3, "phantom": 1, "vphantom": 1, "hphantom": 1, "raisebox": 1, "resizebox": 2, "scalebox": 1,
    "parbox": 1, "makebox": 0, "thanks": 1, "date": 1, "lstset": 1, "bibitem": 1, "write": 1, "hyphenation": 1, "theoremstyle": 1,
}  # fmt: skip
# Accent commands -> combining character.
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307", "c": "\u0327", "v": "\u030c",
    "u": "\u0306", "H": "\u030b", "r": "\u030a", "k": "\u0328", "d": "\u0323", "b": "\u0331",
}  # fmt: skip


def accented(accent: str, letter: str) -> str:
    """A letter under its accent, as one character where there is one."""
    return unicodedata.normalize("NFC", letter + ACCENTS[accent])
