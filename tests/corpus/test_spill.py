"""Arrays on disk keep what is written to them, and give back the memory of it."""

from pathlib import Path

import numpy as np
import pytest

from dataplane.corpus.spill import Appender, let_go, mapped, reserved, spill_folder


def file_megabytes() -> int:
    """Memory of this process that is pages of files."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile")]
    return int(line.split()[1]) // 1024


def test_what_is_let_go_keeps_its_values_and_gives_its_memory_back(tmp_path: Path) -> None:
    array = reserved(tmp_path / "x", (20_000_000,), np.int32)
    before = file_megabytes()
    array[:] = 7
    held = file_megabytes() - before
    let_go(array)
    assert (held > 70, file_megabytes() - before < 10) == (True, True)
    rows = mapped(tmp_path / "x", np.int32, 4)
    assert (rows.shape, int(rows.sum())) == ((5_000_000, 4), 140_000_000)
    let_go(np.zeros(3))  # what is not mapped stays


def test_files_hold_what_was_appended_and_empty_ones_are_empty_arrays(tmp_path: Path) -> None:
    with Appender(tmp_path) as files:
        for part in np.array_split(np.arange(100, dtype=np.uint64), 7):
            files.append("a", part)
        files.append("b", np.zeros((0, 3), np.uint32))
    assert mapped(tmp_path / "a", np.uint64).tolist() == list(range(100))
    assert (mapped(tmp_path / "b", np.uint32, 3).shape, mapped(tmp_path / "none", np.uint32).shape) == ((0, 3), (0,))


def test_what_a_killed_run_left_is_gone_before_and_everything_after(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    (tmp_path / "spill/left").touch()

    def fail_in_it() -> None:
        with spill_folder(tmp_path / "spill") as folder:
            assert list(folder.iterdir()) == []
            (folder / "new").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_it()
    assert not (tmp_path / "spill").exists()
