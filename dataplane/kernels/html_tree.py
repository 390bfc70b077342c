"""The tree of an HTML page as rows of numbers, read in one pass over its UTF-8 bytes, in time linear in them.

Rows are in document order; of an element's attributes only what they say about main text is kept. End tags that may be left out are
filled in, others that are missing end with the element around; an end tag without its start is passed over.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from dataplane.kernels import html_names as names
from dataplane.kernels.html_names import TAG_IDS, TAG_KEYS, TRAITS
from dataplane.kernels.sorted_keys import KEYS, first_from
from dataplane.kernels.unicode import OCTETS

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
# Columns: which element (0 for a run of text); its bytes (of an element its attributes); the row of the element around; the row after all
# that is in it; letters of text in it, and those in links; cues of its attributes.
TAG, START, END, PARENT, LAST, LETTERS, LINKED, CUES = range(8)
N_COLUMNS = 8
ROWS = nb.types.Array(nb.int32, 2, "C")
# Words and what they say. An argument, since compiled code that is kept would not see that they change.
_WORDS = nb.types.Tuple((KEYS, nb.types.Array(nb.int64, 1, "C", readonly=True)))
MAX_LOOK_UP = 256  # open elements that an end tag is looked for in
_LT, _GT, _SLASH, _BANG, _QUOTE, _APOSTROPHE, _EQUALS, _DASH = (ord(sign) for sign in "<>/!\"'=-")
_CLASS, _ID, _ROLE, _ITEMTYPE, _HREF, _HIDDEN, _STYLE, _ARIA, _ITEMPROP = (
    np.uint64(names.key(name)) for name in ("class", "id", "role", "itemtype", "href", "hidden", "style", "aria-hid", "itemprop")
)
_TRUE, _ARTICLE_BODY = np.uint64(names.key("true")), np.uint64(names.key("articlebody"))
_A, _P, _HTML, _HEAD, _BODY, _MATH = (names.IDS[name] for name in ("a", "p", "html", "head", "body", "math"))
# The last eight letters, which is all that is left of a word that runs through a 64-bit key.
_DISPLAY, _VISIBILITY, _NONE, _INVISIBLE = (
    np.uint64(int.from_bytes(word.encode()[-8:], "big")) for word in ("display", "visibility", "none", "hidden")
)
_SPAN = nb.types.UniTuple(nb.int64, 2)


@nb.njit(nb.boolean(nb.uint8), inline="always", cache=True, nogil=True)
def _is_letter(b):  # type: ignore[no-untyped-def]
    return 97 <= (b | 32) <= 122 or b >= 128


@nb.njit(nb.types.Tuple((nb.uint64, nb.int64))(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _name(data, at, stop):  # type: ignore[no-untyped-def]
    """The key of a name of a tag or attribute, and where it ends."""
    key, taken = nb.uint64(0), 0
    while at < stop:
        b = data[at]
        if b <= 32 or b in (_GT, _SLASH, _EQUALS):
            break
        if taken < names.KEY_LETTERS:
            key = (key << nb.uint64(8)) | nb.uint64(b + 32 if 65 <= b <= 90 else b)
            taken += 1
        at += 1
    return key << nb.uint64(8 * (names.KEY_LETTERS - taken)) if taken else nb.uint64(0), at


@nb.njit(nb.int64(_WORDS, nb.uint64), cache=True, nogil=True)
def _look(words, key):  # type: ignore[no-untyped-def]
    """What is kept under a key, 0 where it is not known."""
    keys, values = words
    place = first_from(keys, key)
    return values[place] if place < len(keys) and keys[place] == key else 0


@nb.njit(nb.int64(OCTETS, _WORDS, nb.int64, nb.int64), cache=True, nogil=True)
def _cues(data, words, at, stop):  # type: ignore[no-untyped-def]
    """What the words of an attribute say.

    `articleBody`, `article-body` and `article_body` are two words each. Weak ones count at the end, which says what a thing is: a
    `post-tags` is tags, a `tags-travel` may be a post.
    """
    found, last, noun = 0, 0, False
    while at < stop:
        if data[at] <= 32:
            found, last, noun = found | last, 0, False
        if not _is_letter(data[at]):
            at += 1
            continue
        key, taken = nb.uint64(0), 0
        while at < stop and _is_letter(data[at]) and not (taken and 65 <= data[at] <= 90 and data[at - 1] >= 97):
            if taken < names.KEY_LETTERS:
                key = (key << nb.uint64(8)) | nb.uint64(data[at] | 32 if data[at] < 128 else data[at])
                taken += 1
            at += 1
        last = _look(words, key << nb.uint64(8 * (names.KEY_LETTERS - taken)))
        if noun and last & names.DETAIL:
            found |= names.BODY
        noun = noun or last & names.NOUN != 0
        found |= last & ~names.WEAK
    return found | last


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _hides(data, at, stop):  # type: ignore[no-untyped-def]
    """Whether a style has display:none or visibility:hidden."""
    key, wanted = nb.uint64(0), nb.uint64(0)
    for i in range(at, stop):
        b = data[i]
        if b == 0x3A:
            wanted = _NONE if key == _DISPLAY else (_INVISIBLE if key == _VISIBILITY else nb.uint64(0))
            key = nb.uint64(0)
        elif b == 0x3B:
            wanted = key = nb.uint64(0)
        elif b > 32:
            key = (key << nb.uint64(8)) | nb.uint64(b | 32)
            if wanted != 0 and key == wanted:
                return True
    return False


@nb.njit(nb.types.UniTuple(nb.int64, 3)(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _value(data, at, stop):  # type: ignore[no-untyped-def]
    """Start and end of an attribute's value, and where to read on."""
    while at < stop and data[at] <= 32:
        at += 1
    if at < stop and (data[at] == _QUOTE or data[at] == _APOSTROPHE):
        quote = data[at]
        end = at + 1
        while end < stop and data[end] != quote:
            end += 1
        return at + 1, end, min(end + 1, stop)
    end = at
    while end < stop and data[end] > 32 and data[end] != _GT:
        end += 1
    return at, end, end


