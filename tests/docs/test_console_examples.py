"""The examples of the pages below are true: every command runs, its output is what the page shows, every operator takes its params."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dataplane.registry import operator_class

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


def write_labelled(folder: Path) -> None:
    """What classifiers and language models are trained on: books, good and bad pages, labelled posts, a block list."""
    draw = random.Random(0)
    for i in range(3):
        path = folder / "books" / f"{i}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(" ".join(draw.choice(WORDS) for _ in range(12)) for _ in range(200)), encoding="utf-8")
    spam = "buy cheap pills now click here best price order viagra casino win free"
    for name, words in (("good", " ".join(WORDS)), ("bad", spam)):
        path = folder / name / "pages.jsonl"
        path.parent.mkdir()
        rows = [{"text": " ".join(draw.choice(words.split()) for _ in range(30))} for _ in range(60)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    posts = [(f"{draw.choice(CHARACTERS)}你这个笨蛋{i}", 1) for i in range(40)] + [
        (f"{draw.choice(CHARACTERS)}天气很好{i}", 0) for i in range(40)
    ]
    (folder / "labels").mkdir()
    (folder / "labels" / "zh.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in posts), encoding="utf-8")
    for category, domains in {"adult": "a.example\nb.example\n", "gambling": "c.example\n"}.items():
        (folder / "ut1" / category).mkdir(parents=True)
        (folder / "ut1" / category / "domains").write_text(domains)


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


@pytest.mark.parametrize("name", ["lake.md", "lineage.md", "mixture.md", "perplexity.md", "classifiers.md", "training.md"])
def test_every_example_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    write_crawl(tmp_path)
    write_labelled(tmp_path)
    before, environment = shell(tmp_path)
    folder, wrong = tmp_path, []
    # What training.md has behind `Resume` is run on a trained project: tests/training/test_pretrain_stage.py.
    text = (DOCS / name).read_text(encoding="utf-8").partition("\n## Resume\n")[0]
    for command, shown in examples(text):
        script = f"{before}{command}; code=$?; pwd > {tmp_path}/pwd; exit $code"
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        folder = Path((tmp_path / "pwd").read_text().strip())
        printed = "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())
        failed = bool(done.returncode) != any(line.startswith("error: ") for line in shown)
        if failed or not re.fullmatch(pattern(shown), printed):
            wrong.append("\n".join([f"$ {command}", f"exit {done.returncode}, printed:", printed, "the page shows:", *shown]))
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("name", ["perplexity.md", "classifiers.md"])
def test_every_pipeline_of_a_page_is_one(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    pipelines = [block["clean"]["pipeline"] for block in blocks if "clean" in block]
    assert pipelines != []
    for pipeline in pipelines:
        for step in pipeline:
            operator = operator_class(step["use"])(step.get("params"))
            assert operator.params.model_dump(exclude_unset=True, mode="json") == json.loads(json.dumps(step.get("params") or {}))


def test_the_stage_that_a_page_shows_runs_a_command_that_it_shows() -> None:
    text = (DOCS / "classifiers.md").read_text(encoding="utf-8")
    (stage,) = (
        found
        for found in map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        if "train_quality" in found
    )
    shown = [command for command, _ in examples(text)]
    told = stage["train_quality"]
    assert told["cmd"] in shown
    assert [f"--out {out}" in told["cmd"] for out in told["outs"]] == [True]
    assert told["metrics"] == [f"{out}.json" for out in told["outs"]]
    assert [folder for folder in told["deps"] if f"{folder}/" not in told["cmd"]] == []


def test_the_params_of_the_page_on_mixtures_are_params() -> None:
    from dataplane.corpus.contamination import DecontaminateParams
    from dataplane.corpus.mixture import MixParams
    from dataplane.corpus.tokenizer import TokenizerParams

    known = {"decontaminate": DecontaminateParams, "mix": MixParams, "tokenizer": TokenizerParams}
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / "mixture.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = [(name, values) for block in blocks for name, values in yaml.safe_load(block).items()]
    assert [name for name, _ in shown] == ["decontaminate", "mix", "mix", "tokenizer"]
    for name, values in shown:
        assert set(known[name].parse(values, where=name).model_dump(exclude_unset=True)) == set(values)
