"""Kills of compact, move and forget: some with each format, and proof that the harness sees what it is there to see."""

import pytest

from tests.faults.harness import harness

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("form", ["lance", "parquet"])
def test_what_was_killed_is_ended_by_the_next_run_and_every_version_is_read(form: str) -> None:
    code, (*kills, total) = harness("upkeep", "--format", form, "--every", "9")
    assert [kill for kill in kills if kill["faults"]] == []
    assert (code, total["not_ok"]) == (0, 0)
    assert {kill["job"] for kill in kills} == {"compact", "move", "forget"}


# Each breaks one promise of the code: the job whose kills then show it, what they show, and the break.
BROKEN = {
    "compact": (".parquet", "from dataplane.lake.store import Store; Store.half_dropped = lambda self, table: []"),
    # The settings name the new lake before all tables are there.
    "move": ("run `dvc checkout`", """
from pathlib import Path
from dataplane.settings import LakeSettings
import dataplane.upkeep.move as m
copy = m._copy
def early(snapshot, old, new):
    m._write_settings(Path(), LakeSettings.parse({"format": "lance"}, where="lake"))
    return copy(snapshot, old, new)
m._copy = early
"""),
}  # fmt: skip


@pytest.mark.parametrize("job", BROKEN)
def test_the_harness_sees_a_broken_promise(job: str) -> None:
    shown, code = BROKEN[job]
    exit_code, (*kills, total) = harness("upkeep", "--job", job, "--every", "4", "--format", "parquet", code=code)
    assert (exit_code, total["not_ok"] > 0) == (1, True)
    assert [fault for kill in kills for fault in kill["faults"] if shown in fault]