@nb.njit(nb.int64(OCTETS, _WORDS, nb.uint64, nb.int64, nb.int64), cache=True, nogil=True)
def _attribute_cues(data, words, key, start, end):  # type: ignore[no-untyped-def]
    if key in (_CLASS, _ID, _ROLE):
        return _cues(data, words, start, end)
    if key == _ITEMTYPE:
        return _cues(data, words, start, end) & names.FORUM
    if key == _HREF:
        return names.LINK
    if key == _ITEMPROP:
        return names.BODY if _name(data, start, end)[0] == _ARTICLE_BODY else 0
    hidden = key == _HIDDEN or (key == _STYLE and _hides(data, start, end)) or (key == _ARIA and _name(data, start, end)[0] == _TRUE)
    return names.HIDDEN if hidden else 0


@nb.njit(_SPAN(OCTETS, _WORDS, nb.int64, nb.int64), cache=True, nogil=True)
def _attributes(data, words, at, stop):  # type: ignore[no-untyped-def]
    """The cues of a tag's attributes, and the place of its `>`."""
    cues = 0
    while at < stop and data[at] != _GT:
        if data[at] <= 32 or data[at] == _SLASH or data[at] == _EQUALS:
            at += 1
            continue
        key, at = _name(data, at, stop)
        while at < stop and data[at] <= 32:
            at += 1
        start = end = at
        if at < stop and data[at] == _EQUALS:
            start, end, at = _value(data, at + 1, stop)
        cues |= _attribute_cues(data, words, key, start, end)
    return cues, at


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, nb.uint64), cache=True, nogil=True)
def _raw_end(data, at, stop, key):  # type: ignore[no-untyped-def]
    """Where the end tag of an element that holds no markup begins."""
    while at + 1 < stop:
        if data[at] == _LT and data[at + 1] == _SLASH and _name(data, at + 2, stop)[0] == key:
            return at
        at += 1
    return stop


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _declaration_end(data, at, stop):  # type: ignore[no-untyped-def]
    """The place after a comment, doctype or processing instruction that begins at `at`."""
    if at + 3 < stop and data[at + 2] == _DASH and data[at + 3] == _DASH:
        at += 4
        while at < stop and not (data[at] == _GT and data[at - 1] == _DASH and data[at - 2] == _DASH):
            at += 1
        return at + 1
    while at < stop and data[at] != _GT:
        at += 1
    return at + 1


