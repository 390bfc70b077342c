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

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.unicode import BOUNDS, CJK, FOLDS, I32, OCTETS, SOLID, SPACE, classes, decode, fold_table, text_buffers

U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]

INNOCENT = -1  # category of terms that only hide those inside them
MAX_TERM_CHARS = 200

# Flags above the 21 bits of the folded character.
_CODE = (1 << 21) - 1
_LETTER = 1 << 21  # letter or digit of a script with spaces
_HAN = 1 << 22  # Chinese or Japanese: a word of its own
_SKIP = 1 << 23  # invisible
_GAP = 1 << 24  # what stands between the words of a term
_MASK = 1 << 25  # what is put between the letters of a term to hide it
_BEGINS = 1 << 26  # some term begins with it

_GAPS, _MASKS = "-_", ".*_~+^·"
_LEET = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", "|": "i"}
_VOWELS = np.array([ord(vowel) for vowel in "aeiou"], np.int32)
_STAR = ord("*")
_MIN_EVADING = 4  # letters of a term of a script with spaces
_REPEATS = 3
_EVASIVE = 27  # class of ASCII characters that may stand inside a term in disguise

_NONE = -2  # category of a node that no term ends at
_PRIME = np.uint64(0x9E3779B185EBCA87)
_KEYS = nb.types.Array(nb.uint64, 1, "C", readonly=True)
_FOUND = nb.types.UniTuple(nb.int64, 2)


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
    categories = [_NONE]
    table = _characters().copy()
    for term, category in terms:
        node = 0
        for code in _codes(term):
            child = edges.setdefault(node << 21 | code, len(categories))
            if child == len(categories):
                categories.append(_NONE)
            node = child
        if node:
            categories[node] = category
    begins = np.array([key for key in edges if key >> 21 == 0], np.int32)
    table[np.isin(table & _CODE, begins) & ((table & (_LETTER | _HAN)) != 0)] |= _BEGINS
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
    table[han] |= _HAN
    table[letter & ~han & ((kinds_of_fold & SOLID) != 0)] |= _LETTER
    table[folds < 0] |= _SKIP
    table[(folds == 0) & ((kinds & SPACE) != 0)] |= _GAP
    for char in _GAPS:
        table[ord(char)] |= _GAP
    for char in _MASKS:
        table[ord(char)] |= _MASK
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
        if info & _SKIP or (not info & _CODE and codes[-1] == 0):
            continue
        codes.append(info & _CODE)
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
        heads[first] |= np.uint8(categories[one] != _NONE)
        for second in range(1, _EVASIVE):
            two = edges.get(one << 21 | second + 96, 0)
            if not two:
                continue
            heads[first, second, [second, _EVASIVE]] = 1
            heads[first, second] |= np.uint8(categories[two] != _NONE)
            for third in range(1, _EVASIVE):
                heads[first, second, third] |= np.uint8((two << 21 | third + 96) in edges)
    return heads.reshape(-1)


@lru_cache
def _ascii_classes() -> U8:
    """Class of each ASCII character: 1 to 26 for letters, _EVASIVE for what may stand inside a term in disguise, else 0."""
    table = np.zeros(128, np.uint8)
    for char in range(128):
        info = int(_characters()[char])
        letter = (info & _CODE) - 96
        evasive = info & (_GAP | _MASK | _LETTER) or chr(char) in _LEET
        table[char] = letter if 0 < letter < _EVASIVE else (_EVASIVE if evasive else 0)
    return table


