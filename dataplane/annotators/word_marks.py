"""Where words begin, as tokenizers outside say: spaCy's, and a dictionary of Chinese words."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane.errors import EnvironmentFault
from dataplane.kernels.unicode import CJK, U8, classes, text_buffers

# Words of a text as (first character, word).
Cutter = Callable[[str], Iterable[tuple[int, str]]]


def marks(text: pa.Array, words: Cutter) -> U8:
    """Marks where words begin.

    Args:
        text: large_string or string [n]; null reads as empty.
        words: Gives the words of a text; those of white space alone are left out.

    Returns:
        uint8, for each byte of the array's buffer; 1 at the first byte of a word
    """
    data, offsets = text_buffers(text)
    found = np.zeros(len(data), np.uint8)
    for i in range(len(offsets) - 1):
        octets = data[offsets[i] : offsets[i + 1]]
        starts = [start for start, word in words(octets.tobytes().decode("utf-8", "replace")) if not word.isspace()]
        places = np.flatnonzero((octets & 0xC0) != 0x80)  # of the characters
        found[offsets[i] + places[np.array(starts, np.int64)]] = 1
    return found


def spacy_words(lang: str) -> Cutter:
    """The words of spaCy's blank pipeline for a language, as datatrove counts them.

    Raises:
        EnvironmentFault: spaCy is not installed, or knows no such language.
    """
    try:
        tokenizer = importlib.import_module("spacy").blank(lang).tokenizer
    except ImportError as error:
        fix = "pip install 'spacy>=3.8,<3.9', with what the language needs, or set words: reference"
        raise EnvironmentFault(f"words of {lang!r} cannot be told: {error}", where="text_signals.words: exact", fix=fix) from None

    def words(text: str) -> Iterator[tuple[int, str]]:
        with tokenizer.vocab.memory_zone():
            yield from [(token.idx, token.text) for token in tokenizer(text)]

    return words


def chinese_words() -> Cutter:
    """The words of runs of Chinese characters by jieba's dictionary; a run of Japanese is cut by the same.

    Raises:
        EnvironmentFault: The package is not installed.
    """
    try:
        jieba: Any = importlib.import_module("rjieba")
    except ImportError:
        fix = "pip install 'terraplane[segmentation]', or set cjk: character"
        raise EnvironmentFault("rjieba is not installed", where="text_signals.cjk: segment", fix=fix) from None
    table = classes()

    def words(text: str) -> Iterator[tuple[int, str]]:
        start = 0
        while start < len(text):
            wide = bool(table[ord(text[start])] & CJK)
            stop = start + 1
            while stop < len(text) and bool(table[ord(text[stop])] & CJK) == wide:
                stop += 1
            for word in jieba.cut(text[start:stop]) if wide else ():
                yield start, word
                start += len(word)
            start = stop

    return words
