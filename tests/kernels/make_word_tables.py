"""Writes dataplane/kernels/data/words_en.json: what the tokenizer of spaCy's blank English pipeline and the filters of datatrove know.

    PEERS_PYTHON tests/kernels/make_word_tables.py

PEERS_PYTHON is an interpreter that has both (`make bench-setup`). The file holds facts alone: which characters are in which class, and
where each exception is cut.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "dataplane" / "kernels" / "data" / "words_en.json"


def ranges(codes: Iterable[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for code in sorted(set(codes)):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def matching(character_class: str) -> list[list[int]]:
    """Code points that a class of regular expressions holds."""
    matches = re.compile(f"[{character_class}]").match
    return ranges(code for code in range(sys.maxunicode + 1) if matches(chr(code)))


def singles(pieces: Iterable[str]) -> list[str]:
    """The characters among literal alternatives."""
    plain = (piece.removeprefix("\\") for piece in pieces)
    return [piece for piece in plain if len(piece) == 1]


def spacy_tables() -> dict[str, Any]:
    import spacy
    from spacy.lang import char_classes as c
    from spacy.pipeline import Sentencizer

    nlp = spacy.blank("en")
    bare = spacy.blank("en").tokenizer
    bare.rules = {}

    def lengths(tokens: Iterable[str]) -> list[int]:
        return [len(token) for token in tokens]

    exceptions = {}
    for orth, parts in nlp.tokenizer.rules.items():
        cut = lengths(part[65] if 65 in part else next(iter(part.values())) for part in map(dict, parts))
        tokenizer = nlp.tokenizer
        touched = tokenizer.find_prefix(orth) or tokenizer.find_infix(orth) or tokenizer.find_suffix(orth)
        exceptions[orth] = [cut, lengths(token.text for token in bare(orth)) if touched else []]
    punct, quotes, currency = (singles(part) for part in (c.LIST_PUNCT, c.LIST_QUOTES, c.LIST_CURRENCY))
    icons = matching(c.ICONS)
    return {
        "alpha": matching(c.ALPHA),
        "lower": matching(c.ALPHA_LOWER),
        "upper": matching(c.ALPHA_UPPER),
        "quote": matching(c.CONCAT_QUOTES),
        "icon": icons,
        "prefix": ranges([ord(x) for x in ["§", "%", "=", "—", "–", "…", *punct, *quotes, *currency]]),
        "suffix": ranges([ord(x) for x in ["—", "–", "…", *punct, *quotes]]),
        "before_stop": matching(rf"0-9{c.ALPHA_LOWER}%²\-\+{c.PUNCT}(?:{c.CONCAT_QUOTES})"),
        "sentence_end": ranges(map(ord, Sentencizer.default_punct_chars)),
        "currencies": [x.replace("\\", "") for x in c.LIST_CURRENCY],
        "units": list(c.LIST_UNITS),
        "exceptions": dict(sorted(exceptions.items())),
    }  # fmt: skip


def datatrove_tables() -> dict[str, Any]:
    from datatrove.utils.text import PUNCTUATION_SET, TERMINAL_PUNCTUATION

    return {"symbol": ranges(map(ord, PUNCTUATION_SET)), "line_end": ranges(map(ord, TERMINAL_PUNCTUATION))}


def main() -> None:
    tables = {"source": f"spaCy {version('spacy')}, datatrove {version('datatrove')}", **spacy_tables(), **datatrove_tables()}
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}" for key, value in tables.items())
    TARGET.write_text("{\n" + rows + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
