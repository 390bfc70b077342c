"""Every benchmark starts by its path, as its page says, from a checkout that is on no path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = "peer_"  # run by the environment of the peers
SCRIPTS = sorted(
    path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text() and not path.name.startswith(PEERS)
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_tells_its_options(name: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, f"benchmarks/{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage:")
