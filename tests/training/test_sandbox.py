"""What a hostile program tries, and what comes of it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainplane.errors import SandboxUnavailable
from trainplane.evaluate.sandbox import FAILED, PASSED, TIMEOUT, Limits, Outcome, require_sandbox, run_program

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    try:
        require_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def tells(program: str, **limits: float) -> str:
    """What the program's attempt raises."""
    tried = f"try:\n    {program}\n    print('DONE')\nexcept BaseException as error:\n    print(type(error).__name__)"
    outcome = run_program(tried, Limits(**limits))  # type: ignore[arg-type]
    assert outcome.verdict == PASSED, outcome
    return outcome.told.strip()


def test_a_program_that_reaches_its_end_has_passed() -> None:
    assert run_program("import json, math\nprint(json.dumps(math.pi))") == Outcome(PASSED, "3.141592653589793\n")


@pytest.mark.parametrize(
    "program", ["assert 1 == 2", "raise SystemExit(0)", "import os; os._exit(0)", "def (", "import ctypes; ctypes.string_at(0)"]
)
def test_a_program_that_does_not_reach_its_end_has_failed(program: str) -> None:
    assert run_program(program).verdict == FAILED


def test_a_fork_bomb_starts_no_process() -> None:
    assert tells("import os\n    while True: os.fork()") == "BlockingIOError"
    assert tells("import threading; threading.Thread(target=int).start()") == "RuntimeError"
    assert tells("import subprocess; subprocess.run(['/bin/sh', '-c', ':'])") in ("BlockingIOError", "FileNotFoundError")


def test_memory_is_bound() -> None:
    assert tells("b = bytearray(1 << 30)", memory_mb=256) == "MemoryError"
    assert tells("b = [bytes(1 << 20) for _ in range(10_000)]", memory_mb=256) == "MemoryError"


def test_memory_that_no_address_space_holds_is_bound() -> None:
    shared = "import ctypes; libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0"
    assert tells(shared) == "AssertionError"
    assert tells("import os; os.posix_fallocate(os.memfd_create('m'), 0, 1 << 30)") == "OSError"
    assert tells("f = [open(f'/tmp/{i}', 'wb', 0) for i in range(20)]; [g.write(bytes(1 << 20)) for g in f]") == "OSError"


@pytest.mark.parametrize("address", ["('127.0.0.1', 80)", "('1.1.1.1', 53)"])
def test_there_is_no_network(address: str) -> None:
    assert tells(f"import socket; socket.create_connection({address}, 2)") in ("OSError", "ConnectionRefusedError")
    assert tells("import os; print(os.listdir('/sys'))") == "FileNotFoundError"


def test_a_listener_outside_cannot_be_reached() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        named.bind("\0terraplane-sandbox-test")
        named.listen()
        assert tells(f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)") == "OSError"
        there = "import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + 'terraplane-sandbox-test')"
        assert tells(there) == "ConnectionRefusedError"


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/proc/self/environ", "/dev/sda", "/root/.ssh", "/home", "/var", "/tmp/../etc/passwd", str(ROOT / "pyproject.toml")],
)
def test_files_outside_cannot_be_read(path: str) -> None:
    assert tells(f"open({path!r})") in ("FileNotFoundError", "PermissionError", "IsADirectoryError")
    assert tells(f"import os; print(os.listdir({path!r}))") in ("FileNotFoundError", "PermissionError")


def test_nothing_but_tmp_can_be_written(tmp_path: Path) -> None:
    for path in ("/x", "/usr/lib/x", f"{sys.base_prefix}/lib/x", str(tmp_path / "x")):
        assert tells(f"open({path!r}, 'w')") in ("OSError", "PermissionError", "FileNotFoundError")
    assert tells("open('/tmp/x', 'w').write('x')") == "DONE"
    assert tells("import os; assert os.listdir('/tmp') == []") == "DONE"
    assert list(tmp_path.iterdir()) == []


def test_rights_cannot_be_won_back() -> None:
    assert tells("import os; os.chroot('/tmp')") == "PermissionError"
    assert tells("import os; os.setuid(0)") in ("PermissionError", "DONE")
    libc = "import ctypes; libc = ctypes.CDLL(None)"
    for attempt in (
        "libc.unshare(0x10000000)", "libc.unshare(0x00020000)", "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)", "libc.umount2(b'/', 2)",
        "libc.mount(b'none', b'/', None, 32 | 4096, None)", "libc.pivot_root(b'.', b'.')",
    ):  # fmt: skip
        assert tells(f"{libc}; assert {attempt} == 0") == "AssertionError"
    assert tells("import resource; resource.setrlimit(resource.RLIMIT_NPROC, (9, 9))") == "ValueError"


def test_an_endless_loop_ends_and_leaves_no_process_behind() -> None:
    mark, start = f"mark-{time.monotonic_ns()}", time.monotonic()
    for program in (
        f"{mark!r}\nwhile True: pass",
        "import time; time.sleep(1000)",
        "import signal\nsignal.pthread_sigmask(0, range(1, 64))\nwhile True: pass",
    ):
        assert run_program(program, Limits(seconds=1)).verdict == TIMEOUT
    assert time.monotonic() - start < 15
    time.sleep(0.2)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, b"sandbox_boot")]
    assert left == []


def _holds(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except OSError:
        return False


def test_an_endless_output_is_cut() -> None:
    outcome = run_program("while True: print('x' * 1000)", Limits(output_bytes=100_000))
    assert (outcome.verdict, len(outcome.told) <= 2000) == (FAILED, True)


def test_secrets_of_the_environment_and_open_files_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    assert run_program("import os; assert 'A_SECRET' not in os.environ").verdict == PASSED
    count = "import os\nn = 0\nfor fd in range(3, 32):\n    try: os.fstat(fd); n += 1\n    except OSError: pass\nprint(n)"
    with (ROOT / "pyproject.toml").open():
        assert run_program(count).told == "0\n"


def test_where_namespaces_are_forbidden_nothing_is_run() -> None:
    code = "from trainplane.evaluate.sandbox import run_program\nrun_program('print(1)')"
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" -c "$1"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", script, sys.executable, code]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (run.returncode, run.stdout) == (1, "")
    assert "SandboxUnavailable: sandbox: programs cannot be shut in here" in run.stderr
