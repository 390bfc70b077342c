"""Shuts itself in, then becomes the program of its stdin: run by sandbox.py as a script of its own, with nothing but the standard library.

The order matters: namespaces first, since they give the rights that mounts need; the new root next; the rights are dropped last,
just before the interpreter is started anew. Any step that fails ends the script with CANNOT_START, so that nothing runs half shut in.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path

CANNOT_START = 113
NOBODY = 65534
LIBC = ctypes.CDLL(None, use_errno=True)
# linux/sched.h: new mount, cgroup, UTS, IPC, user, PID and network namespaces
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
# linux/mount.h
RDONLY, NOSUID, NODEV, REMOUNT, BIND, REC, PRIVATE, RELATIME = 1, 2, 4, 32, 4096, 16384, 1 << 18, 1 << 21
DETACH = 2
# linux/prctl.h
SET_PDEATHSIG, CAPBSET_DROP, SET_NO_NEW_PRIVS = 1, 24, 38
# What a process could keep memory in that RLIMIT_AS does not count, and namespaces of its own, where it would have rights again.
CLOSED = ("kernel/shmall", "kernel/shmmni", "kernel/msgmni", "user/max_user_namespaces")


def call(name: str, *arguments: object) -> None:
    """A call of libc.

    Raises:
        OSError: It failed.
    """
    if getattr(LIBC, name)(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def mount(source: str, target: Path, kind: str, flags: int, data: str = "") -> None:
    """Mounts.

    Raises:
        OSError: It cannot.
    """
    call("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())


def enter_namespaces() -> None:
    """New namespaces; the parent, which alone may, maps the users: root to itself, so that its files can be read, and nobody."""
    ready, mapped = os.pipe(), os.pipe()
    user, group, child = os.geteuid(), os.getegid(), os.fork()
    if child == 0:
        call("prctl", SET_PDEATHSIG, signal.SIGKILL)
        call("unshare", NAMESPACES)
        os.write(ready[1], b"1")
        os.close(mapped[1])
        if os.read(mapped[0], 1) != b"1":
            raise OSError("the users could not be mapped")
        return
    os.close(ready[1])
    if os.read(ready[0], 1) == b"1":
        folder, more = Path("/proc") / str(child), "" if user else f"{NOBODY} {NOBODY} 1\n"
        (folder / "setgroups").write_text("deny")
        (folder / "uid_map").write_text(f"0 {user} 1\n{more}")
        (folder / "gid_map").write_text(f"0 {group} 1\n{more}")
        os.write(mapped[1], b"1")
    wait_and_exit(child)


def wait_and_exit(child: int) -> None:
    """Ends as the child ends."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def become_first() -> None:
    """The first process of the PID namespace: when it ends, so does everything in it."""
    child = os.fork()
    if child:
        wait_and_exit(child)
    call("prctl", SET_PDEATHSIG, signal.SIGKILL)


def build_root(root: Path, shown: list[str], scratch_mb: int) -> None:
    """A root that holds the folders shown, read-only, and an empty /tmp of limited size; all else is out of reach."""
    mount("none", Path("/"), "", REC | PRIVATE)
    mount("none", root, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    for folder in map(Path, shown):
        target = root / folder.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():
            target.symlink_to(os.readlink(folder))
        elif folder.is_dir():
            target.mkdir(exist_ok=True)
            mount(str(folder), target, "", BIND | REC)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = Path(line.split()[4])
        if root in place.parents:
            mount("none", place, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV | kept_flags(place))
    (root / "tmp").mkdir()
    mount("none", root / "tmp", "tmpfs", NOSUID | NODEV, f"size={scratch_mb}m,mode=777")
    mount("none", root, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV)


def kept_flags(place: Path) -> int:
    """Flags of a mount that its remount has to repeat: a user namespace must not loosen them."""
    flags = os.statvfs(place).f_flag
    return (flags & (2 | 4 | 8 | 1024 | 2048)) | (RELATIME if flags & 4096 else 0)


def change_root(root: Path) -> None:
    """Nothing of the old root stays mounted."""
    os.chdir(root)
    call("pivot_root", b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/tmp")


def give_up_rights(was_root: bool, last_capability: int) -> None:
    """No capability is left, nor a way to get one back; root becomes nobody, since limits on processes do not bind root."""
    if was_root:
        os.setresgid(NOBODY, NOBODY, NOBODY)
    for capability in range(last_capability + 1):
        call("prctl", CAPBSET_DROP, capability, 0, 0, 0)
    call("prctl", SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if was_root:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    call("prctl", SET_PDEATHSIG, signal.SIGKILL)


def set_limits(limits: dict[str, int]) -> None:
    """Hard limits, by the names of `resource`."""
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def main() -> None:
    """Reads what to do from its only argument."""
    wanted = json.loads(sys.argv[1])
    call("prctl", SET_PDEATHSIG, signal.SIGKILL)
    was_root = os.geteuid() == 0
    enter_namespaces()
    become_first()
    for name in CLOSED:
        (Path("/proc/sys") / name).write_text("0")
    build_root(Path(wanted["root"]), wanted["shown"], wanted["scratch_mb"])
    last_capability = int(Path("/proc/sys/kernel/cap_last_cap").read_text())  # the new root has no /proc
    change_root(Path(wanted["root"]))
    give_up_rights(was_root, last_capability)
    set_limits(wanted["limits"])
    os.execve(wanted["python"], [wanted["python"], "-I", "-S", "-"], wanted["environment"])


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.stderr.write(f"cannot shut in: {error}\n")
        sys.stderr.flush()
        os._exit(CANNOT_START)
