"""Bin packing of token counts in numba: best fit and first fit over lengths in decreasing order, and concatenation.

Every function is deterministic: equal lengths in equal order give equal bins.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

SENTENCE, PARAGRAPH = 1, 2  # where long documents are cut
# What a token is to the borders of sentences and paragraphs, by bits.
STOP = 1  # ends in a full stop, a question mark or the like, which ends a sentence before white space only
FULL_STOP = 2  # ends in one that always does, as 。
LINE_BREAK = 4
SPACE = 8  # begins with white space

_I64S = nb.types.Array(nb.int64, 1, "C", readonly=True)
_I32S = nb.types.Array(nb.int32, 1, "C", readonly=True)
_U16S = nb.types.Array(nb.uint16, 1, "C", readonly=True)
_U8S = nb.types.Array(nb.uint8, 1, "C", readonly=True)


@nb.njit(nb.int64[::1](_I64S, nb.int64), cache=True, nogil=True)
def decreasing(lengths, capacity):  # type: ignore[no-untyped-def]
    """Items from the longest to the shortest, equal ones in their order (counting sort): int64 [n].

    Args:
        lengths: int64 [n], each from 1 to `capacity`.
    """
    starts = np.zeros(capacity + 2, np.int64)
    for length in lengths:
        starts[capacity - length + 1] += 1
    for i in range(1, capacity + 2):
        starts[i] += starts[i - 1]
    order = np.empty(len(lengths), np.int64)
    for item in range(len(lengths)):
        slot = capacity - lengths[item]
        order[starts[slot]] = item
        starts[slot] += 1
    return order


@nb.njit(nb.int64(nb.int64[::1], nb.int64, nb.int64), cache=True, nogil=True)
def _first_filled(tree, leaves, at):  # type: ignore[no-untyped-def]
    """The first leaf from `at` on that is not 0, or -1."""
    node = at + leaves
    while tree[node] == 0:
        while node & 1:  # a right child: what follows is to the right of its parent
            node >>= 1
        if node == 0:
            return -1
        node += 1
    while node < leaves:
        node *= 2
        if tree[node] == 0:
            node += 1
    return node - leaves


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), cache=True, nogil=True)
def _add(tree, node, change):  # type: ignore[no-untyped-def]
    while node:
        tree[node] += change
        node >>= 1


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64))(_I64S, nb.int64), cache=True, nogil=True)
def best_fit_decreasing(lengths, capacity):  # type: ignore[no-untyped-def]
    """Puts each item, longest first, into the bin that it fills best; of equally filled bins into the last one touched.

    Bins lie in stacks by the room that is left in them; a tree of counts over the stacks finds the least room that is
    enough in O(log capacity). Source: Ding et al. 2024, arXiv:2404.10830, section 3 (best-fit packing).

    Args:
        lengths: int64 [n], each from 1 to `capacity`.
        capacity: Tokens of a bin.

    Returns:
        Bin of each item, int64 [n], and the number of bins.
    """
    leaves = 1
    while leaves < capacity + 1:
        leaves *= 2
    tree = np.zeros(2 * leaves, np.int64)
    top = np.full(capacity + 1, -1, np.int64)  # by room: the bin on the stack's top
    below = np.empty(len(lengths), np.int64)  # by bin: the bin under it in its stack
    bins = np.empty(len(lengths), np.int64)
    n_bins = 0
    for item in decreasing(lengths, capacity):
        length = lengths[item]
        room = _first_filled(tree, leaves, length)
        if room < 0:
            room, chosen = capacity, n_bins
            n_bins += 1
        else:
            chosen = top[room]
            top[room] = below[chosen]
            _add(tree, leaves + room, -1)
        bins[item] = chosen
        room -= length
        if room:
            below[chosen] = top[room]
            top[room] = chosen
            _add(tree, leaves + room, 1)
    return bins, n_bins


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64))(_I64S, nb.int64), cache=True, nogil=True)
def first_fit_decreasing(lengths, capacity):  # type: ignore[no-untyped-def]
    """Puts each item, longest first, into the first bin that has room for it; arguments and result as best fit.

    A tree of the most room among bins finds the first one in O(log n).
    """
    leaves = 1
    while leaves < len(lengths):
        leaves *= 2
    room = np.full(2 * leaves, capacity, np.int64)
    bins = np.empty(len(lengths), np.int64)
    n_bins = 0
    for item in decreasing(lengths, capacity):
        length = lengths[item]
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < length:
                node += 1
        chosen = node - leaves
        bins[item] = chosen
        n_bins = max(n_bins, chosen + 1)
        room[node] -= length
        node >>= 1
        while node:
            room[node] = max(room[2 * node], room[2 * node + 1])
            node >>= 1
    return bins, n_bins


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64[::1], nb.int64[::1]))(_I64S, nb.int64), cache=True, nogil=True)
def cut(lengths, capacity):  # type: ignore[no-untyped-def]
    """Cuts what is longer than `capacity` into full pieces and a remainder.

    Args:
        lengths: int64 [n]; an item of none gives no piece.

    Returns:
        For each piece, in order: its item, its first token in the item, its length; int64 [m] each.
    """
    total = 0
    for length in lengths:
        total += (length + capacity - 1) // capacity
    items, starts, sizes = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for item in range(len(lengths)):
        for start in range(0, lengths[item], capacity):
            items[at], starts[at] = item, start
            sizes[at] = min(capacity, lengths[item] - start)
            at += 1
    return items, starts, sizes


@nb.njit(nb.boolean(nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _is_border(kind, following, wanted):  # type: ignore[no-untyped-def]
    """Whether a text may be cut between two tokens of these kinds; `wanted` is SENTENCE or PARAGRAPH."""
    if kind & LINE_BREAK:
        return True
    return wanted == SENTENCE and (kind & FULL_STOP != 0 or (kind & STOP != 0 and following & SPACE != 0))


@nb.njit([nb.int64(ids, nb.int64, nb.int64, _U8S, nb.int64) for ids in (_I32S, _U16S)], cache=True, nogil=True)
def _last_border(tokens, first, stop, kinds, wanted):  # type: ignore[no-untyped-def]
    """The last place from `first` to `stop` where `tokens` may be cut before it: a paragraph's end, else a sentence's; else `stop`."""
    for level in range(wanted, 0, -1):
        for at in range(stop, first - 1, -1):
            if _is_border(kinds[tokens[at - 1]], kinds[tokens[at]], level):
                return at
    return stop


@nb.njit(
    [
        nb.types.Tuple((nb.int64[::1], nb.int64[::1], nb.int64[::1]))(ids, _I64S, _I64S, _I64S, nb.int64, nb.int64, _U8S, nb.int64)
        for ids in (_I32S, _U16S)
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def cut_at_borders(tokens, offsets, rows, lengths, lead, capacity, kinds, wanted):  # type: ignore[no-untyped-def]
    """Cuts what is longer than `capacity` at the last border in the second half of each piece, or where the piece is full.

    Args:
        tokens: int32 or uint16 [t], tokens of all documents.
        offsets: int64 [d + 1], where each document's lie.
        rows: int64 [n], document of each item.
        lengths: int64 [n], tokens of each item, those put before and behind it included.
        lead: Tokens put before each item.
        kinds: uint8 [vocabulary], bits of each token: STOP, FULL_STOP, LINE_BREAK, SPACE.
        wanted: SENTENCE or PARAGRAPH, which is cut at a sentence where it has no line break.

    Returns:
        As `cut`.
    """
    most = 0
    for length in lengths:
        most += 1 if length <= capacity else 2 * (length // capacity) + 2
    items, starts, sizes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    used = 0
    for item in range(len(lengths)):
        start, low = 0, offsets[rows[item]] - lead
        while start < lengths[item]:
            stop = min(lengths[item], start + capacity)
            if stop < lengths[item]:
                # The token behind the cut is looked at too, and what is put behind the text is none of it.
                latest = min(low + stop, offsets[rows[item] + 1] - 1)
                first = low + start + (capacity + 1) // 2
                if first > low + lead and first <= latest:
                    found = _last_border(tokens, first, latest, kinds, wanted)
                    stop = found - low if found < latest else stop
            items[used], starts[used], sizes[used] = item, start, stop - start
            used += 1
            start = stop
    return items[:used].copy(), starts[:used].copy(), sizes[:used].copy()


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64[::1], nb.int64[::1], nb.int64[::1]))(_I64S, nb.int64), cache=True, nogil=True)
def concatenate(lengths, capacity):  # type: ignore[no-untyped-def]
    """Puts items one behind the other and cuts the whole into bins.

    Args:
        lengths: int64 [n]; an item of none is in no bin.

    Returns:
        For each piece, in order: its item, its first token in the item, its length, its bin; int64 [m] each.
    """
    most = len(lengths) + lengths.sum() // capacity + 1
    items, starts = np.empty(most, np.int64), np.empty(most, np.int64)
    sizes, bins = np.empty(most, np.int64), np.empty(most, np.int64)
    used, at = 0, 0
    for item in range(len(lengths)):
        start = 0
        while start < lengths[item]:
            size = min(lengths[item] - start, capacity - at % capacity)
            items[used], starts[used], sizes[used], bins[used] = item, start, size, at // capacity
            used += 1
            at += size
            start += size
    return items[:used].copy(), starts[:used].copy(), sizes[:used].copy(), bins[:used].copy()


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64[::1]))(_I64S, nb.int64), cache=True, nogil=True)
def group(bins, n_bins):  # type: ignore[no-untyped-def]
    """Items by bin, in their order within each: int64 [n], and where each bin's start: int64 [n_bins + 1]."""
    bounds = np.zeros(n_bins + 1, np.int64)
    for chosen in bins:
        bounds[chosen + 1] += 1
    for i in range(n_bins):
        bounds[i + 1] += bounds[i]
    at = bounds[:-1].copy()
    order = np.empty(len(bins), np.int64)
    for item in range(len(bins)):
        order[at[bins[item]]] = item
        at[bins[item]] += 1
    return order, bounds


