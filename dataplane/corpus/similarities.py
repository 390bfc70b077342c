"""Similarities of pairs of texts that were computed before: what a later run need not compare again.

A similarity is a function of two texts, so it is known by their hashes and holds wherever the texts now stand. Pairs are appended to a file
as they are found; a run that is killed loses the last few, and the next one goes on from there. The file is no part of any result.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataplane.kernels.minhash import pair_key

U64 = npt.NDArray[np.uint64]

_RECORD = np.dtype([("low", "<u8"), ("high", "<u8"), ("value", "<f8")])
_FLUSH = 512


class Similarities:
    """Pairs on disk.

    Args:
        path: The file; it need not be there.
        texts: uint64 [n, 2], 128-bit hash of each document's text.
    """

    def __init__(self, path: Path, texts: U64) -> None:
        self.path, self.texts = path, texts
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.stat().st_size // _RECORD.itemsize if path.exists() else 0
        known = np.fromfile(path, _RECORD, whole) if whole else np.zeros(0, _RECORD)
        self._known = known[np.argsort(known["low"], kind="stable")]
        self._low = np.ascontiguousarray(self._known["low"])
        self._used = np.zeros(len(known), np.bool_)
        self._whole, self._new = whole, list[tuple[int, int, float]]()
        with path.open("ab") as stream:  # a record that was cut off would put all behind it out of step
            stream.truncate(whole * _RECORD.itemsize)

    def get(self, left: int, right: int) -> float | None:
        """The similarity of two documents, None where it is not known."""
        low, high = pair_key(self.texts, left, right)
        for i in range(int(np.searchsorted(self._low, np.uint64(low))), len(self._low)):
            if self._low[i] != low:
                break
            if self._known["high"][i] == high:
                self._used[i] = True
                return float(self._known["value"][i])
        return None

    def put(self, left: int, right: int, value: float) -> None:
        """Keeps a similarity."""
        self._new.append((*pair_key(self.texts, left, right), value))
        if len(self._new) >= _FLUSH:
            self._append()

    def _append(self) -> None:
        with self.path.open("ab") as stream:
            stream.write(np.array(self._new, _RECORD).tobytes())
        self._new.clear()

    def close(self) -> None:
        """Leaves the pairs that this run has asked for, and no others."""
        self._append()
        new = np.fromfile(self.path, _RECORD, offset=self._whole * _RECORD.itemsize)
        partial = self.path.with_name(self.path.name + ".partial")
        with partial.open("wb") as stream:
            stream.write(self._known[self._used].tobytes())
            stream.write(new.tobytes())
        partial.replace(self.path)
