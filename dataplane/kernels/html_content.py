"""Which part of a page is its main content, by the cues of its elements and by the density of text and links.

Source: the measures are those of Kohlschütter et al. 2010, doi:10.1145/1718487.1718542 (text and link density of blocks).
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from dataplane.kernels import html_names as names
from dataplane.kernels.html_names import IDS, TRAITS
from dataplane.kernels.html_tree import CUES, I32, LAST, LETTERS, LINKED, N_COLUMNS, PARENT, ROWS, TAG

# Letters are bytes but for white space, so that a Chinese character counts as three.
MIN_PROSE = 60  # letters outside links that make a block's own text prose
MAX_FRAME_SHARE = 0.4  # of the page's prose: what holds more is no frame part, whatever its class says,
MIN_REST = 800  # unless as many letters of prose are elsewhere
MIN_MAIN_SHARE = 0.25  # of the prose in an <article>, <main> or body of an article, which then is in no frame part
MAX_HEADER_SHARE = 0.1  # of the prose in a <header>; with more of it the article has its beginning there
MIN_KEPT_SHARE = 0.3  # of the prose that the content has; with less the words were misleading, and without them it is sought again
MIN_SHARE = 0.85  # of the prose that an element must hold for the content to be sought in it alone
MIN_BODY_SHARE = 0.4  # the same of an element that says that it is the body of an article,
MIN_BODY_OF_ALL = 0.6  # and how much of what is in all such: several articles are a list, or a forum
MIN_ARTICLE = 400  # letters of prose beside comments
MIN_PROSE_SHARE = 0.1  # of the text; below it the page is a list of links
MAX_LINK_SHARE = 0.6  # of a block's text that may be links
MAX_WEAK = 120  # letters of an element with a weak cue, which with more is a frame part only
MAX_WEAK_LINK_SHARE = 0.3  # where its text is more than that in links
MAX_DROPPED_SHARE = 0.5  # of the content's text: where more is links, the links are the content

_A, _NOSCRIPT, _ARTICLE, _MAIN, _H1, _BODY_TAG, _HTML, _HEADER, _FOOTER = (
    IDS[name] for name in ("a", "noscript", "article", "main", "h1", "body", "html", "header", "footer")
)


def _mask(tags: str) -> npt.NDArray[np.bool_]:
    mask = np.zeros(len(TRAITS), np.bool_)
    mask[[IDS[name] for name in tags.split()]] = True
    return mask


_LEAVES = _mask("p pre table ul ol a span")
_LEAVES[0] = True
_LINK_BLOCKS = _mask("div section ul ol dl p table")
DROPS = nb.types.Array(nb.boolean, 1, "C")
PROSE = nb.types.Array(nb.int32, 1, "C")


@nb.njit(nb.void(ROWS, DROPS, PROSE), cache=True, nogil=True)
def _sum(rows, drops, prose):  # type: ignore[no-untyped-def]
    """Sums letters, linked letters and prose up the tree, without what is dropped."""
    n = len(rows)
    for i in range(n):
        if rows[i, TAG] or i == 0:
            rows[i, LETTERS] = 0
        rows[i, LINKED] = prose[i] = 0
    for i in range(n - 1, 0, -1):
        if drops[i]:
            continue
        up = rows[i, PARENT]
        tag = rows[i, TAG]
        if tag == _A and rows[i, CUES] & names.LINK:
            rows[i, LINKED] = rows[i, LETTERS]
        rows[up, LETTERS] += rows[i, LETTERS]
        rows[up, LINKED] += rows[i, LINKED]
        if (not tag or TRAITS[tag] & names.INLINE) and not TRAITS[rows[up, TAG]] & names.INLINE:
            prose[up] += rows[i, LETTERS] - rows[i, LINKED]
    for i in range(n):
        if not rows[i, TAG] or TRAITS[rows[i, TAG]] & names.INLINE or prose[i] < MIN_PROSE:
            prose[i] = 0
    for i in range(n - 1, 0, -1):
        if not drops[i]:
            prose[rows[i, PARENT]] += prose[i]


@nb.njit(nb.boolean(ROWS, nb.int64), inline="always", cache=True, nogil=True)
def _says_main(rows, at):  # type: ignore[no-untyped-def]
    tag = rows[at, TAG]
    return rows[at, CUES] & names.BODY != 0 or tag in (_ARTICLE, _MAIN, _BODY_TAG, _HTML)


@nb.njit(nb.void(ROWS, DROPS, PROSE, nb.boolean), cache=True, nogil=True)
def _drop_frame(rows, drops, prose, by_words):  # type: ignore[no-untyped-def]
    """Drops what says that it is part of the frame, unless it holds much of the prose, or the main content by what that says."""
    n = len(rows)
    holds = np.zeros(n, np.bool_)
    whole = prose[0]
    for at in range(n - 1, 0, -1):
        if not drops[at] and prose[at] and (holds[at] or (_says_main(rows, at) and prose[at] > MIN_MAIN_SHARE * whole)):
            holds[at] = holds[rows[at, PARENT]] = True
    for at in range(1, n):
        tag, cues, letters = rows[at, TAG], rows[at, CUES], rows[at, LETTERS]
        hidden = cues & names.HIDDEN and not cues & names.FOLD
        if (
            tag in (_BODY_TAG, _HTML)
            or (holds[at] and not hidden)
            or (
                prose[at] > MAX_FRAME_SHARE * whole and ((whole - prose[at] < MIN_REST and tag != _FOOTER) or prose[at] > MIN_SHARE * whole)
            )
        ):
            continue
        if TRAITS[tag] & names.FRAME_TAG or (cues & names.FRAME and (by_words or not prose[at])) or hidden:
            drops[at] = True
        elif cues & names.WEAK:
            drops[at] |= letters < MAX_WEAK or rows[at, LINKED] > MAX_WEAK_LINK_SHARE * letters
        elif tag == _HEADER:
            drops[at] |= prose[at] < MAX_HEADER_SHARE * whole


@nb.njit(nb.int64(ROWS, DROPS, PROSE), cache=True, nogil=True)
def _body(rows, drops, prose):  # type: ignore[no-untyped-def]
    """The element that says that it is the body of an article, or the article; -1 where none does, or several."""
    for kind in range(2):
        best, most, total, at = -1, 0, 0, 1
        while at < len(rows):
            if drops[at]:
                at = rows[at, LAST]
                continue
            tag = rows[at, TAG]
            says_so = rows[at, CUES] & names.BODY and not _LEAVES[tag] if kind == 0 else tag == _ARTICLE
            if not says_so or not prose[at] or tag in (_BODY_TAG, _HTML):
                at += 1
                continue
            total += prose[at]
            if prose[at] > most:
                best, most = at, prose[at]
            at = rows[at, LAST]
        if most > MIN_BODY_OF_ALL * total and most > MIN_BODY_SHARE * prose[0]:
            return best
    return -1


@nb.njit(nb.void(ROWS, DROPS, PROSE), cache=True, nogil=True)
def _drop_comments(rows, drops, prose):  # type: ignore[no-untyped-def]
    """Drops comments, unless they are what the page is about."""
    without = np.empty(len(rows), np.bool_)
    for at in range(len(rows)):
        without[at] = drops[at] or (rows[at, CUES] & names.COMMENT != 0 and rows[at, TAG] not in (_BODY_TAG, _HTML))
    before = prose[0]
    _sum(rows, without, prose)
    rest = prose[0]
    if _body(rows, without, prose) >= 0 or (rest >= MIN_ARTICLE and 2 * rest > before - rest):
        for at in range(len(rows)):
            drops[at] = without[at]
    else:
        _sum(rows, drops, prose)


@nb.njit(nb.void(ROWS, DROPS, nb.int64), cache=True, nogil=True)
def _drop_title(rows, drops, main):  # type: ignore[no-untyped-def]
    """Drops the headline, which is the page's title, and what little is above it."""
    h1, letters = -1, 0
    at = main + 1
    while at < rows[main, LAST]:
        if drops[at]:
            at = rows[at, LAST]
            continue
        if rows[at, TAG] == _H1:
            if h1 >= 0:
                return
            h1 = at
        if not rows[at, TAG] and h1 < 0:
            letters += rows[at, LETTERS]
        at += 1
    if h1 < 0 or letters > 2 * MAX_WEAK:
        return
    for at in range(main + 1, h1 + 1):
        if rows[at, LAST] <= h1 or at == h1:
            drops[at] = True


