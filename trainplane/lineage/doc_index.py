"""From a document to the sequences that hold it, without reading `packed`: sorted pairs (start of doc_id, seq_id) in a file that is mapped.

Made once for each version of `packed`, from its spans alone, in memory that does not grow with them: the pairs are split by the first
byte of the doc_id, and each part is sorted by itself. 16 bytes a span.
"""

from __future__ import annotations

import binascii
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import UsageError
from dataplane.schema import DOC_ID_HEX_CHARS
from dataplane.snapshot import Snapshot

FOLDER = Path("journal") / "doc_index"
PAIR = np.dtype([("key", ">u8"), ("seq_id", "<i8")])
KEY_HEX_CHARS = 16
PARTS = 256
BATCH_ROWS = 1 << 14


class DocIndex:
    """The index of one version of `packed`.

    Args:
        packed: The version.
        root: Folder of the project, where the index is kept.
    """

    def __init__(self, packed: Snapshot, root: Path = Path()) -> None:
        self.packed = packed
        path = root / FOLDER / f"{packed.digest}.pairs"
        if not path.exists():
            _make(packed, path)
        self._pairs = np.memmap(path, PAIR, "r") if path.stat().st_size else np.empty(0, PAIR)

    def seq_ids(self, doc_id: str) -> list[int]:
        """The sequences that hold a document, in order.

        Raises:
            UsageError: That is no doc_id.
        """
        try:
            wanted = np.array(int(doc_id[:KEY_HEX_CHARS], 16), ">u8")
            known = len(doc_id) == DOC_ID_HEX_CHARS
        except ValueError:
            known = False
        if not known:
            raise UsageError(f"{doc_id!r} is no doc_id: they have {DOC_ID_HEX_CHARS} hex digits", fix="`dataplane sql` finds documents")
        keys = self._pairs["key"]
        found = self._pairs["seq_id"][np.searchsorted(keys, wanted, "left") : np.searchsorted(keys, wanted, "right")]
        candidates = sorted(set(found.tolist()))
        # Two documents may begin alike: the spans decide.
        rows = self.packed.take(candidates, ["spans"]).column("spans").to_pylist() if candidates else []
        return [seq_id for seq_id, spans in zip(candidates, rows, strict=True) if any(span["doc_id"] == doc_id for span in spans)]


def _make(packed: Snapshot, path: Path) -> None:
    """Writes the file in one rename."""
    folder = path.with_name(f"{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for pairs in _pairs(packed):
        part_of = pairs["key"] >> np.uint64(56)
        for part in np.unique(part_of):
            with (folder / str(part)).open("ab") as stream:
                stream.write(pairs[part_of == part].tobytes())
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as out:
        for part in range(PARTS):
            if (folder / str(part)).exists():
                out.write(np.sort(np.fromfile(folder / str(part), PAIR)).tobytes())
    partial.replace(path)
    shutil.rmtree(folder)


def _pairs(packed: Snapshot) -> Iterator[npt.NDArray[np.void]]:
    for batch in packed.batches(["seq_id", "spans"], batch_size=BATCH_ROWS):
        spans = batch.column("spans")
        doc_ids = spans.flatten().field("doc_id").cast(pa.string())
        pairs = np.empty(len(doc_ids), PAIR)
        text = "".join(doc_ids.to_pylist())
        pairs["key"] = np.frombuffer(binascii.unhexlify(text), ">u8")[::2]
        pairs["seq_id"] = np.repeat(batch.column("seq_id").to_numpy(), spans.value_lengths().to_numpy())
        yield pairs
