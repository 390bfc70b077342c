"""The walk over texts that `terms` counts with: what is compiled.

The functions share their arguments: `data`, `at`, `stop` are UTF-8 bytes and where to look in them; `table`, `keys`, `children`,
`categories` are those of `terms.Terms`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, decode

# Flags above the 21 bits of the folded character.
CODE = (1 << 21) - 1
LETTER = 1 << 21  # letter or digit of a script with spaces
HAN = 1 << 22  # Chinese or Japanese: a word of its own
SKIP = 1 << 23  # invisible
GAP = 1 << 24  # what stands between the words of a term
MASK = 1 << 25  # what is put between the letters of a term to hide it
BEGINS = 1 << 26  # some term begins with it

_VOWELS = np.array([ord(vowel) for vowel in "aeiou"], np.int32)
_STAR = ord("*")
_MIN_EVADING = 4  # letters of a term of a script with spaces
_REPEATS = 3

NONE = -2  # category of a node that no term ends at
PRIME = np.uint64(0x9E3779B185EBCA87)
_KEYS = nb.types.Array(nb.uint64, 1, "C", readonly=True)
_FOUND = nb.types.UniTuple(nb.int64, 2)


@nb.njit(nb.int64(_KEYS, FOLDS, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _child(keys, children, node, code):  # type: ignore[no-untyped-def]
    """The node behind an edge, 0 where there is none."""
    key = np.uint64(node << 21 | code)
    mask = len(keys) - 1
    slot = nb.int64((key * PRIME) >> np.uint64(32)) & mask
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
        if not info & SKIP:
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
    node, category, end = nb.int64(0), nb.int64(NONE), at
    last, broken = nb.int64(0), nb.int64(0)
    gap = False
    while at < stop:
        code, after = decode(data, at, stop)
        info = table[code]
        if info & SKIP:
            at = after
            continue
        if info & GAP:
            if not gap:
                child = _child(keys, children, node, 0)
                if child == 0:
                    broken = nb.int64(1)
                    break
                node, gap = child, True
            at = after
            continue
        token = nb.int64(info & CODE)
        child = _child(keys, children, node, token) if token else nb.int64(0)
        if child == 0:
            broken = nb.int64(token == last or info & MASK != 0 or (code < 128 and not 97 <= code | 32 <= 122))
            break
        node, last, at, gap = child, token, after, False
        if categories[node] != NONE and not (info & LETTER and _followed(data, at, stop, table, LETTER)):
            category, end = nb.int64(categories[node]), at
    return category, end, broken


@nb.njit(_FOUND(OCTETS, nb.int64, nb.int64, nb.boolean, FOLDS, _KEYS, FOLDS, FOLDS), cache=True, nogil=True)
def _spaced(data, at, stop, alone, table, keys, children, categories):  # type: ignore[no-untyped-def]
    """The longest term at `at` whose letters are all set apart by the same sign; `alone`: no letter stands before it."""
    node, category, end = nb.int64(0), nb.int64(NONE), at
    sign, length = nb.int64(0), 0
    while at < stop:
        code, at = decode(data, at, stop)
        info = table[code]
        node = _child(keys, children, node, nb.int64(info & CODE)) if info & (LETTER | HAN) else nb.int64(0)
        if node == 0:
            break
        length += 1
        if categories[node] >= 0 and length > 1:
            if info & LETTER:
                fits = alone and length >= _MIN_EVADING and not _followed(data, at, stop, table, LETTER)
            else:
                fits = table[sign] & MASK != 0 or (alone and not _followed(data, at, stop, table, LETTER | HAN))
            if fits:
                category, end = nb.int64(categories[node]), at
        if at >= stop:
            break
        code, at = decode(data, at, stop)
        if not table[code] & (GAP | MASK) or (length > 1 and code != sign):
            break
        sign = code
    return category, end


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, FOLDS, nb.int64), cache=True, nogil=True)
def _next_is(data, at, stop, table, token):  # type: ignore[no-untyped-def]
    """Whether the next character is that one."""
    return at < stop and nb.int64(table[decode(data, at, stop)[0]] & CODE) == token


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
        if info & SKIP:
            at = after
            continue
        token = nb.int64(info & CODE)
        child = _child(keys, children, node, token) if token else nb.int64(0)
        run = run + 1 if token and token == last else 1
        if child == 0 and code < 128 and node:
            if leet[code]:
                token = nb.int64(leet[code])
            elif code == _STAR:
                if starred or vowel == 0:
                    return nb.int64(NONE), at, nb.int64(not starred)
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
    fits = node and categories[node] >= 0 and not _followed(data, at, stop, table, LETTER)
    if fits and changed > 0 and 2 * changed <= length and length >= _MIN_EVADING:
        return nb.int64(categories[node]), at, nb.int64(0)
    return nb.int64(NONE), at, nb.int64(0)


@nb.njit(_FOUND(OCTETS, nb.int64, nb.int64, nb.boolean, nb.int64, FOLDS, _KEYS, FOLDS, FOLDS, FOLDS), cache=True, nogil=True)
def _evading(data, at, stop, alone, info, table, keys, children, categories, leet):  # type: ignore[no-untyped-def]
    """The term that starts at `at` under some evasion: its category (or no category), and where it ends."""
    category, end = _spaced(data, at, stop, alone, table, keys, children, categories)
    if category != NONE or info & HAN:
        return category, end
    category, end, starred = _disguised(data, at, stop, 0, table, keys, children, categories, leet)
    if starred:
        for vowel in _VOWELS:
            category, end, _ = _disguised(data, at, stop, nb.int64(vowel), table, keys, children, categories, leet)
            if category != NONE:
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
def count(data, offsets, table, keys, children, categories, heads, ascii_classes, leet, hits, evasions, words):  # type: ignore[no-untyped-def]
    """Adds each text's terms to `hits` (int32 [n, categories]), those that evade to `evasions`, its words to `words` (int32 [n])."""
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        reached = at
        before = nb.int32(0)  # flags of the visible character before
        while at < stop:
            code, after = nb.int64(data[at]), at + 1
            if code >= 0x80:
                code, after = decode(data, at, stop)
            info = table[code]
            if info & SKIP:
                at = after
                continue
            if info & HAN or (info & LETTER and not before & LETTER):
                words[i] += 1
                if info & BEGINS and at >= reached and _may_begin(data, at, stop, heads, ascii_classes):
                    category, end, broken = _plain(data, at, stop, table, keys, children, categories)
                    if category == NONE and broken:
                        category, end = _evading(
                            data, at, stop, before & (LETTER | HAN) == 0, nb.int64(info), table, keys, children, categories, leet
                        )
                        evasions[i] += category >= 0
                    if category != NONE:
                        reached = end
                    if category >= 0:
                        hits[i, category] += 1
            before = info
            at = after
