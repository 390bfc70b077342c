"""docs/write-a-plugin.md is true: its files are written as it says, built, found by entry point, tested and used."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs" / "write-a-plugin.md"


def named_files(page: str) -> dict[str, str]:
    """Fenced blocks that a line with a file name in back quotes stands before."""
    return dict(re.findall(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, built and installed into a folder of their own."""
    folder = tmp_path_factory.mktemp("plugin")
    files = named_files(PAGE.read_text(encoding="utf-8"))
    assert set(files) == {"terraplane_shouting.py", "test_shouting.py", "pyproject.toml"}
    for name, body in files.items():
        (folder / name).write_text(body, encoding="utf-8")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(folder / "site"), str(folder)], check=True, capture_output=True)
    return folder


def run(built: Path, *command: str, cwd: Path | None = None) -> str:
    path = os.pathsep.join([str(built / "site"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"PYTHONPATH": path, "TERRAPLANE_WORKERS": "1"}
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd or built, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


pytestmark = pytest.mark.slow


def test_the_pages_test_passes(built: Path) -> None:
    assert "2 passed" in run(built, "pytest", "-q", "-p", "no:cacheprovider", "test_shouting.py")


def test_the_plugin_is_found_and_sound(built: Path) -> None:
    assert '"fault": ""' in run(built, "dataplane", "plugins", "check", "shouting", "--json")


def test_one_line_of_params_puts_it_to_work(built: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "loud.txt").write_text("BUY NOW AND SAVE\n")
    (tmp_path / "data" / "quiet.txt").write_text("A quiet sentence.\n")
    page = PAGE.read_text(encoding="utf-8")
    clean = yaml.safe_load(re.search(r"```yaml\n(clean:.*?)```", page, re.DOTALL)[1])
    params = clean | {"sources": [{"name": "mine", "kind": "web", "paths": ["data/*.txt"]}], "select": {"rules": []}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    run(built, "dataplane", "plugins", "lock", cwd=tmp_path)
    for stage in ("ingest", "clean", "select"):
        run(built, f"dataplane.stages.{stage}", cwd=tmp_path)
    out = run(built, "dataplane", "sql", "SELECT operator, reason, signals FROM decisions", "--json", cwd=tmp_path)
    assert '"reason": "too_loud"' in out
    assert "shouting.capital_share" in out