@nb.njit(nb.int64(ROWS, DROPS, PROSE), cache=True, nogil=True)
def _main(rows, drops, prose):  # type: ignore[no-untyped-def]
    """The smallest element that holds most of the prose; of a page without much of it, most of the text."""
    by_prose = prose[0] > MIN_PROSE_SHARE * rows[0, LETTERS]
    whole, at = prose[0] if by_prose else rows[0, LETTERS], 0
    while True:
        best, share, child = -1, 0, at + 1
        while child < rows[at, LAST]:
            value = prose[child] if by_prose else rows[child, LETTERS]
            if not drops[child] and value > share:
                best, share = child, value
            child = rows[child, LAST]
        if best < 0 or share < MIN_SHARE * whole or _LEAVES[rows[best, TAG]]:
            return at
        at = best


@nb.njit(nb.boolean(ROWS, nb.int64), cache=True, nogil=True)
def _is_links(rows, at):  # type: ignore[no-untyped-def]
    letters = rows[at, LETTERS]
    return _LINK_BLOCKS[rows[at, TAG]] and letters > 0 and rows[at, LINKED] > MAX_LINK_SHARE * letters


@nb.njit(nb.void(ROWS, DROPS, nb.int64), cache=True, nogil=True)
def _drop_empty_headings(rows, drops, main):  # type: ignore[no-untyped-def]
    """Drops headings of which all that stood below is dropped."""
    for heading in range(main + 1, rows[main, LAST]):
        if drops[heading] or not TRAITS[rows[heading, TAG]] & names.HEADING:
            continue
        at, lost = rows[heading, LAST], False
        while at < rows[main, LAST]:
            if drops[at]:
                lost, at = True, rows[at, LAST]
            elif rows[at, LETTERS] and (rows[at, TAG] == 0 or TRAITS[rows[at, TAG]] & names.HEADING):
                break
            else:
                at += 1
        at_end = at >= rows[main, LAST]
        if lost and (at_end or (rows[at, TAG] and rows[at, TAG] <= rows[heading, TAG])):
            drops[heading] = True


