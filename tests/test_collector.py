"""The collector rests while a stage is imported, and only then."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dataplane import collector
from dataplane.lineage.record import stage_main


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leaves the collector as it was found."""
    assert gc.isenabled()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize(
    ("started", "rests"),
    [
        (["python", "-m", "dataplane.stages.pack"], True),
        (["python", "-m", "trainplane.stages.pretrain"], True),
        (["python", "-B", "-X", "utf8", "-m", "dataplane.stages.pack", "--help"], True),
        (["python", "-m", "pytest", "dataplane.stages.pack"], False),
        (["python", "-c", "import dataplane.stages.pack"], False),
        (["python", "bin/dataplane", "sql"], False),
    ],
)
def test_it_rests_where_a_stage_was_started(started: list[str], rests: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", started)
    collector.rest_while_importing()
    assert gc.isenabled() is not rests


def test_it_is_at_work_while_a_stage_is() -> None:
    gc.disable()
    found: list[bool] = []
    stage_main(lambda: found.append(gc.isenabled()))
    assert found == [True]


def test_a_stage_that_is_imported_leaves_it_alone() -> None:
    subprocess.run([sys.executable, "-c", "import gc, dataplane.stages.ingest; assert gc.isenabled()"], check=True)
