"""The kill harness: a handful of kills with each format, and proof that it sees what it is there to see."""

import pytest

from tests.faults.harness import harness

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("form", ["lance", "parquet"])
def test_killed_stages_lose_nothing_and_double_nothing(form: str) -> None:
    code, lines = harness("kill", "--count", "12", "--seed", "4", "--format", form)
    *kills, total = lines
    assert [kill for kill in kills if not kill["ok"]] == []
    assert (code, total["kills"], total["lost"], total["doubled"], total["wrong_digests"], total["not_ok"]) == (0, 12, 0, 0, 0, 0)
    assert len(kills) == 12


# Each breaks one promise of the code, in the process that the stages are forked from: what the harness then finds, and the break.
BROKEN = {
    "orphans": "from dataplane.lake.store import Store; Store.sweep = lambda self, table: []",
    # The snapshot file goes first: a kill after it leaves it pointing at nothing.
    "unreadable": """
from dataplane.lake.store import Store
from dataplane.snapshot import Snapshot
commit = Store.commit
def early(self, table, schema, digest, fragments):
    Snapshot(table, digest, sum(f.rows for f in fragments)).write()
    commit(self, table, schema, digest, fragments)
Store.commit = early
""",
    # A unit is noted as done before its rows are there, with nothing in it.
    "wrong": """
from dataplane.engine import local
run = local.run
def early(task, units, todo, workers):
    for i in todo:
        yield i, {"tables": {}, "counts": {}}
        yield from run(task, units, [i], workers)
local.run = early
""",
}


@pytest.mark.parametrize("found", BROKEN)
def test_the_harness_sees_a_broken_promise(found: str) -> None:
    code, lines = harness("kill", "--count", "20", "--stage", "ingest", "--seed", "2", code=BROKEN[found])
    assert code == 1
    assert found in lines[-1]["faults"]
