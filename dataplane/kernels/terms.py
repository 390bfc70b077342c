"""Counts listed terms in texts, by category, in one pass over the UTF-8 bytes.

Terms of scripts with spaces count as whole words, Chinese and Japanese ones as runs of characters; of terms that start
together the longest counts, and none inside another. Case, width, accents and invisible characters make no difference. A term
that is found only through an evasion counts too, and is told apart:

- letters set apart by one separator each ("f u c k", "傻 逼", "傻*逼"); Chinese terms set apart by white space have to stand alone,
  since segmented text is written that way;
- digits and signs that stand for letters ("sh1t", "b!tch"), one `*` for a vowel ("f*ck"), and letters three or more times
  ("fuuuck"), in words of four letters or more, less than half of them changed.

The terms are a trie whose edges lie in one hash table; a text is walked from the start of each word and from each Chinese
character, so that it costs at most its length times that of the longest term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.term_walk import BEGINS, CODE, GAP, HAN, LETTER, MASK, NONE, PRIME, SKIP, count
from dataplane.kernels.unicode import CJK, I32, SOLID, SPACE, classes, fold_table, text_buffers

U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]

INNOCENT = -1  # category of terms that only hide those inside them
MAX_TERM_CHARS = 200
_GAPS, _MASKS = "-_", ".*_~+^·"
_LEET = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", "|": "i"}
_EVASIVE = 27  # class of ASCII characters that may stand inside a term in disguise


@dataclass(frozen=True)
class Terms:
    """Terms ready to be looked for.

    Attributes:
        table: int32 [0x110000], what each character is: folded code and flags.
        keys: uint64 [capacity], edges of the trie, node * 2^21 + character; 0 is none.
        children: int32 [capacity], where each leads.
        categories: int32 [nodes], of the term that ends there.
        heads: uint8 [32^3], whether a term, as it is or in disguise, can begin with three ASCII characters, by their classes.
        n_categories: Number of categories.
    """

    table: I32
    keys: U64
    children: I32
    categories: I32
    heads: U8
    n_categories: int


def index_terms(terms: Sequence[tuple[str, int]]) -> Terms:
    """Makes terms ready to be looked for.

    Args:
        terms: Terms and their categories: 0, 1, ..., or INNOCENT. A term in several counts for the last.
    """
    edges: dict[int, int] = {}
    categories = [NONE]
    table = _characters().copy()
    for term, category in terms:
        node = 0
        for code in _codes(term):
            child = edges.setdefault(node << 21 | code, len(categories))
            if child == len(categories):
                categories.append(NONE)
            node = child
        if node:
            categories[node] = category
    begins = np.array([key for key in edges if key >> 21 == 0], np.int32)
    table[np.isin(table & CODE, begins) & ((table & (LETTER | HAN)) != 0)] |= BEGINS
    keys, children = _hash_table(edges)
    n = max((category for _, category in terms), default=INNOCENT) + 1
    return Terms(table, keys, children, np.array(categories, np.int32), _heads(edges, categories), n)


@lru_cache
def _characters() -> I32:
    """What each character is, without the terms."""
    folds, kinds = fold_table(), classes()
    letter = folds > 0
    table = np.where(letter, folds, 0).astype(np.int32)
    kinds_of_fold = kinds[np.maximum(folds, 0)]
    han = letter & ((kinds_of_fold & CJK) != 0)
    table[han] |= HAN
    table[letter & ~han & ((kinds_of_fold & SOLID) != 0)] |= LETTER
    table[folds < 0] |= SKIP
    table[(folds == 0) & ((kinds & SPACE) != 0)] |= GAP
    for char in _GAPS:
        table[ord(char)] |= GAP
    for char in _MASKS:
        table[ord(char)] |= MASK
    return table


@lru_cache
def _leet() -> I32:
    table = np.zeros(128, np.int32)
    for sign, letter in _LEET.items():
        table[ord(sign)] = ord(letter)
    return table


def _codes(term: str) -> list[int]:
    """The folded characters of a term, 0 for what is between its words."""
    table, codes = _characters(), [0]
    for char in term[:MAX_TERM_CHARS]:
        info = int(table[ord(char)])
        if info & SKIP or (not info & CODE and codes[-1] == 0):
            continue
        codes.append(info & CODE)
    return codes[1:] if codes[-1] else codes[1:-1]


def _heads(edges: dict[int, int], categories: Sequence[int]) -> U8:
    """What turns most words away before they are walked."""
    heads = np.zeros((32, 32, 32), np.uint8)
    heads[_EVASIVE] = 1  # terms that begin with a digit are few
    for first in range(1, _EVASIVE):
        one = edges.get(first + 96, 0)
        if not one:
            continue
        heads[first, _EVASIVE] = 1
        heads[first, first, first] = 1
        heads[first] |= np.uint8(categories[one] != NONE)
        for second in range(1, _EVASIVE):
            two = edges.get(one << 21 | second + 96, 0)
            if not two:
                continue
            heads[first, second, [second, _EVASIVE]] = 1
            heads[first, second] |= np.uint8(categories[two] != NONE)
            for third in range(1, _EVASIVE):
                heads[first, second, third] |= np.uint8((two << 21 | third + 96) in edges)
    return heads.reshape(-1)


@lru_cache
def _ascii_classes() -> U8:
    """Class of each ASCII character: 1 to 26 for letters, _EVASIVE for what may stand inside a term in disguise, else 0."""
    table = np.zeros(128, np.uint8)
    for char in range(128):
        info = int(_characters()[char])
        letter = (info & CODE) - 96
        evasive = info & (GAP | MASK | LETTER) or chr(char) in _LEET
        table[char] = letter if 0 < letter < _EVASIVE else (_EVASIVE if evasive else 0)
    return table


def _hash_table(edges: dict[int, int]) -> tuple[U64, I32]:
    """Open addressing, a quarter full at most."""
    capacity = 1 << max(4, (4 * len(edges)).bit_length())
    keys, children = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32)
    for key, child in edges.items():
        slot = ((key * int(PRIME)) & 0xFFFFFFFFFFFFFFFF) >> 32 & (capacity - 1)
        while keys[slot]:
            slot = (slot + 1) & (capacity - 1)
        keys[slot], children[slot] = key, child
    return keys, children


def count_terms(text: pa.Array, terms: Terms) -> tuple[I32, I32, I32]:
    """How often each text holds terms.

    Args:
        text: string or large_string [n]; null reads as empty.
        terms: What to look for.

    Returns:
        int32 [n, categories] terms found; int32 [n] those of them that evaded; int32 [n] words, each Chinese character being one.
    """
    data, offsets = text_buffers(text)
    n = len(offsets) - 1
    hits, evasions, words = np.zeros((n, max(1, terms.n_categories)), np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)
    count(
        data,
        offsets,
        terms.table,
        terms.keys,
        terms.children,
        terms.categories,
        terms.heads,
        _ascii_classes(),
        _leet(),
        hits,
        evasions,
        words,
    )
    return hits, evasions, words