def _hash_table(edges: dict[int, int]) -> tuple[U64, I32]:
    """Open addressing, a quarter full at most."""
    capacity = 1 << max(4, (4 * len(edges)).bit_length())
    keys, children = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32)
    for key, child in edges.items():
        slot = ((key * int(_PRIME)) & 0xFFFFFFFFFFFFFFFF) >> 32 & (capacity - 1)
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
    _count(
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


@nb.njit(nb.int64(_KEYS, FOLDS, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _child(keys, children, node, code):  # type: ignore[no-untyped-def]
    """The node behind an edge, 0 where there is none."""
    key = np.uint64(node << 21 | code)
    mask = len(keys) - 1
    slot = nb.int64((key * _PRIME) >> np.uint64(32)) & mask
    while keys[slot] != 0:
        if keys[slot] == key:
            return nb.int64(children[slot])
        slot = (slot + 1) & mask
    return nb.int64(0)


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, FOLDS, nb.int64), cache=True, nogil=True)
def _followed(data, at, stop, table, flags):  # type: ignore[no-untyped-def]
    """Whether the next visible character is one of those."""
    while at < stop:
        code, at = decode(data, at, stop)
        info = table[code]
        if not info & _SKIP:
            return info & flags != 0
    return False


@nb.njit(
    nb.types.UniTuple(nb.int64, 3)(OCTETS, nb.int64, nb.int64, FOLDS, _KEYS, FOLDS, FOLDS), cache=True, nogil=True
)  # fmt: skip
def _plain(data, at, stop, table, keys, children, categories):  # type: ignore[no-untyped-def]
    """The longest term that starts at `at`.

    Returns:
        Its category (or no category) and where it ends; and whether the walk broke off where an evasion might go on.
    """
    node, category, end = nb.int64(0), nb.int64(_NONE), at
    last, broken = nb.int64(0), nb.int64(0)
    gap = False
    while at < stop:
        code, after = decode(data, at, stop)
        info = table[code]
        if info & _SKIP:
            at = after
            continue
        if info & _GAP:
            if not gap:
                child = _child(keys, children, node, 0)
                if child == 0:
                    broken = nb.int64(1)
                    break
                node, gap = child, True
            at = after
            continue
        token = nb.int64(info & _CODE)
        child = _child(keys, children, node, token) if token else nb.int64(0)
        if child == 0:
            broken = nb.int64(token == last or info & _MASK != 0 or (code < 128 and not 97 <= code | 32 <= 122))
            break
        node, last, at, gap = child, token, after, False
        if categories[node] != _NONE and not (info & _LETTER and _followed(data, at, stop, table, _LETTER)):
            category, end = nb.int64(categories[node]), at
    return category, end, broken


@nb.njit(_FOUND(OCTETS, nb.int64, nb.int64, nb.boolean, FOLDS, _KEYS, FOLDS, FOLDS), cache=True, nogil=True)
def _spaced(data, at, stop, alone, table, keys, children, categories):  # type: ignore[no-untyped-def]
    """The longest term at `at` whose letters are all set apart by the same sign; `alone`: no letter stands before it."""
    node, category, end = nb.int64(0), nb.int64(_NONE), at
    sign, length = nb.int64(0), 0
    while at < stop:
        code, at = decode(data, at, stop)
        info = table[code]
        node = _child(keys, children, node, nb.int64(info & _CODE)) if info & (_LETTER | _HAN) else nb.int64(0)
        if node == 0:
            break
        length += 1
        if categories[node] >= 0 and length > 1:
            if info & _LETTER:
                fits = alone and length >= _MIN_EVADING and not _followed(data, at, stop, table, _LETTER)
            else:
                fits = table[sign] & _MASK != 0 or (alone and not _followed(data, at, stop, table, _LETTER | _HAN))
            if fits:
                category, end = nb.int64(categories[node]), at
        if at >= stop:
            break
        code, at = decode(data, at, stop)
        if not table[code] & (_GAP | _MASK) or (length > 1 and code != sign):
            break
        sign = code
    return category, end


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, FOLDS, nb.int64), cache=True, nogil=True)
def _next_is(data, at, stop, table, token):  # type: ignore[no-untyped-def]
    """Whether the next character is that one."""
    return at < stop and nb.int64(table[decode(data, at, stop)[0]] & _CODE) == token


