"""A copy of `packed` on this machine's disk that ranks map into memory, made once for each version.

The lake may lie on S3 and its files are encoded; a rank of a training run reads rows here and there at each step. Arrays on a local disk
need no decoding and no network, and the system's page cache is shared by the ranks. A copy is as large as the tokens (2 or 4 bytes each,
and 40 bytes a document); it can be deleted at any time. That it says what the snapshot says is proven by `trainplane verify`, which reads
the snapshot.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from dataplane.publish.export_flat import write_batches
from dataplane.snapshot import Snapshot
from trainplane.data.flat import FlatPacked

FOLDER = Path("journal") / "sequences"
BATCH_ROWS = 1 << 12


def local_copy(packed: Snapshot, vocabulary: int, folder: Path) -> FlatPacked:
    """The sequences of a snapshot, mapped; they are copied first where they are not yet.

    Several processes may do so at once: each writes a folder of its own, and the first to finish gives it the name.

    Args:
        packed: Version of `packed`.
        vocabulary: Size of the tokenizer's; decides the type of the tokens.
        folder: Of this machine's copies.
    """
    path = folder / packed.digest
    if not path.exists():
        partial = folder / f"{packed.digest}.{uuid.uuid4().hex}.partial"
        partial.mkdir(parents=True)
        try:
            batches = packed.batches(["input_ids", "spans"], batch_size=BATCH_ROWS)
            write_batches(batches, partial, packed_length(packed), vocabulary)
            _publish(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return FlatPacked(path)


def packed_length(packed: Snapshot) -> int:
    """Tokens of a sequence."""
    return int(packed.schema.field("input_ids").type.list_size)


def _publish(partial: Path, path: Path) -> None:
    """Gives the folder its name; where another process was faster, its copy is as good."""
    for written in partial.iterdir():
        with written.open("rb") as stream:
            os.fsync(stream.fileno())
    try:
        partial.rename(path)
    except OSError:
        if not path.is_dir():
            raise
