"""Two segments of each document, of which the second is its own or another document's: what a model learns next sentences from.

Segments are taken from the documents of one sequence alone. So the order, the ledger and what is traced or forgotten stay true: a step
shows no document that its sequences do not hold; and which segments are changed is a pure function of (seed, step, sequence).

Source: BERT, Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2. Unlike there, segments are told apart by their ids alone, without a
separator, so that no token is lost, and each document of a sequence is a pair of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainplane.data.packed import I64, IGNORED, PADDING, Batch

NEXT, OTHER = 0, 1  # as transformers' heads count them
OTHER_SHARE = 0.5
STREAM = 1  # beside the random numbers that hide tokens


def paired(batch: Batch, seed: int, step: int) -> Batch:
    """The batch with `segments` and `pairs`; every second document, by chance, has its second segment from another of its sequence.

    A document's first segment is at least its first token; it ends at a place that is drawn evenly. Where the other document's second
    segment is longer it is cut, and where it is shorter, padding is left behind it. A document without a second segment (one token), or
    without another one beside it that has one, is no pair: its answer would always be "next".

    Args:
        batch: Whole sequences or pieces; labels are of no account.
        seed: Of the run.
        step: From 1.
    """
    ids, documents, positions = batch.input_ids.copy(), batch.documents.copy(), batch.position_ids.copy()
    segments, pairs = np.zeros_like(ids), np.full_like(ids, IGNORED)
    for row, seq_id in enumerate(batch.seq_ids):
        draw = np.random.default_rng([seed, step, int(seq_id), row % batch.n_pieces, STREAM])
        starts, ends = _spans(batch.documents[row])
        cuts = starts + draw.integers(1, np.maximum(2, ends - starts))
        two = np.flatnonzero(ends - starts >= 2)
        for number in two:
            segments[row, cuts[number] : ends[number]] = 1
        if len(two) < 2:
            continue
        for number in two:
            is_other, which = draw.random() < OTHER_SHARE, int(draw.integers(0, len(two) - 1))
            pairs[row, starts[number]] = OTHER if is_other else NEXT
            if is_other:
                other = two[two != number][which]
                taken = batch.input_ids[row, cuts[other] : ends[other]][: ends[number] - cuts[number]]
                end = cuts[number] + len(taken)
                ids[row, cuts[number] : end] = taken
                documents[row, end : ends[number]], positions[row, end : ends[number]] = PADDING, 0
    return replace(batch, input_ids=ids, documents=documents, position_ids=positions, segments=segments, pairs=pairs)


def _spans(documents: I64) -> tuple[I64, I64]:
    """Where each document of a row begins, and where it has ended: int64 [d] each."""
    edges = np.flatnonzero(np.diff(documents, prepend=PADDING, append=PADDING))
    starts = np.array([at for at in edges if at < len(documents) and documents[at] != PADDING], np.int64)
    ends = np.array([at for at in edges if at > 0 and documents[at - 1] != PADDING], np.int64)
    return starts, ends
