"""Repeats, mix, tokenize and pack without room on disk, with little memory, and killed: the last version stands, the next run ends well."""

import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from dataplane.snapshot import Snapshot
from tests.faults.small_stage import ROOT
from tests.faults.test_dedup_faults import fill
from tests.faults.test_full_disk import ROOM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOCUMENTS = 300
STAGES = ("dedup", "decontaminate", "mix", "tokenizer", "tokenize", "pack")
TABLE = {"dedup": "repeats", "mix": "mixture", "tokenize": "tokens", "pack": "packed"}  # what is held against an undisturbed run
# A run under the first params stands when one under the second is disturbed. What a file may not grow beyond is less than the stage writes.
PARAMS = {
    "dedup": ({"repeats": {"find": []}}, {"repeats": {"find": ["substring"], "tokens": 20}}),
    "mix": ({"held_out": {"share": 0.0, "min_per_source": 0}}, {"held_out": {"share": 0.1, "min_per_source": 0}}),
    "tokenize": ({}, {}),
    "pack": ({"sequence_length": 128}, {"sequence_length": 256}),
}
VOCABULARY = {False: 300, True: 320}
RUN = """
import resource
from dataplane.lineage.record import stage_main
from dataplane.stages import {stage}
{prelude}
stage_main({stage}.main)
"""
LIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"
# The process ends as at a kill once so many of its spill files, or of all that it opens below the project, have been opened for writing.
KILLED = """
import os, signal, sys
opened = []
def audit(event, args):
    if event == "open" and set(args[1] or "") & set("wax") and "{part}" in os.path.abspath(str(args[0])):
        opened.append(args[0])
        if len(opened) == {stop}:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(audit)
"""


def texts() -> list[str]:
    """Each quotes a passage of 30 words from the one before it."""
    rng = random.Random(4)
    own = [["".join(rng.choices("abcdefgh", k=5)) for _ in range(150)] for _ in range(DOCUMENTS)]
    return [" ".join([*words, *own[i - 1][20:50]]) for i, words in enumerate(own)]


def put(root: Path, stage: str, changed: bool) -> None:
    """params.yaml, with those of one stage changed or not."""
    given = {name: pair[changed and name == stage] for name, pair in PARAMS.items()}
    if stage != "dedup":
        given["dedup"] = PARAMS["dedup"][1]
    vocabulary = {"vocab_size": VOCABULARY[changed and stage == "tokenize"]}
    (root / "params.yaml").write_text(yaml.safe_dump(given | {"decontaminate": {}, "tokenizer": vocabulary}))


def run(root: Path, stage: str, prelude: str = "") -> tuple[int, str]:
    """Exit code of a stage and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(stage=stage, prelude=prelude)], cwd=root,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TERRAPLANE_WORKERS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def before(root: Path, stage: str, changed: bool) -> Path:
    """A project whose stages before this one have run."""
    fill(root, texts())
    put(root, stage, changed)
    for earlier in STAGES[: STAGES.index(stage)]:
        code, errors = run(root, earlier)
        assert code == 0, errors
    return root


def digest(root: Path, stage: str) -> str:
    return Snapshot.load(TABLE[stage], root).digest


@dataclass(frozen=True)
class Disturbed:
    """A project with a version under the first params, ready to run under the second.

    Attributes:
        root: The project.
        stage: The stage that is disturbed.
        first: Digest of that version.
        second: Digest of an undisturbed run under the second params.
    """

    root: Path
    stage: str
    first: str
    second: str


@pytest.fixture(scope="module", params=TABLE)
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    """The project that each test gets a copy of."""
    stage: str = request.param
    folder = tmp_path_factory.mktemp(f"ready_{stage}")
    root = before(folder / "project", stage, False)
    code, errors = run(root, stage)
    assert code == 0, errors
    put(root, stage, True)
    if stage == "tokenize":
        assert run(root, "tokenizer")[0] == 0
    shutil.copytree(root, folder / "undisturbed")
    code, errors = run(folder / "undisturbed", stage)
    assert code == 0, errors
    assert digest(folder / "undisturbed", stage) != digest(root, stage)
    return Disturbed(root, stage, digest(root, stage), digest(folder / "undisturbed", stage))


@pytest.fixture
def disturbed(ready: Disturbed, tmp_path: Path) -> Disturbed:
    """A copy of it."""
    shutil.copytree(ready.root, tmp_path / "project")
    return replace(ready, root=tmp_path / "project")


def left_over(root: Path) -> list[Path]:
    return [*root.glob("journal/*/*/spill"), *root.glob("tmp*")]


def test_without_room_the_last_version_stands(disturbed: Disturbed) -> None:
    root, stage = disturbed.root, disturbed.stage
    code, errors = run(root, stage, LIMIT.format(1 << 12))
    assert (code, errors.splitlines()[-1].strip(), "Traceback" in errors) == (3, ROOM, False), errors
    assert (digest(root, stage), left_over(root)) == (disturbed.first, [])
    code, errors = run(root, stage)
    assert (code, digest(root, stage)) == (0, disturbed.second), errors


@pytest.mark.parametrize("stop", [1, 3])
def test_a_killed_run_leaves_the_last_version_and_nothing_that_the_next_one_stumbles_over(disturbed: Disturbed, stop: int) -> None:
    root, stage = disturbed.root, disturbed.stage
    part = "spill/" if stage == "dedup" else str(root)
    code, errors = run(root, stage, KILLED.format(part=part, stop=40 * stop if stage == "dedup" else stop))
    assert code == -9, errors
    assert digest(root, stage) == disturbed.first
    code, errors = run(root, stage)
    assert (code, digest(root, stage), left_over(root)) == (0, disturbed.second, []), errors


REPEATS = """
import resource
from pathlib import Path
import numpy as np, pyarrow as pa
from dataplane.corpus.repeats import Collection, RepeatsParams, find_repeats
N, TOKENS = {n}, 1000
def text(i):
    rng = np.random.default_rng(i)
    words = rng.integers(0, 1 << 30, TOKENS)
    if i % 2:
        words[100:200] = np.random.default_rng(i - 1).integers(0, 1 << 30, TOKENS)[300:400]
    return " ".join(map(str, words.tolist()))
def texts():
    for at in range(0, N, 200):
        yield np.arange(at, at + 200), pa.array([text(i) for i in range(at, at + 200)], pa.large_string())
def of(n):
    global N
    N = n
    of_places = lambda wanted: pa.array([text(int(i)) for i in wanted], pa.large_string())
    collection = Collection(texts, of_places, np.arange(N), np.zeros(0, np.uint64))
    return find_repeats(collection, RepeatsParams(find=["substring"]), Path("spill"))
of(400)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
limit = used + {room}
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
found = of({n})
print(len(found.runs), int(found.tokens.sum()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_repeats_are_found_in_a_third_of_the_memory_that_their_windows_take(tmp_path: Path) -> None:
    """Six million windows of 24 bytes are 146 MB; 48 MB more than the interpreter has are allowed."""
    done = subprocess.run(
        [sys.executable, "-c", REPEATS.format(n=6400, room=48 << 20)], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs, tokens, _ = map(int, done.stdout.split())
    assert (runs, tokens) == (3200, 320_000)