@nb.njit(
    nb.types.UniTuple(nb.int64, 3)(OCTETS, nb.int64, nb.int64, nb.int64, FOLDS, _KEYS, FOLDS, FOLDS, FOLDS), cache=True, nogil=True
)  # fmt: skip
def _disguised(data, at, stop, vowel, table, keys, children, categories, leet):  # type: ignore[no-untyped-def]
    """The word at `at` if it is a term in disguise; the first `*` is read as `vowel`.

    Returns:
        Its category (or no category), where it ends, and whether a `*` stood in the way.
    """
    node, last, run = nb.int64(0), nb.int64(0), 0
    length = changed = 0
    starred = False
    while at < stop:
        code, after = decode(data, at, stop)
        info = table[code]
        if info & _SKIP:
            at = after
            continue
        token = nb.int64(info & _CODE)
        child = _child(keys, children, node, token) if token else nb.int64(0)
        run = run + 1 if token and token == last else 1
        if child == 0 and code < 128 and node:
            if leet[code]:
                token = nb.int64(leet[code])
            elif code == _STAR:
                if starred or vowel == 0:
                    return nb.int64(_NONE), at, nb.int64(not starred)
                token, starred = vowel, True
            child = _child(keys, children, node, token) if token else nb.int64(0)
            changed += child != 0
        if child:
            node, last = child, token
            length += 1
        elif token and token == last:
            if run >= _REPEATS or _next_is(data, after, stop, table, token):
                changed += run == _REPEATS
            else:
                break
        else:
            break
        at = after
    fits = node and categories[node] >= 0 and not _followed(data, at, stop, table, _LETTER)
    if fits and changed > 0 and 2 * changed <= length and length >= _MIN_EVADING:
        return nb.int64(categories[node]), at, nb.int64(0)
    return nb.int64(_NONE), at, nb.int64(0)


@nb.njit(_FOUND(OCTETS, nb.int64, nb.int64, nb.boolean, nb.int64, FOLDS, _KEYS, FOLDS, FOLDS, FOLDS), cache=True, nogil=True)
def _evading(data, at, stop, alone, info, table, keys, children, categories, leet):  # type: ignore[no-untyped-def]
    """The term that starts at `at` under some evasion: its category (or no category), and where it ends."""
    category, end = _spaced(data, at, stop, alone, table, keys, children, categories)
    if category != _NONE or info & _HAN:
        return category, end
    category, end, starred = _disguised(data, at, stop, 0, table, keys, children, categories, leet)
    if starred:
        for vowel in _VOWELS:
            category, end, _ = _disguised(data, at, stop, nb.int64(vowel), table, keys, children, categories, leet)
            if category != _NONE:
                break
    return category, end


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, OCTETS, OCTETS), inline="always", cache=True, nogil=True)
def _may_begin(data, at, stop, heads, ascii_classes):  # type: ignore[no-untyped-def]
    if at + 2 >= stop or (data[at] | data[at + 1] | data[at + 2]) & 0x80:
        return True
    head = 0
    for i in range(3):
        head = head << 5 | nb.int64(ascii_classes[data[at + i]])
    return heads[head] != 0


@nb.njit(
    nb.void(OCTETS, BOUNDS, FOLDS, _KEYS, FOLDS, FOLDS, OCTETS, OCTETS, FOLDS, nb.int32[:, ::1], nb.int32[::1], nb.int32[::1]),
    cache=True, nogil=True,
)  # fmt: skip
def _count(data, offsets, table, keys, children, categories, heads, ascii_classes, leet, hits, evasions, words):  # type: ignore[no-untyped-def]
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        reached = at
        before = nb.int32(0)  # flags of the visible character before
        while at < stop:
            code, after = nb.int64(data[at]), at + 1
            if code >= 0x80:
                code, after = decode(data, at, stop)
            info = table[code]
            if info & _SKIP:
                at = after
                continue
            if info & _HAN or (info & _LETTER and not before & _LETTER):
                words[i] += 1
                if info & _BEGINS and at >= reached and _may_begin(data, at, stop, heads, ascii_classes):
                    category, end, broken = _plain(data, at, stop, table, keys, children, categories)
                    if category == _NONE and broken:
                        category, end = _evading(
                            data, at, stop, before & (_LETTER | _HAN) == 0, nb.int64(info), table, keys, children, categories, leet
                        )
                        evasions[i] += category >= 0
                    if category != _NONE:
                        reached = end
                    if category >= 0:
                        hits[i, category] += 1
            before = info
            at = after
