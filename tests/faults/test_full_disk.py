"""No room left: the run says so and ends with 3, the last version stands, and the run that finds room gives the undisturbed digest."""

import errno
import re
import subprocess
from pathlib import Path

import pytest

from dataplane.errors import EnvironmentFault, of_system
from dataplane.snapshot import Snapshot, open_store
from tests.faults.small_stage import digest_of, intact, run

ROOM = "fix: make room, then run the same again: finished work is kept"


def orphans(root: Path, table: str = "numbers") -> set[str]:
    store = open_store(root)
    return set(store.data_files(table)) - store.used(table)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "lake/x"), "lake/x: No space left on device\n  " + ROOM),
        (OSError("LanceError(IO): No space left on device (os error 28), /x/y.rs:1:2"), "No space left on device\n  " + ROOM),
        (OSError("LanceError(IO): something else, /x/y.rs:1:2"), "LanceError(IO): something else"),
    ],
)
def test_what_the_system_refuses_is_told_with_its_fix(error: OSError, message: str) -> None:
    fault = of_system(error)
    assert (type(fault), fault.exit_code, fault.render()) == (EnvironmentFault, 3, message)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lance", "parquet"])
def test_a_run_without_room_leaves_the_last_version_and_goes_on_later(
    project: Path, tmp_path_factory: pytest.TempPathFactory, form: str
) -> None:
    (project / "params.yaml").write_text("{}\n")
    (project / "settings.yaml").write_text(f"lake: {{format: {form}}}\n")
    assert run(project, "numbers", 50)[0] == 0
    # Room for the books, and then for a little less than the first unit's rows.
    for size in (1 << 12, 1 << 13):
        code, errors = run(project, "numbers", 950, "--no-file-above", size)
        assert (code, errors.splitlines()[-1].strip(), "Traceback" in errors) == (3, ROOM, False), errors
        assert intact(project, "numbers", 50)
    code, errors = run(project, "numbers", 950)
    assert code == 0, errors
    assert Snapshot.load("numbers", project).digest == digest_of(950, tmp_path_factory.mktemp("undisturbed"))
    assert intact(project, "numbers", 950)
    assert orphans(project) == set()


@pytest.mark.slow
def test_a_disk_that_fills_while_a_stage_writes(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(project)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here: RLIMIT_FSIZE stands in for a full disk in the other test")
    try:
        _fill(project, digest_of(2000, tmp_path_factory.mktemp("undisturbed")))
    finally:
        subprocess.run(["umount", "-l", str(project)], check=True)


def _fill(root: Path, wanted: str) -> None:
    from dataplane import lockfile

    lockfile.write(root)
    (root / "params.yaml").write_text("{}\n")
    assert run(root, "numbers", 50)[0] == 0
    code, errors = run(root, "numbers", 2000)
    assert (code, errors.splitlines()[-1].strip(), "Traceback" in errors) == (3, ROOM, False), errors
    assert intact(root, "numbers", 50)
    subprocess.run(["mount", "-o", "remount,size=20m", str(root)], check=True)
    code, errors = run(root, "numbers", 2000)
    assert code == 0, errors
    fresh = int(re.search(r"(\d+) of 20 units done now", errors)[1])  # type: ignore[index]
    assert 0 < fresh < 20  # what was finished before the disk was full was not done again
    assert Snapshot.load("numbers", root).digest == wanted
    assert intact(root, "numbers", 2000)
    assert orphans(root) == set()
