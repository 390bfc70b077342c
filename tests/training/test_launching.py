"""Who starts the ranks: torchrun, DeepSpeed's launcher with a hostfile, or the stage itself, which sees a rank fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lake.s3_server import free_ports
from tests.training.small_project import finish, make, result

ROOT = Path(__file__).parents[2]
RANKS = """
import sys, time
from trainplane.pretrain.ranks import started
other, sleeps = sys.argv[1], float(sys.argv[2])
with started(2, [sys.executable, "-c", other], exit_seconds=0.2):
    time.sleep(sleeps)
print("ended")
"""


def ranks(other: str, sleeps: float) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    command = [sys.executable, "-c", RANKS, other, str(sleeps)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_rank_that_fails_ends_the_first_which_waits_for_it() -> None:
    done = ranks("import sys; sys.exit(3)", 30)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: rank 1 ended with 3, and rank 0 did not notice\n"


def test_a_rank_that_fails_at_the_end_is_told() -> None:
    """The second rank ends after the first has, with an error."""
    done = ranks("import os, sys, time; time.sleep(0.3); sys.exit(4)", 0.25)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("returned non-zero exit status 4.")


def test_a_rank_that_never_ends_is_ended() -> None:
    done = ranks("import time; time.sleep(60)", 0)
    assert done.returncode == 1
    assert "TimeoutExpired" in done.stderr


def test_ranks_that_end_well_leave_the_first_as_it_was() -> None:
    done = ranks("import os; assert os.environ['RANK'] == os.environ['LOCAL_RANK'] == '1'", 0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """What two ranks come to that the stage started itself."""
    root = make(tmp_path_factory.mktemp("launching") / "itself")
    finish(root, ranks=2)
    return result(root)


def environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"DS_ACCELERATOR": "cpu", "TERRAPLANE_WORKERS": "1", "PATH": path}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed"])
def test_a_launcher_starts_the_ranks_to_the_same_weights_and_ledger(launcher: str, expected: tuple[str, str, str], tmp_path: Path) -> None:
    root = make(tmp_path / "project")
    (root / "hostfile").write_text("localhost slots=2\n")
    without_ssh = ["--no_ssh", "--node_rank", "0", "--master_addr", "127.0.0.1"]
    options = {
        "torchrun": ["--standalone", "--nproc-per-node", "2", "-m", "trainplane.stages.pretrain"],
        "deepspeed": ["--hostfile", "hostfile", *without_ssh, "--module", "trainplane.stages.pretrain"],
    }
    command = [str(Path(sys.executable).with_name(launcher)), *options[launcher]]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert result(root) == expected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_machines_with_a_rank_each_come_to_the_same(expected: tuple[str, str, str], tmp_path: Path) -> None:
    """Two launchers on this host stand for two machines: each has its first rank, and both see one project folder."""
    root = make(tmp_path / "project")
    (port,) = free_ports(1)
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    both = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    started = [
        subprocess.Popen(
            [torchrun, *both, "--node-rank", str(node), "-m", "trainplane.stages.pretrain"],
            cwd=root, env=environment(), stderr=subprocess.PIPE, text=True,
        )
        for node in (0, 1)
    ]  # fmt: skip
    said = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)[-3000:]
    assert result(root) == expected
