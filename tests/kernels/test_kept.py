"""Tables that are kept beside the kernels: the file serves, and nothing hangs on it."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dataplane.kernels import plain_form, unicode, word_tables

SOURCE = """
import numpy as np
from pathlib import Path
from dataplane.kernels.kept import kept

CALLS = []

@kept("facts.txt")
def squares():
    "The squares."
    CALLS.append(1)
    return np.arange(int(Path(__file__).with_name("facts.txt").read_text())) ** 2
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "made.py").write_text(SOURCE)
    (tmp_path / "facts.txt").write_text("5")
    yield tmp_path / "made.py"
    sys.modules.pop("made", None)


def fresh(path: Path) -> ModuleType:
    """The module as a new process has it."""
    spec = importlib.util.spec_from_file_location("made", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["made"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(path: Path) -> list[Path]:
    return sorted((path.parent / "__pycache__").glob("squares-*.npy"))


def test_a_table_is_computed_by_the_first_process_and_read_by_the_next(module: Path) -> None:
    first, again = fresh(module), fresh(module)
    assert [first.squares().tolist(), len(first.CALLS)] == [[0, 1, 4, 9, 16], 1]
    assert [again.squares().tolist(), len(again.CALLS)] == [[0, 1, 4, 9, 16], 0]
    second = again.squares()
    assert (again.squares() is second, second.flags.writeable, first.squares().flags.writeable) == (True, False, False)
    assert type(second) is np.ndarray  # numba knows no other
    assert (again.squares.__name__, again.squares.__doc__) == ("squares", "The squares.")


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY\x01\x00", b"no array at all"])
def test_a_damaged_file_is_made_anew(module: Path, damage: bytes) -> None:
    fresh(module).squares()
    (path,) = tables(module)
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert fresh(module).squares().tolist() == [0, 1, 4, 9, 16]
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-8])  # a value is missing
    assert fresh(module).squares().tolist() == [0, 1, 4, 9, 16]


def test_another_source_or_another_file_is_another_table(module: Path) -> None:
    fresh(module).squares()
    (module.parent / "facts.txt").write_text("3")
    assert fresh(module).squares().tolist() == [0, 1, 4]
    module.write_text(SOURCE.replace("** 2", "** 3"))
    assert fresh(module).squares().tolist() == [0, 1, 8]
    assert len(tables(module)) == 3


def test_where_nothing_can_be_written_it_is_computed(module: Path) -> None:
    (module.parent / "__pycache__").write_text("a file where the folder should be")
    assert fresh(module).squares().tolist() == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("table", [unicode.classes, unicode.fold_table, word_tables._kinds, plain_form._single, plain_form._several])
def test_the_tables_of_characters_are_what_is_computed(table: Any) -> None:
    compute = table.__wrapped__.__wrapped__
    assert np.array_equal(table(), compute())
