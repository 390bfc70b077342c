"""`dataplane init`: a project for a user's own files, tracked by Git and DVC; wrong arguments write nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dataplane.cli import main


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "notes" / "deep").mkdir(parents=True)
    (folder / "notes" / "one.md").write_text("# One\n\nSome words.\n")
    (folder / "notes" / "deep" / "two.txt").write_text("二。\n")
    (folder / "rows.jsonl").write_text('{"text": "a row"}\n')
    return folder


def init(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["init", *arguments])
    return result.exit_code, result.output


@pytest.mark.slow
def test_init_copies_tracks_and_writes_a_pipeline(files: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    code, output = init(str(project), "--source", f"notes:prose={files}/notes/**", "--source", f"rows={files}/*.jsonl", "--data-only")
    assert code == 0, output
    assert (project / "data/notes/deep/two.txt").read_text() == "二。\n"
    params = yaml.safe_load((project / "params.yaml").read_text())
    assert params["sources"] == [
        {"name": "notes", "kind": "prose", "paths": ["data/notes/**"], "format": "auto", "license": None},
        {"name": "rows", "kind": "rows", "paths": ["data/rows/**"], "format": "auto", "license": None},
    ]
    stages = yaml.safe_load((project / "dvc.yaml").read_text())["stages"]
    assert next(iter(stages)) == "ingest"
    assert list(stages)[-1] == "report"
    assert "pretrain" not in stages
    assert stages["ingest"]["deps"] == ["data/notes", "data/rows", "forgotten.jsonl"]
    status = subprocess.run(["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True).stdout
    assert "data/notes.dvc" in status
    dag = subprocess.run([sys.executable, "-m", "dvc", "status"], cwd=project, capture_output=True, text=True, check=True).stdout
    assert "ingest" in dag


@pytest.mark.slow
def test_init_in_place_reads_the_files_where_they_are(files: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    code, output = init(str(project), "--source", f"notes={files}/notes/*.md", "--in-place", "--data-only")
    assert code == 0, output
    assert not (project / "data").exists()
    params = yaml.safe_load((project / "params.yaml").read_text())
    assert params["sources"][0]["paths"] == [f"{files}/notes/*.md"]
    assert yaml.safe_load((project / "dvc.yaml").read_text())["stages"]["ingest"]["deps"] == [f"{files}/notes", "forgotten.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "notes"], "is not NAME[:KIND]=GLOB"),
        (["--source", "Notes=x"], "is not NAME[:KIND]=GLOB"),
        (["--source", "notes=/nowhere/*.txt"], "matches no file"),
        (["--source", "a={files}/*.jsonl", "--source", "a={files}/*.jsonl"], "source named twice: a"),
        (["--source", "a={files}/*.jsonl", "--preferences", "{files}/*.jsonl"], "add --instructions"),
        (["--source", "a={files}/*.jsonl", "--benchmark", "b={files}/nothing*"], "matches no file"),
    ],
)
def test_wrong_arguments_are_explained_and_write_nothing(files: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    project = tmp_path / "project"
    code, output = init(str(project), *(argument.format(files=files) for argument in arguments))
    assert code == 2
    assert message in output
    assert "fix:" in output
    assert not project.exists()


def test_a_folder_that_is_not_empty_is_left_alone(files: Path) -> None:
    code, output = init(str(files), "--source", f"a={files}/*.jsonl")
    assert (code, "not empty" in output) == (2, True)
    assert sorted(path.name for path in files.iterdir()) == ["notes", "rows.jsonl"]