@nb.njit(_SPAN(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _text(data, at, stop):  # type: ignore[no-untyped-def]
    """Where a run of text ends, and its letters: bytes but for white space, which gives a Chinese character three."""
    letters = 0
    while at < stop:
        b = data[at]
        if b == _LT and at + 1 < stop:
            after = data[at + 1]
            if 97 <= (after | 32) <= 122 or after in (_SLASH, _BANG, 0x3F):
                break
        letters += b > 32
        at += 1
    return at, letters


@nb.njit(nb.int64(ROWS, nb.int32[::1], nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _look_up(rows, stack, depth, wanted, passed):  # type: ignore[no-untyped-def]
    """How deep the nearest open element of a kind is, -1 where one that is not passed comes first.

    Args:
        wanted: Traits of which it has one.
        passed: Traits that end the search; negative for traits without which an element ends it.
    """
    for at in range(depth - 1, max(0, depth - MAX_LOOK_UP) - 1, -1):
        traits = TRAITS[rows[stack[at], TAG]]
        if traits & wanted:
            return at
        if (traits & passed) if passed >= 0 else not (traits & -passed):
            return -1
    return -1


@nb.njit(nb.int64(ROWS, nb.int32[::1], nb.int64, nb.int64), cache=True, nogil=True)
def _ended(rows, stack, depth, tag):  # type: ignore[no-untyped-def]
    """How deep the element is that an end tag ends, -1 where none is."""
    traits = TRAITS[tag]
    in_table = traits & (names.TABLE | names.ROW | names.CELL | names.PART) != 0
    for at in range(depth - 1, max(0, depth - MAX_LOOK_UP) - 1, -1):
        open_tag = rows[stack[at], TAG]
        open_traits = TRAITS[open_tag]
        if open_tag == tag or open_traits & traits & names.HEADING:
            return at
        if traits & names.INLINE and not open_traits & names.INLINE:
            return -1
        if open_traits & names.CELL and not in_table:
            return -1
    return -1


@nb.njit(nb.int64(ROWS, nb.int32[::1], nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _close(rows, stack, depth, to, row):  # type: ignore[no-untyped-def]
    """Ends all elements from depth `to` on."""
    for at in range(to, depth):
        rows[stack[at], LAST] = row
    return to


@nb.njit(nb.int64(ROWS, nb.int32[::1], nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _imply_ends(rows, stack, depth, tag, row):  # type: ignore[no-untyped-def]
    """Ends the elements that the start of another one ends."""
    traits = TRAITS[tag]
    if depth and rows[stack[depth - 1], TAG] == _HEAD and not traits & names.IN_HEAD:
        depth = _close(rows, stack, depth, depth - 1, row)
    if tag == _BODY:
        at = 1 if depth and rows[stack[0], TAG] == _HTML else 0
        return _close(rows, stack, depth, at, row)
    if traits & names.ENDS_P:
        at = _look_up(rows, stack, depth, names.PARAGRAPH, -(names.INLINE | names.PARAGRAPH))
        if at >= 0:
            depth = _close(rows, stack, depth, at, row)
    if names.CLOSES[tag]:
        at = _look_up(rows, stack, depth, names.CLOSES[tag], names.STOPS[tag])
        if at >= 0:
            depth = _close(rows, stack, depth, at, row)
    if tag == _A:
        for at in range(depth - 1, max(0, depth - MAX_LOOK_UP) - 1, -1):
            if rows[stack[at], TAG] == _A:
                return _close(rows, stack, depth, at, row)
            if not TRAITS[rows[stack[at], TAG]] & names.INLINE:
                break
    return depth


@nb.njit(nb.void(ROWS, nb.int64, nb.int64, nb.int64, nb.int64, nb.int64, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _append(rows, at, tag, start, end, parent, letters, cues):  # type: ignore[no-untyped-def]
    rows[at, TAG], rows[at, START], rows[at, END], rows[at, PARENT] = tag, start, end, parent
    rows[at, LAST], rows[at, LETTERS], rows[at, LINKED], rows[at, CUES] = at + 1, letters, 0, cues


@nb.njit(_SPAN(OCTETS, _WORDS, ROWS, nb.int32[::1]), cache=True, nogil=True)
def _read(data, words, rows, stack):  # type: ignore[no-untyped-def]
    """Fills the rows, the first for the page itself, and says how many there are and how deep they nest."""
    stop = len(data)
    _append(rows, 0, names.TEXT, 0, 0, -1, 0, 0)
    n, depth, at = 1, 0, 0
    deepest = 0
    seen = np.zeros(len(TRAITS), np.bool_)
    while at < stop:
        if data[at] != _LT or at + 1 >= stop or not (97 <= (data[at + 1] | 32) <= 122 or data[at + 1] in (_SLASH, _BANG, 0x3F)):
            end, letters = _text(data, at, stop)
            _append(rows, n, names.TEXT, at, end, stack[depth - 1] if depth else 0, letters, 0)
            n, at = n + 1, end
            continue
        sign = data[at + 1]
        if sign == _BANG or sign == 0x3F:
            at = _declaration_end(data, at, stop)
            continue
        key, end = _name(data, at + 1 + (sign == _SLASH), stop)
        tag = _look((TAG_KEYS, TAG_IDS), key) or names.OTHER
        if sign == _SLASH:
            at = _declaration_end(data, end, stop)
            if tag != _HTML and tag != _BODY:
                to = _ended(rows, stack, depth, tag)
                if to >= 0:
                    depth = _close(rows, stack, depth, to, n)
            continue
        cues, at = _attributes(data, words, end, stop)
        at += 1
        if seen[tag] and tag in (_HTML, _HEAD, _BODY):
            continue
        seen[tag] = True
        depth = _imply_ends(rows, stack, depth, tag, n)
        if tag == _MATH:  # shown as a picture, with the formula hidden
            for open_at in range(depth - 1, max(0, depth - 4) - 1, -1):
                if TRAITS[rows[stack[open_at], TAG]] & names.INLINE:
                    rows[stack[open_at], CUES] &= ~names.HIDDEN
        _append(rows, n, tag, end, min(at - 1, stop), stack[depth - 1] if depth else 0, 0, cues)
        if TRAITS[tag] & names.RAW:
            end = _raw_end(data, at, stop, key)
            _append(rows, n + 1, names.TEXT, at, end, n, 0, 0)
            rows[n, LAST] = n + 2
            n, at = n + 1, end
        elif not (TRAITS[tag] & names.VOID or (tag == names.OTHER and data[at - 2] == _SLASH)):  # of SVG, `<path/>` ends itself
            stack[depth] = n
            depth += 1
            deepest = max(deepest, depth)
        n += 1
    _close(rows, stack, depth, 0, n)
    rows[0, LAST] = n
    return n, deepest


def tree(data: U8, n_tags: int) -> tuple[I32, int]:
    """The rows of a page, int32 [n, 8], and how deep they nest.

    Args:
        data: The page's bytes, in UTF-8.
        n_tags: How many `<` there are in it.
    """
    rows = np.empty((3 * n_tags + 3, N_COLUMNS), np.int32)  # text before, tag, raw text in it
    n, depth = _read(data, (names.WORD_KEYS, names.WORD_CUES), rows, np.empty(n_tags + 2, np.int32))
    return rows[:n], depth
