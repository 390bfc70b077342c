"""What DeepSpeed saves, first copied to host memory and then written by a thread, and read back before it counts.

DeepSpeed hands each of its files to a "checkpoint engine"; this is one. Training goes on once the copy is made.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

from trainplane.errors import TrainingError
from trainplane.pretrain.deepspeed_file import read_file


class HostCopy:
    """DeepSpeed's files of one rank, on their way to disk.

    The methods with DeepSpeed's names are those of deepspeed.runtime.checkpoint_engine.CheckpointEngine.

    Attributes:
        files: Once written: path below the folder -> {"bytes", "sha256"}.
    """

    name = "HostCopy"

    def __init__(self) -> None:
        self._states: list[tuple[Path, Any]] = []
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.files: dict[str, dict[str, Any]] = {}

    def save(self, state_dict: Any, path: str) -> None:
        """Copies a file's content; called by DeepSpeed."""
        self._states.append((Path(path), to_host(state_dict)))

    def load(self, path: str, map_location: Any = None) -> Any:
        """Content of a file; called by DeepSpeed."""
        return read_file(Path(path), map_location)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """A folder; called by DeepSpeed."""
        os.makedirs(path, exist_ok=exist_ok)

    def create(self, info: Any) -> None:
        """Called by DeepSpeed before the first file."""

    def commit(self, info: Any) -> bool:
        """Called by DeepSpeed after the last file; `start` is what writes."""
        return True

    def is_data_parallel_writer(self, dp_rank: int) -> bool:
        """Whether this rank writes what all data-parallel ranks share."""
        return dp_rank == 0

    def is_decoupled(self) -> bool:
        """DeepSpeed need not wait for anything."""
        return False

    def preserves_storage_sharing(self) -> bool:
        """Each tensor is copied by itself, so DeepSpeed need not take views apart."""
        return False

    def start(self, folder: Path) -> None:
        """Begins to write; the paths in `files` will be below `folder`."""
        self.files, self._error = {}, None
        self._thread = threading.Thread(target=self._write, args=(folder,), name="checkpoint")
        self._thread.start()

    def done(self) -> bool:
        """Whether nothing is being written."""
        return self._thread is None or not self._thread.is_alive()

    def join(self) -> None:
        """Waits for the thread."""
        if self._thread is not None:
            self._thread.join()

    def failure(self) -> BaseException | None:
        """What went wrong in the thread."""
        return self._error

    def _write(self, folder: Path) -> None:
        try:
            for path, state in self._states:
                self.files[path.relative_to(folder).as_posix()] = _write_file(path, state)
        # Whatever it is: it is told to all ranks, which stop together.
        except BaseException as error:  # noqa: BLE001
            self._error = error
        finally:
            self._states = []


def _write_file(path: Path, state: Any) -> dict[str, Any]:
    """Writes one file through to disk and reads it back.

    Raises:
        TrainingError: What is read is not what was written.
    """
    import torch

    with path.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    if not same(state, read_file(path)):
        raise TrainingError("a checkpoint's file reads back otherwise than it was written", where=str(path), fix="look at the disk")
    return {"bytes": path.stat().st_size, "sha256": file_hash(path)}


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def to_host(value: Any, seen: dict[Any, Any] | None = None) -> Any:
    """A deep copy with every tensor in host memory; tensors that are one in `value`, as tied weights are, stay one."""
    import torch

    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        key = (value.data_ptr(), value.storage_offset(), value.dtype, tuple(value.shape), tuple(value.stride()), value.device)
        if key not in seen or not value.numel():
            seen[key] = value.detach().to("cpu", copy=True).contiguous()
        return seen[key]
    if isinstance(value, dict):
        copied = copy.copy(value)
        for name, inner in value.items():
            copied[name] = to_host(inner, seen)
        return copied
    if type(value) in (list, tuple):
        return type(value)(to_host(inner, seen) for inner in value)
    return copy.deepcopy(value)


def same(a: Any, b: Any) -> bool:
    """Whether two states hold the same bits in all tensors and equal numbers and texts."""
    import torch

    if isinstance(a, torch.Tensor):
        return bool(a.dtype == b.dtype and a.shape == b.shape and torch.equal(_bits(a), _bits(b)))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    # NaN is no equal of itself; objects of DeepSpeed know no equality.
    return type(a) is type(b) and (not isinstance(a, int | float | str | bytes) or bool(a == b or a != a))


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().flatten().view(torch.uint8)