@nb.njit(nb.void(ROWS, DROPS, PROSE), cache=True, nogil=True)
def _drop_silent(rows, drops, prose):  # type: ignore[no-untyped-def]
    """Drops elements without text. Pages that are made by scripts have their text in <noscript>."""
    quiet = 0
    for at in range(1, len(rows)):
        drops[at] = TRAITS[rows[at, TAG]] & names.SILENT != 0
    _sum(rows, drops, prose)
    for at in range(1, len(rows)):
        if rows[at, TAG] == _NOSCRIPT:
            quiet += rows[at, LETTERS]
    if 2 * quiet < rows[0, LETTERS]:
        for at in range(1, len(rows)):
            drops[at] |= rows[at, TAG] == _NOSCRIPT
        _sum(rows, drops, prose)


@nb.njit(nb.void(ROWS, DROPS, nb.int64), cache=True, nogil=True)
def _drop_links(rows, drops, main):  # type: ignore[no-untyped-def]
    """Drops blocks that are little more than links, unless they are what the content is."""
    lost, at = 0, main + 1
    while at < rows[main, LAST]:
        if drops[at] or _is_links(rows, at):
            lost += 0 if drops[at] else rows[at, LETTERS]
            at = rows[at, LAST]
        else:
            at += 1
    if lost <= MAX_DROPPED_SHARE * rows[main, LETTERS]:
        for at in range(main + 1, rows[main, LAST]):
            drops[at] |= _is_links(rows, at)


@nb.njit(nb.types.Tuple((nb.int64, nb.boolean))(ROWS, DROPS, PROSE, nb.boolean, nb.boolean), cache=True, nogil=True)
def _find(rows, drops, prose, is_forum, by_words):  # type: ignore[no-untyped-def]
    """The element with the content, and whether it says so itself."""
    _drop_frame(rows, drops, prose, by_words)
    _sum(rows, drops, prose)
    if not is_forum:
        _drop_comments(rows, drops, prose)
    main = _body(rows, drops, prose)
    return (main, True) if main >= 0 else (_main(rows, drops, prose), False)


@nb.njit(nb.int64(ROWS, DROPS, PROSE, nb.boolean), cache=True, nogil=True)
def _select(rows, drops, prose, is_forum):  # type: ignore[no-untyped-def]
    """The row of the element with the content, and what is dropped."""
    _drop_silent(rows, drops, prose)
    for at in range(1, len(rows)):
        if rows[at, TAG] in (_BODY_TAG, _HTML):
            is_forum |= rows[at, CUES] & names.FORUM != 0
    whole = prose[0]
    main, says_so = _find(rows, drops, prose, is_forum, True)
    if not says_so and prose[main] < MIN_KEPT_SHARE * whole:
        _drop_silent(rows, drops, prose)
        main, says_so = _find(rows, drops, prose, is_forum, False)
    _drop_links(rows, drops, main)
    if prose[0] > MIN_PROSE_SHARE * rows[0, LETTERS]:
        _drop_title(rows, drops, main)
        _drop_empty_headings(rows, drops, main)
    return main


@nb.njit(nb.int64(ROWS, DROPS, nb.int64, ROWS), cache=True, nogil=True)
def _keep(rows, drops, main, kept):  # type: ignore[no-untyped-def]
    """Copies the rows of the content without what is dropped, and says how many there are."""
    stop, at, n = rows[main, LAST], main, 0
    place = np.empty(stop - main + 1, np.int32)  # in the copy, of the row itself or else of the next one that is kept
    while at < stop:
        after = rows[at, LAST] if drops[at] and at > main else at + 1
        place[at - main : after - main] = n
        if after == at + 1 and not (drops[at] and at > main):
            for column in range(N_COLUMNS):
                kept[n, column] = rows[at, column]
            n += 1
        at = after
    place[stop - main] = n
    for i in range(n):
        kept[i, LAST] = place[kept[i, LAST] - main]
    return n


def select(rows: I32, is_forum: bool = False) -> I32:
    """The rows of the main content, `LAST` referring to these rows.

    Args:
        rows: The rows of the page's tree.
        is_forum: Whether comments are what the page is about.
    """
    drops = np.zeros(len(rows), np.bool_)
    main = _select(rows, drops, np.zeros(len(rows), np.int32), is_forum)
    kept = np.empty((rows[main, LAST] - main, N_COLUMNS), np.int32)
    return kept[: _keep(rows, drops, main, kept)]
