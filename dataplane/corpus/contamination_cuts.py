"""Where benchmark items stand in a contaminated document, and what is cut out of it for them.

Source: Brown et al. 2020 (arXiv:2005.14165, appendix C): 200 characters on each side go too, and so does a document of which too little is
left or that falls into too many pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus.contamination import DecontaminateParams, Index
from dataplane.engine.cuts import Cuts, Spans, kept, without
from dataplane.kernels.ngrams import letter_places
from dataplane.snapshot import Snapshot

_DOCUMENTS_AT_ONCE = 256
Cut = tuple[str, int, int, str]  # doc_id, start, stop, benchmark


def cut_out(index: Index, hits: pa.Table, documents: Snapshot, cuts: Cuts, params: DecontaminateParams) -> tuple[pa.Table, pa.Array]:
    """What is cut out of contaminated documents.

    Args:
        index: What was looked for.
        hits: Rows of `contamination`.
        documents: The documents.
        cuts: What is cut out of them already.
        params: From which share on an item counts, how wide the margin is, and how much has to be left.

    Returns:
        Rows of `cuts` for the documents that stay, in code points of the stored text; doc_ids of those of which too little stays
    """
    over = hits.filter(pc.greater_equal(hits["covered"], params.min_covered)).select(["doc_id", "benchmark", "item_id"]).to_pylist()
    wanted: dict[str, set[tuple[str, str]]] = {}
    for row in over:
        wanted.setdefault(row["doc_id"], set()).add((row["benchmark"], row["item_id"]))
    grams = _grams(index, {item for items in wanted.values() for item in items})
    found: list[Cut] = []
    gone = []
    for doc_id, text in _texts(documents, sorted(wanted)):
        before = cuts.spans(doc_id)
        own = [(*span, item[0]) for item in sorted(wanted[doc_id]) for span in _located(without(text, before), grams[item], params.margin)]
        if _enough(without(text, before), [(start, stop) for start, stop, _ in own], params):
            segments = kept(text, before)
            found += [(doc_id, *part, benchmark) for start, stop, benchmark in own for part in _stored(segments, start, stop)]
        else:
            gone.append(doc_id)
    rows = {name: [row[i] for row in found] for i, name in enumerate(schema.CUTS.names)}
    return pa.table(rows, schema=schema.CUTS), pa.array(sorted(gone), pa.string())


def _grams(index: Index, items: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Sequence[str]]:
    """The letters of each n-gram of some items."""
    numbers = {i: item for i, item in enumerate(index.items) if item in items}
    of_posting = index.passage_items[index.postings]
    rows = np.flatnonzero(np.isin(of_posting, list(numbers)))
    grams = np.searchsorted(index.posting_starts, rows, side="right") - 1
    letters: dict[tuple[str, str], list[str]] = {item: [] for item in items}
    for row, gram in zip(rows.tolist(), grams.tolist(), strict=True):
        at = index.grams.places[gram]
        letters[numbers[int(of_posting[row])]].append(_text(index.grams.letters[at : at + index.grams.lengths[gram]]))
    return letters


def _text(letters: np.ndarray[tuple[int], np.dtype[np.int32]]) -> str:
    return "".join(map(chr, letters.tolist()))


def _texts(documents: Snapshot, doc_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(doc_ids), _DOCUMENTS_AT_ONCE):
        rows = documents.to_table(["doc_id", "text"], among={"doc_id": list(doc_ids[at : at + _DOCUMENTS_AT_ONCE])})
        for row in rows.sort_by("doc_id").to_pylist():
            yield row["doc_id"], row["text"]


def _located(text: str, grams: Sequence[str], margin: int) -> Spans:
    """Where these n-grams stand in a text, with a margin that ends between words: code points, in order, those that meet joined."""
    letters, places = letter_places(text)
    inside = np.cumsum(_change(_text(letters), grams)) > 0
    edges = np.diff(inside.astype(np.int8), prepend=0)
    starts, stops = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    joined: list[tuple[int, int]] = []
    for first, after in zip(starts.tolist(), stops.tolist(), strict=True):
        start, stop = _between_words(text, int(places[first]) - margin, int(places[after - 1]) + 1 + margin)
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


def _change(folded: str, grams: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many n-grams begin at each letter, less those that end before it: int64 [letters + 1]."""
    change = np.zeros(len(folded) + 1, np.int64)
    for gram in grams:
        at = folded.find(gram)
        while at >= 0:
            change[at] += 1
            change[at + len(gram)] -= 1
            at = folded.find(gram, at + 1)
    return change


def _between_words(text: str, start: int, stop: int) -> tuple[int, int]:
    """A span widened to white space, or to a character that no ASCII word is made of: Chinese text has none to go to."""
    start, stop = max(0, start), min(len(text), stop)
    while start > 0 and _of_word(text[start]) and _of_word(text[start - 1]):
        start -= 1
    while stop < len(text) and _of_word(text[stop - 1]) and _of_word(text[stop]):
        stop += 1
    return start, stop


def _of_word(char: str) -> bool:
    return char.isascii() and not char.isspace()


def _enough(text: str, spans: Spans, params: DecontaminateParams) -> bool:
    """Whether enough of a text is left, in few enough pieces."""
    left = kept(text, spans)
    return len(left) <= params.max_pieces and sum(stop - start for start, stop in left) >= params.min_left


def _stored(segments: Spans, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The parts of the stored text that a span of what was kept of it lies in."""
    at = 0
    for first, after in segments:
        inside = (max(start, at), min(stop, at + after - first))
        if inside[0] < inside[1]:
            yield first + inside[0] - at, first + inside[1] - at
        at += after - first
