"""Programs that a model wrote, run where they can do no harm; where that cannot be promised, they are not run at all.

A program runs as one process without network, rights or files but the interpreter's, read-only, and an empty /tmp, in namespaces of
its own (user, mount, PID, network, IPC, UTS, cgroup), under hard limits on memory, processes, time, and what it writes. It shares
the kernel, without a filter of system calls: a flaw of the kernel is a way out. Before the first program, a probe tries what must
be denied.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trainplane.errors import SandboxUnavailable
from trainplane.evaluate import sandbox_boot

PASSED, FAILED, TIMEOUT = "passed", "failed", "timeout"
TOLD = 2000
# Each line must raise: a process, a thread, a way out, a file outside, a name in the tree, a namespace, memory.
PROBE = """
import ctypes, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
tries = {
    "fork": lambda: os.fork() or os._exit(0), "thread": threading.Thread(target=int).start,
    "network": lambda: socket.create_connection(("127.0.0.1", 9), 1), "read": lambda: open("/etc/passwd"),
    "write": lambda: open("/probe", "w"), "root": lambda: os.chroot("/tmp"), "memory": lambda: bytearray(1 << 40),
    "namespace": lambda: 1 / (libc.unshare(0x10000000) == 0),
}
for name, attempt in tries.items():
    try:
        attempt()
    except (OSError, RuntimeError, MemoryError, ZeroDivisionError):
        continue
    print("not denied:", name)
    raise SystemExit(1)
if os.listdir("/tmp") or os.path.exists("/proc"):
    raise SystemExit("not denied: files")
"""


@dataclass(frozen=True)
class Limits:
    """Of one program.

    Attributes:
        seconds: Of wall time; the processor's time is bound to the same, rounded up.
        memory_mb: Address space, interpreter included.
        scratch_mb: Size of /tmp.
        output_bytes: What it may write to any one file, its output included.
    """

    seconds: float = 5.0
    memory_mb: int = 512
    scratch_mb: int = 16
    output_bytes: int = 1 << 20

    def hard(self) -> dict[str, int]:
        """As the kernel takes them. One process: it can start neither another nor a thread."""
        return {
            "RLIMIT_AS": self.memory_mb << 20, "RLIMIT_NPROC": 1, "RLIMIT_CPU": int(self.seconds) + 1, "RLIMIT_FSIZE": self.output_bytes,
            "RLIMIT_NOFILE": 32, "RLIMIT_CORE": 0, "RLIMIT_MSGQUEUE": 0, "RLIMIT_MEMLOCK": 0,
        }  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        verdict: "passed" (it ran to its last line), "failed" or "timeout".
        told: The end of what it wrote.
    """

    verdict: str
    told: str


def run_program(program: str, limits: Limits | None = None) -> Outcome:
    """Runs a Python program, its asserts included.

    Args:
        program: It has the standard library.
        limits: Default ones where none are given.

    Raises:
        SandboxUnavailable: This machine cannot shut a program in.
    """
    require_sandbox()
    return _run(program, limits or Limits())


@functools.cache
def require_sandbox() -> None:
    """Tries what must be denied, once a process.

    Raises:
        SandboxUnavailable: Something was not denied, or the sandbox does not start.
    """
    outcome = _run(PROBE, Limits(seconds=30))
    if outcome.verdict != PASSED:
        raise _unavailable(outcome.told)


def _unavailable(told: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"programs cannot be shut in here: {told.strip() or 'the probe did not end'}",
        where="sandbox",
        fix="run on Linux with user namespaces (user.max_user_namespaces above 0, none forbidden by the container), or leave pass@k out",
    )


def _run(program: str, limits: Limits) -> Outcome:
    """A last line of our own tells a program that ran to its end from one that left early with status 0."""
    if not sys.platform.startswith("linux"):
        raise _unavailable("this is not Linux")
    last = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="sandbox-") as root, tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as told:
        source.write(f"{program}\nprint({last!r})\n".encode("utf-8", "replace"))
        source.seek(0)
        command = [sys.executable, "-I", "-S", sandbox_boot.__file__, json.dumps(_wanted(root, limits))]
        boot = subprocess.Popen(command, stdin=source, stdout=told, stderr=subprocess.STDOUT, env={}, cwd="/")
        try:
            code: int | None = boot.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            boot.kill()
            boot.wait()
        told.seek(max(0, os.fstat(told.fileno()).st_size - TOLD))
        text = told.read().decode("utf-8", "replace")
    if code == sandbox_boot.CANNOT_START:
        raise _unavailable(text)
    verdict = TIMEOUT if code is None else PASSED if code == 0 and text.endswith(f"{last}\n") else FAILED
    return Outcome(verdict, text.removesuffix(f"{last}\n"))


def _wanted(root: str, limits: Limits) -> dict[str, object]:
    python, prefix = os.path.realpath(sys.executable), sys.base_prefix
    shown = ["/lib", "/lib64", *(["/usr"] if prefix == "/usr" else ["/usr/lib", "/usr/lib64", prefix])]
    return {
        "root": root, "shown": shown, "scratch_mb": limits.scratch_mb, "limits": limits.hard(), "python": python,
        "environment": {"LD_LIBRARY_PATH": str(Path(prefix) / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
    }  # fmt: skip
