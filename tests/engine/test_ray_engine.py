"""The engine on Ray: a cluster of two nodes on this machine gives what processes give, whatever it loses on the way."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataplane import lockfile
from dataplane.engine import mapping
from dataplane.engine.journal import Journal
from dataplane.engine.runners import runner
from dataplane.engine.units import Unit
from dataplane.errors import DataError, EnvironmentFault
from dataplane.settings import Settings
from dataplane.snapshot import Snapshot
from tests.engine.test_local_engine import DieAlways, DieOnce, Square
from tests.stages.test_incremental import STAGES, digests, put_files, put_params

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]  # Ray leaves sockets and processes behind


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray.cluster_utils
    from ray import cloudpickle

    for tests in (sys.modules[__name__], sys.modules[Square.__module__]):  # workers know the installed packages, not the tests
        cloudpickle.register_pickle_by_value(tests)
    found = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()


class Where(Square):
    """Takes its time, and notes on which node it was."""

    def __call__(self, unit: int) -> int:
        import ray

        time.sleep(0.2)
        with self.notes.open("a") as stream:
            stream.write(f"{ray.get_runtime_context().get_node_id()}\n")
        return unit * unit


class Refuse(Square):
    def __call__(self, unit: int) -> int:
        raise DataError(f"unit {unit} is damaged", fix="restore it")


def run(task: Any, units: list[int], root: Path, cluster: Any) -> list[Any]:
    if not (root / lockfile.FILE).exists():
        lockfile.write(root)
    journal = Journal(root, "stage", "i")
    journal.begin()
    settings = Settings.parse({"engine": "ray", "ray": {"address": cluster.address}}, where="test")
    return mapping.map(task, [Unit(str(u), u) for u in units], run=runner(settings, root), journal=journal, title="test").results


def test_results_come_in_the_order_of_the_units_from_both_nodes(tmp_path: Path, cluster: Any) -> None:
    assert run(Where(tmp_path / "notes"), list(range(12)), tmp_path, cluster) == [n * n for n in range(12)]
    assert len(set((tmp_path / "notes").read_text().splitlines())) == 2


def test_finished_units_are_not_done_again(tmp_path: Path, cluster: Any) -> None:
    run(Square(tmp_path / "notes"), [5], tmp_path, cluster)
    assert run(Square(tmp_path / "notes"), [5, 7], tmp_path, cluster) == [25, 49]
    assert (tmp_path / "notes").read_text().split() == ["5", "7"]


def test_a_worker_that_dies_is_replaced(tmp_path: Path, cluster: Any) -> None:
    assert run(DieOnce(tmp_path / "notes"), [1, 2, 3, 4], tmp_path, cluster) == [1, 4, 9, 16]
    assert (tmp_path / "died").exists()


def test_a_unit_that_always_kills_its_worker_ends_the_run_and_is_named(tmp_path: Path, cluster: Any) -> None:
    with pytest.raises(EnvironmentFault, match="unit 2 died 4 times"):
        run(DieAlways(tmp_path / "notes"), [1, 2, 3], tmp_path, cluster)


def test_an_error_of_the_task_arrives_as_it_was_raised(tmp_path: Path, cluster: Any) -> None:
    with pytest.raises(DataError, match="unit 1 is damaged"):
        run(Refuse(tmp_path / "notes"), [1], tmp_path, cluster)


def test_a_lost_node_costs_time_and_nothing_else(tmp_path: Path, cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1)
    notes = tmp_path / "notes"

    def lose() -> None:
        while not notes.exists():
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=lose)
    thread.start()
    assert run(Where(notes), list(range(30)), tmp_path, cluster) == [n * n for n in range(30)]
    thread.join()


def test_every_stage_gives_the_digests_of_a_local_run(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, settings in {
        "local": {"engine": "local", "workers": 1},
        "ray": {"engine": "ray", "ray": {"address": cluster.address}},
    }.items():
        project = tmp_path / name
        put_files(project, "data/en", range(40))
        put_params(project)
        (project / "settings.yaml").write_text(yaml.safe_dump(settings))
        monkeypatch.chdir(project)
        lockfile.write()
        for stage in STAGES:
            stage.main()
        found.append(digests())
    assert found[0] == found[1]
    records = [json.loads(path.read_text()) for path in Path("lake/runs").glob("*.json")]
    assert {record["stage"] for record in records if record["effort"]} == {
        "ingest",
        "clean",
        "select",
        "dedup",
        "decontaminate",
        "tokenize",
    }
    assert Snapshot.load("raw").rows == 40


def test_without_a_cluster_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    settings = Settings.parse({"engine": "ray", "ray": {"address": "127.0.0.1:1"}}, where="test")
    with pytest.raises(EnvironmentFault, match="no Ray cluster"):
        list(runner(settings, tmp_path)(Square(tmp_path / "notes"), [Unit("1", 1)], [0]))
