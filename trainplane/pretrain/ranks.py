"""The processes of a run: who this one is, what they tell each other, and how a stage starts them by itself.

A launcher (torchrun, or DeepSpeed's with a hostfile) sets RANK and WORLD_SIZE and starts every process. Without one, the first process
starts the others with its own command, as many as the setting `training.processes` says.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PARENT = "TERRAPLANE_PARENT"  # process that started this rank; the rank dies with it
PR_SET_PDEATHSIG = 1  # of Linux's prctl.h
LOOK_SECONDS = 0.5


def rank() -> int:
    """Number of this process, 0 for the one that keeps the books."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Number of this process among those of its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """Processes of the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def gather(value: Any) -> list[Any]:
    """The values of all ranks, in their order, on every rank."""
    if world_size() == 1:
        return [value]
    import torch

    values: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def broadcast(value: Any) -> Any:
    """Rank 0's value, on every rank."""
    if world_size() == 1:
        return value
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def barrier() -> None:
    """Waits for every rank."""
    if world_size() > 1:
        import torch

        torch.distributed.barrier()


@contextmanager
def started(processes: int, command: list[str], exit_seconds: float) -> Iterator[None]:
    """Runs the other ranks of this machine beside this process, which becomes rank 0.

    Args:
        processes: Ranks in all; 1 starts none. Counts for nothing where a launcher has started the ranks.
        command: What a rank runs.
        exit_seconds: In which a rank ends, once another has.

    Raises:
        subprocess.CalledProcessError: A rank failed although this one did not.
    """
    if processes == 1 or "WORLD_SIZE" in os.environ:
        yield
        return
    group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "RANK": "0", "LOCAL_RANK": "0"}
    os.environ.update(group)
    environments = [os.environ | {"RANK": str(i), "LOCAL_RANK": str(i), PARENT: str(os.getpid())} for i in range(1, processes)]
    others = [subprocess.Popen(command, env=environment, stdout=sys.stderr) for environment in environments]
    over = threading.Event()
    watch = threading.Thread(target=_end_with_any, args=(others, over, exit_seconds), name="ranks", daemon=True)
    watch.start()
    try:
        yield
        over.set()
        for process in others:
            if process.wait(exit_seconds):
                raise subprocess.CalledProcessError(process.returncode, command)
    finally:
        over.set()
        watch.join()
        for process in others:
            process.kill()
            process.wait()
        for name in group:
            os.environ.pop(name, None)


def _end_with_any(others: list[subprocess.Popen[bytes]], over: threading.Event, exit_seconds: float) -> None:
    """Ends this process when another rank has failed and this one has not noticed: it may wait for that rank forever."""
    while not over.wait(LOOK_SECONDS):
        failed = [number for number, process in enumerate(others, 1) if process.poll()]
        if failed and not over.wait(exit_seconds):
            sys.stderr.write(f"error: rank {failed[0]} ended with {others[failed[0] - 1].returncode}, and rank 0 did not notice\n")
            os._exit(1)


def die_with_parent() -> None:
    """Ends this rank when the process that started it ends, however it ends. Only Linux knows the call."""
    parent = os.environ.get(PARENT)
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before the call
        os.kill(os.getpid(), signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
