"""Hands a rank its own rows of each step, and reads those of the next step in a thread while the model works.

There is no state: what is read ahead is a guess that nothing depends on. A rollback or a skip asks for other rows, and those are read.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from trainplane.data.packed import I64, Batch, Sequences


class Loader:
    """Reads batches, one ahead.

    Args:
        sequences: What is read.
    """

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self._ahead: tuple[I64, Future[Batch]] | None = None

    def batch(self, seq_ids: I64, following: I64 | None = None) -> Batch:
        """The sequences with these ids.

        Args:
            seq_ids: int64 [b]
            following: What is likely to be asked for next: it is read in the meantime.
        """
        ahead, self._ahead = self._ahead, None
        ready = ahead is not None and np.array_equal(ahead[0], seq_ids)
        found = ahead[1].result() if ahead is not None and ready else self.sequences.batch(seq_ids)
        if following is not None:
            self._ahead = following, self._thread.submit(self.sequences.batch, following)
        return found

    def close(self) -> None:
        """Ends the thread."""
        self._ahead = None
        self._thread.shutdown(cancel_futures=True)