_PIECES = (_I64S, _I64S, _I64S, _I64S, _I64S, nb.int64, nb.int32, nb.int32)


@nb.njit(
    [nb.void(_I32S, *_PIECES, nb.int32[:, ::1], nb.int32[::1]), nb.void(_U16S, *_PIECES, nb.uint16[:, ::1], nb.int32[::1])],
    cache=True,
    nogil=True,
)
def fill(tokens, offsets, rows, starts, sizes, bounds, first, bos, eos, out, seq_starts):  # type: ignore[no-untyped-def]
    """Writes pieces one behind the other into sequences, with BOS and EOS around the tokens of each document.

    Args:
        tokens: int32 or uint16 [t], tokens of all documents.
        offsets: int64 [d + 1], where each document's lie.
        rows, starts, sizes: int64 [k]: document, first token in it and length of each piece, in order of the sequences.
        bounds: int64 [s + 1], pieces of each sequence, counted from `first`.
        bos: The token before each document; below 0: none.
        out: [s, capacity] of the type of `tokens`, filled with padding before.
        seq_starts: int32 [k], gets the first token of each piece in its sequence.
    """
    for sequence in range(len(bounds) - 1):
        at = 0
        for piece in range(bounds[sequence] - first, bounds[sequence + 1] - first):
            low, high = offsets[rows[piece]], offsets[rows[piece] + 1]
            begin = low + starts[piece] - (1 if bos >= 0 else 0)
            seq_starts[piece] = at
            for i in range(begin, begin + sizes[piece]):
                out[sequence, at] = bos if i < low else (tokens[i] if i < high else eos)
                at += 1
