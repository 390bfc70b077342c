"""The data stages with the lake on S3: the digests of a local lake, after kills in the middle of writes too, and no secret left behind."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.snapshot import Snapshot
from tests.faults.corpus import STAGES, TABLES, make
from tests.lake.s3_server import KEY, SECRET, Gateway, environment, serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
WRONG = "not-the-right-one-0123456789"


def start(root: Path, stage: str, more: dict[str, str], workers: int = 2) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", f"dataplane.stages.{stage}"]
    chosen = os.environ | {"TERRAPLANE_WORKERS": str(workers)} | more
    return subprocess.Popen(command, cwd=root, env=chosen, stderr=subprocess.PIPE, text=True)


def run(root: Path, stage: str, more: dict[str, str], workers: int = 2) -> None:
    process = start(root, stage, more, workers)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def run_and_kill(root: Path, stage: str, more: dict[str, str], gateway: Gateway, at: int) -> None:
    """Runs a stage until it sends its `at`th request that writes; a stage that sends fewer ends as it would."""
    left = [at]
    started: list[subprocess.Popen[str]] = []

    def kill(method: str, key: str) -> None:
        left[0] -= method == "PUT"
        if left[0] == 0 and method == "PUT":
            started[0].send_signal(signal.SIGKILL)

    gateway.before = kill
    started.append(start(root, stage, more))
    started[0].communicate()
    gateway.before = lambda method, key: None


def digests(root: Path) -> dict[str, str]:
    return {table: Snapshot.load(table, root).digest for table in TABLES}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(tmp_path_factory.mktemp("s3")) as port, Gateway(port).running() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests that one worker makes in a local lake."""
    root = make(tmp_path_factory.mktemp("local") / "project")
    for stage in STAGES:
        run(root, stage, {}, workers=1)
    return digests(root)


@pytest.mark.parametrize(("form", "killed"), [("lance", False), ("lance", True), ("parquet", True)])
def test_the_digests_are_those_of_a_local_lake(local: dict[str, str], gateway: Gateway, tmp_path: Path, form: str, killed: bool) -> None:
    root, more = make(tmp_path / "project"), environment(gateway.url, tmp_path.name, form)
    rng = random.Random(form)
    for stage in STAGES:
        if killed:
            run_and_kill(root, stage, more, gateway, at=rng.randint(1, 5))
        run(root, stage, more)
    assert digests(root) == local
    assert mentions(root, KEY, SECRET) == []


def test_a_refused_stage_says_so_and_neither_it_nor_its_record_tells_the_secret(gateway: Gateway, tmp_path: Path) -> None:
    root, more = make(tmp_path / "project"), environment(gateway.url, tmp_path.name, "lance")
    process = start(root, "ingest", more | {"AWS_SECRET_ACCESS_KEY": WRONG})
    _, errors = process.communicate()
    assert process.returncode == 3
    assert "the object store refuses access" in errors
    assert "fix: check the credentials" in errors
    assert [secret for secret in (KEY, WRONG) if secret in errors] == []
    (record,) = [json.loads(path.read_text()) for path in (root / "lake" / "runs").glob("*.json")]
    assert record["status"] == "FAIL"
    assert mentions(root, KEY, WRONG) == []


def mentions(root: Path, *words: str) -> list[str]:
    """Files below a folder in which one of the words stands."""
    found = [path for path in root.rglob("*") if path.is_file() and any(word.encode() in path.read_bytes() for word in words)]
    return sorted(str(path.relative_to(root)) for path in found)
