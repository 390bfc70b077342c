"""Lines as keys that say on which site they stand, and the sorted keys of those that are not text but the site's.

A key is 64 bits of hash of a line under the hash of its site. Upper case of ASCII and the values of numbers make no difference, so that
"3 comments" and "12 Comments" are one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.hashing import hash128, xxh64
from dataplane.kernels.line_edits import Lines, Mask
from dataplane.kernels.unicode import OCTETS

U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class SiteLines:
    """The lines that repeat.

    Attributes:
        keys: uint64 [lines], sorted.
    """

    keys: U64

    def save(self, path: Path) -> None:
        """Writes the file that `load` maps."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            np.save(stream, self.keys, allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> SiteLines:
        """Maps a file into memory.

        Raises:
            ModelMissing: There is none, or a damaged one.
        """
        fix = "make it with `dataplane fit-site-lines`"
        try:
            keys = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ModelMissing(f"{path} holds no repeated lines: {error}", where="site_lines.path", fix=fix) from None
        if keys.dtype != np.uint64 or keys.ndim != 1 or (keys[1:] <= keys[:-1]).any():
            raise ModelMissing(f"{path} holds no sorted 64-bit hashes", where="site_lines.path", fix=fix)
        return cls(keys)

    def holds(self, keys: U64) -> Mask:
        """Which of these keys are among them: bool [m]."""
        if not len(self.keys):
            return np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        held: Mask = self.keys[places] == keys
        return held


def line_keys(lines: Lines, sites: pa.Array) -> tuple[U64, Mask]:
    """The key of each line.

    Args:
        lines: The lines of n documents, m in all.
        sites: string [n], null where the document has none.

    Returns:
        uint64 [m]; bool [m], whether the line has a key: it is not blank, and its document has a site
    """
    of_document = np.repeat(np.arange(len(sites)), np.diff(lines.first))
    seeds = hash128(sites)[:, 0][of_document]
    known = sites.is_valid().to_numpy(zero_copy_only=False)[of_document] & ~lines.blank
    longest = int(np.diff(lines.inner).max(initial=0))
    return _keys(lines.data, lines.inner, np.ascontiguousarray(seeds), np.empty(longest, np.uint8)), known


@nb.njit(nb.uint64[::1](OCTETS, nb.int64[:, ::1], nb.uint64[::1], nb.uint8[::1]), cache=True, nogil=True)
def _keys(data, inner, seeds, line):  # type: ignore[no-untyped-def]
    out = np.empty(len(inner), np.uint64)
    for i in range(len(inner)):
        n = 0
        for at in range(inner[i, 0], inner[i, 1]):
            octet = data[at]
            if 65 <= octet <= 90:
                octet |= nb.uint8(32)
            elif 48 <= octet <= 57:
                octet = nb.uint8(48)
                if n and line[n - 1] == octet:
                    continue
            line[n] = octet
            n += 1
        out[i] = xxh64(line, 0, n, seeds[i])
    return out
