"""Tables whose rows come in the order of the documents, put beside them without a join.

Every stage works through `documents` from its first row to its last, so what it writes follows their order; a walk down
both finds each row's document. A table that was written from other documents may not follow: that is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.follow import U64, follow, id_words
from dataplane.lake.store import Data

BATCH_ROWS = 1 << 16
I64 = npt.NDArray[np.int64]

# What to do with rows of a table and the places of their documents.
Take = Callable[[pa.RecordBatch, I64], None]


class Follower:
    """A table on its way down the documents.

    Args:
        table: Has the column doc_id.
        columns: What `take` needs of it beside.
        take: Is given its rows, batch by batch.
    """

    def __init__(self, table: Data, columns: Sequence[str], take: Take) -> None:
        self._batches: Iterator[pa.RecordBatch] = table.batches(["doc_id", *columns], None, BATCH_ROWS, 0, None)
        self._take = take
        self._batch: pa.RecordBatch | None = None
        self._words: U64 | None = None
        self._row, self._places = 0, np.zeros(0, np.int64)
        self._next()

    @property
    def finished(self) -> bool:
        """Whether every row has found its document."""
        return self._batch is None

    def advance(self, ids: U64, start: int) -> None:
        """Goes down a batch of documents, of which the first has the place `start`."""
        at = 0
        while self._batch is not None and self._words is not None and at < len(ids):
            at, self._row = follow(ids, at, self._words, self._row, start, self._places)
            if self._row == len(self._batch):
                self._take(self._batch, self._places)
                self._next()

    def _next(self) -> None:
        self._batch = next((batch for batch in self._batches if len(batch)), None)
        if self._batch is not None:
            self._words = id_words(self._batch.column("doc_id"))
            self._row, self._places = 0, np.zeros(len(self._batch), np.int64)


def align(documents: Data, followers: Sequence[Follower]) -> None:
    """Goes down the documents with tables that follow them; afterwards they are `finished`, or have lost the way."""
    start = 0
    for batch in documents.batches(["doc_id"], None, BATCH_ROWS, 0, None):
        if all(follower.finished for follower in followers):
            return
        words = id_words(batch.column("doc_id")) if len(batch) else None
        if words is not None:
            for follower in followers:
                follower.advance(words, start)
        start += len(batch)
