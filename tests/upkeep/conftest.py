"""A small project under Git and DVC that has run once, in each mode and format."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataplane.commands.project import init

WORDS = "the river grain mill boat bridge spring father harvest village count winter road stone market letter and of to with that".split()


def text(seed: int) -> str:
    rng = random.Random(seed)
    return ". ".join(" ".join(rng.choice(WORDS) for _ in range(12)).capitalize() for _ in range(10)) + "."


class Project:
    """The project, and what is done to it again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def call(self, *command: str) -> str:
        """What a command prints; it has to succeed."""
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def dvc(self, *arguments: str) -> str:
        """What DVC prints."""
        return self.call(sys.executable, "-m", "dvc", *arguments)

    def repro(self) -> list[str]:
        """The stages that `dvc repro` ran."""
        return [line.split("'")[1] for line in self.dvc("repro").splitlines() if line.startswith("Running stage")]

    def commit(self, message: str) -> None:
        """Commits everything to Git."""
        self.call("git", "add", "--all")
        self.call("git", "-c", "user.name=a", "-c", "user.email=a@h.test", "commit", "--quiet", "--message", message)

    def edit_params(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Changes params.yaml."""
        params = yaml.safe_load((self.root / "params.yaml").read_text())
        edit(params)
        (self.root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


@pytest.fixture(scope="session", params=["cached-lance", "referenced-lance", "cached-parquet", "referenced-parquet"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has run once and is committed."""
    folder = tmp_path_factory.mktemp("made")
    rows = [{"id": str(i), "text": text(i), "url": f"http://h.test/{i}"} for i in range(60)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    keeper, form = request.param.split("-")
    source, root = f"web={folder / 'rows.jsonl'}", folder / "project"
    init.main([str(root), "--source", source, "--data-only", "--lake-dvc", keeper, "--lake-format", form], standalone_mode=False)
    project = Project(root)
    project.repro()
    project.commit("one")
    return root


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Project:
    """A copy of it."""
    shutil.copytree(finished, tmp_path / "project", symlinks=True)
    return Project(tmp_path / "project")
