"""Share of offensive terms, by word lists and Aho-Corasick: a signal, not a verdict.

Terms of alphabetic scripts count as whole words, Chinese and Japanese ones as runs of characters. Text is folded in case and
width first, so that full-width spelling hides nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field

from dataplane.errors import ParamsError
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

PACKAGED = ("toxic_en.txt", "toxic_zh.txt")
# Full-width letters and digits lie 0xFEE0 above their twins; the ideographic space is a space.
_WIDE = re.compile("[\u3000\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code).isalnum()} | {0x3000: 0x20}
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# Innocent words that hold a listed run of characters: "his mother", "gymnastics" before "you", clinical terms, a novel, a bank.
INNOCENT = (
    *("他妈妈", "她妈妈", "体操你", "情操你", "破鞋子", "放屁虫", "阿三哥", "人渣打"),
    *("智障人士", "智障儿童", "智障者", "弱智儿童", "《白痴》"),
)


class Toxicity(Filter):
    """Counts offensive terms."""

    name, version = "toxicity", "2"
    reads = {"text": pa.large_string()}
    writes = {"n_hits": pa.int32(), "share": pa.float32()}

    class Params(BaseParams):
        """Params of the word lists."""

        lists: tuple[str, ...] = Field((), description="Files of terms, one a line, used instead of the packaged lists.")
        max_share: float = Field(0.02, ge=0, le=1, description="Highest share of offensive terms among words (Chinese: characters) kept.")
        min_hits: int = Field(2, ge=1, description="Documents with fewer terms are kept whatever their share.")

    def files(self) -> list[Path]:
        """The lists.

        Raises:
            ParamsError: One of them is no file.
        """
        own = [Path(path).expanduser() for path in self.params.lists]
        missing = [str(path) for path in own if not path.is_file()]
        if missing:
            raise ParamsError(f"no such word list: {', '.join(missing)}", where="toxicity.lists", fix="name UTF-8 files, one term a line")
        if own:
            return own
        folder = files("dataplane.annotators").joinpath("data")
        return [Path(str(folder.joinpath(name))) for name in PACKAGED]

    def open(self) -> None:
        """Builds the automaton."""
        import ahocorasick_rs

        terms = sorted({fold(term) for path in self.files() for term in read_terms(path)})
        self._innocent_from = len(terms)
        self._automaton: Any = ahocorasick_rs.AhoCorasick(
            [*terms, *INNOCENT], matchkind=ahocorasick_rs.MatchKind.Standard, implementation=ahocorasick_rs.Implementation.DFA
        )

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Hits and their share of the words."""
        hits, shares = [], []
        for text in batch.column("text").to_pylist():
            folded = fold(text)
            n = self._hits(folded)
            hits.append(n)
            words = sum(1 for _ in _WORD.finditer(folded)) if n else 1
            shares.append(min(1.0, n / max(1, words)))
        return {"n_hits": pa.array(hits, pa.int32()), "share": pa.array(shares, pa.float32())}

    def _hits(self, text: str) -> int:
        """Terms in a folded text, none counted inside another or inside an innocent word."""
        spans = [
            (start, -stop, term < self._innocent_from)
            for term, start, stop in self._automaton.find_matches_as_indexes(text, overlapping=True)
            if term >= self._innocent_from or _stands_alone(text, start, stop)
        ]
        n = reached = 0
        for start, minus_stop, offensive in sorted(spans):  # leftmost first, the longest of those that start together
            if start >= reached:
                n, reached = n + offensive, -minus_stop
        return n

    def rules(self) -> Mapping[str, str]:
        """too_toxic."""
        return {"too_toxic": f"toxicity.n_hits >= {self.params.min_hits} AND toxicity.share > {self.params.max_share!r}"}


def fold(text: str) -> str:
    """Lower case and half width; one character stays one character in all but a few scripts."""
    return (text.translate(_NARROW) if not text.isascii() and _WIDE.search(text) else text).lower()


def read_terms(path: Path) -> list[str]:
    """The terms of a list file; empty lines and lines that start with # are none.

    Raises:
        ParamsError: The file is missing, is not UTF-8, or holds no term.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"word list {path} cannot be read: {error}"
        raise ParamsError(message, where="toxicity.lists", fix="name a UTF-8 file, one term a line") from None
    terms = [unicodedata.normalize("NFC", line.strip()) for line in lines if line.strip() and not line.startswith("#")]
    if not terms:
        raise ParamsError(f"word list {path} holds no term", where="toxicity.lists", fix="write one term a line")
    return terms


def _stands_alone(text: str, start: int, stop: int) -> bool:
    """Whether a term is a word of its own; Chinese and Japanese terms need no borders."""
    if _CJK.match(text[start]):
        return True
    return not (start and text[start - 1].isalnum() and not _CJK.match(text[start - 1])) and not (
        stop < len(text) and text[stop].isalnum() and not _CJK.match(text[stop])
    )
