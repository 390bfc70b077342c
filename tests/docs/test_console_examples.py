"""The examples of docs/lake.md and docs/lineage.md are true: every command runs, and its output is what the page shows."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ANY = "…"
WORDS = (
    "the river grain mill boat bridge spring father harvest village count winter road stone market letter window garden teacher song "
    "mountain cloud table history number question answer city train morning evening paper story island and of to with that have be"
).split()
CHARACTERS = "春江水暖鸭先知山重路复疑无柳暗花明又一村天地人和国家学生老师读书写字工作生活时间城市历史文化社会经济发展的是了在不有"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def page(seed: int) -> dict[str, str]:
    """One page of the crawl: every fourth in Chinese, the others of 3 to 9 English sentences."""
    rng = random.Random(seed)
    if seed % 4 == 3:
        lines = ["".join(rng.choice(CHARACTERS) for _ in range(24)) + "。" for _ in range(8)]
    else:
        lines = [" ".join(rng.choice(WORDS) for _ in range(12)).capitalize() + "." for _ in range(3 + seed % 7)]
    return {"id": str(seed), "url": f"https://example.org/{seed}", "text": "\n".join(lines)}


def write_crawl(folder: Path) -> None:
    pages = [page(i) for i in range(80)]
    crawls = {"crawl/2026-10": [*pages, pages[5] | {"id": "copy", "url": "https://example.org/copy"}]}
    crawls["later/2026-11"] = [page(i) for i in range(100, 108)]
    for name, rows in crawls.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir()
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def examples(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, lines that it is said to print) of every console block."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            yield command, shown


def pattern(shown: list[str]) -> str:
    """A regular expression: a line of `…` stands for any lines, one inside a line for any text there."""
    lines = [r"(?:.*\n)*?" if line == ANY else ".*".join(map(re.escape, line.rstrip().split(ANY))) + r"[ ]*\n" for line in shown]
    return "".join(lines)


def shell(folder: Path) -> tuple[str, dict[str, str]]:
    """What every command begins with, and the environment that it runs in."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    author = {f"GIT_{who}_{what}": "a@h.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return "set -o pipefail; ", os.environ | author | {"PATH": path, "COLUMNS": "200"}


@pytest.mark.parametrize("name", ["lake.md", "lineage.md"])
def test_every_example_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    write_crawl(tmp_path)
    before, environment = shell(tmp_path)
    folder, wrong = tmp_path, []
    for command, shown in examples((DOCS / name).read_text(encoding="utf-8")):
        script = f"{before}{command}; code=$?; pwd > {tmp_path}/pwd; exit $code"
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        folder = Path((tmp_path / "pwd").read_text().strip())
        printed = "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())
        failed = bool(done.returncode) != any(line.startswith("error: ") for line in shown)
        if failed or not re.fullmatch(pattern(shown), printed):
            wrong.append("\n".join([f"$ {command}", f"exit {done.returncode}, printed:", printed, "the page shows:", *shown]))
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)
