"""A project that grows, shrinks or gets another operator: what is there stays, and the result is that of a run from nothing."""

import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataplane import lockfile
from dataplane.annotators.toxicity import Toxicity
from dataplane.lake.sql import ask, connect
from dataplane.snapshot import Snapshot, open_store
from dataplane.stages import clean, decontaminate, dedup, ingest, mix, pack, select, tokenize, tokenizer, train_lm

STAGES = (ingest, train_lm, clean, select, dedup, decontaminate, mix, tokenizer, tokenize, pack)
TABLES = [
    "raw", "ingest_quarantine", "documents", "edits", "clean_decisions", "clean_quarantine", "selected", "select_decisions", "signatures",
    "duplicates", "repeats", "deduplicated", "contamination", "decontaminated", "cuts", "mixture", "held_out", "tokens", "packed",
]  # fmt: skip
WORDS = "the river grain mill boat bridge spring father harvest village count winter road stone market letter and of to with that".split()
PARAMS: Mapping[str, Any] = {
    "sources": [{"name": "en", "kind": "prose", "paths": ["data/en/*.txt"]}],
    "train_lm": {},
    "clean": {
        "pipeline": [
            {"use": "encoding_repair"},
            {"use": "language"},
            {"use": "text_signals"},
            {"use": "perplexity", "when": "language.lang = 'en'"},
        ]
    },
    "select": {"rules": [{"use": "gopher_repetition"}]},
    "dedup": {},
    "decontaminate": {"benchmarks": []},
    "mix": {},
    "tokenizer": {"vocab_size": 300},
    "tokenize": {},
    "pack": {"sequence_length": 64},
}


def text(seed: int) -> str:
    rng = random.Random(seed)
    return ". ".join(" ".join(rng.choice(WORDS) for _ in range(12)).capitalize() for _ in range(8)) + ".\n"


def put_files(root: Path, folder: str, names: range) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    for i in names:
        (root / folder / f"{i:03}.txt").write_text(text(i))


def put_params(root: Path, edit: Callable[[dict[str, Any]], None] = lambda params: None) -> None:
    params = json.loads(json.dumps(PARAMS))
    edit(params)
    (root / "params.yaml").write_text(yaml.safe_dump(params))


def run(*stages: Any) -> dict[str, dict[str, int]]:
    """Stage -> units, how many of them were worked on, the rows that were not taken over, and the bytes that took."""
    for stage in stages:
        stage.main()
    records = [json.loads(path.read_text()) for path in Path("lake/runs").glob("*.json")]
    newest = {record["stage"]: record for record in sorted(records, key=lambda record: record["started_at"])}
    return {name: record["effort"] for name, record in newest.items() if record["effort"]}


def digests(root: Path = Path()) -> dict[str, str]:
    return {table: Snapshot.load(table, root).digest for table in TABLES if (root / f"lake/{table}.json").exists()}


def from_nothing(project: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *stages: Any) -> dict[str, str]:
    """The digests of a project with the same files and params that has run once."""
    folder.mkdir()
    for name in ("data", "frozen"):
        if (project / name).exists():
            shutil.copytree(project / name, folder / name)
    shutil.copy(project / "params.yaml", folder)
    lockfile.write(folder)
    with monkeypatch.context() as there:
        there.chdir(folder)
        run(*stages)
    return digests(folder)


@pytest.fixture(params=["lance", "parquet"])
def small_units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Units of a few documents, so that a small corpus has many; once in each format."""
    monkeypatch.setenv("TERRAPLANE_LAKE_FORMAT", request.param)
    monkeypatch.setattr(ingest, "UNIT_BYTES", 4096)
    monkeypatch.setattr(clean, "UNIT_ROWS", 4)
    monkeypatch.setattr(select, "UNIT_ROWS", 4)
    monkeypatch.setattr("dataplane.engine.documents.UNIT_ROWS", 4)
    return str(request.param)


@pytest.mark.usefixtures("small_units")
def test_new_files_cost_what_is_new_and_the_result_is_that_of_a_whole_run(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_files(project, "data/en", range(0, 120, 2))
    put_params(project)
    run(*STAGES)
    frozen(project)
    put_files(project, "data/en", range(51, 54))
    put_files(project, "data/crawl", range(200, 203))
    (project / "data/crawl/copy.txt").write_text(text(8))  # equal to a document of the corpus before it
    put_params(project, lambda params: use_frozen(params, project))
    effort = run(*STAGES)
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, *STAGES)
    assert {stage: effort[stage]["done"] / effort[stage]["units"] < 0.5 for stage in effort} == dict.fromkeys(effort, True)
    copies = ask(connect(project), "SELECT count(*) AS n FROM duplicates WHERE NOT kept AND how = 'exact'")
    assert copies.to_pylist() == [{"n": 1}]


def frozen(project: Path) -> None:
    (project / "frozen").mkdir()
    shutil.copy(project / "models/ngram_lm/model.npz", project / "frozen")
    shutil.copy(project / "models/tokenizer/tokenizer.json", project / "frozen")


def use_frozen(params: dict[str, Any], project: Path) -> None:
    params["train_lm"]["model"] = "frozen/model.npz"
    params["tokenizer"]["path"] = "frozen/tokenizer.json"
    if (project / "data/crawl").exists():
        params["sources"].append({"name": "crawl", "kind": "web", "paths": ["data/crawl/*.txt"]})


@pytest.mark.usefixtures("small_units")
def test_the_rows_of_a_file_that_was_removed_are_gone(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (ingest, train_lm, clean, select, dedup)
    put_files(project, "data/en", range(40))
    put_params(project)
    run(*stages)
    for name in ("007.txt", "008.txt"):
        (project / "data/en" / name).unlink()
    run(*stages)
    left = {row["uri"] for row in Snapshot.load("raw", project).to_table(columns=["uri"]).to_pylist()}
    assert left == {f"data/en/{i:03}.txt" for i in range(40) if i not in (7, 8)}
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, *stages)


ONE_BY_ONE = (ingest, train_lm, clean, select, dedup, decontaminate, mix, tokenizer, tokenize)


@pytest.mark.usefixtures("small_units")
def test_a_record_more_in_a_file_is_the_only_one_that_is_worked_on(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_records(names: list[int]) -> None:
        lines = [json.dumps({"id": str(i), "text": text(i)}) + "\n" for i in names]
        (project / "data/en.jsonl").write_text("".join(lines))

    def change(params: dict[str, Any]) -> None:
        params["sources"] = [{"name": "en", "kind": "prose", "paths": ["data/en.jsonl"], "options": {"id": "id"}}]
        if (project / "frozen").exists():
            use_frozen(params, project)

    (project / "data").mkdir()
    put_records(list(range(0, 60, 2)))
    put_params(project, change)
    run(*ONE_BY_ONE)
    frozen(project)
    put_params(project, change)
    run(*ONE_BY_ONE)
    put_records([1, *range(2, 31, 2), 33, *range(32, 60, 2)])  # the first is gone, two are new
    effort = run(*ONE_BY_ONE)
    assert {stage: effort[stage]["rows"] for stage in ("clean", "dedup", "decontaminate", "tokenize")} == {
        "clean": 2, "dedup": 2, "decontaminate": 2, "tokenize": 2,
    }  # fmt: skip
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, *ONE_BY_ONE)


def add_toxicity(params: dict[str, Any]) -> None:
    params["clean"]["pipeline"].append({"use": "toxicity"})


def change_language(params: dict[str, Any]) -> None:
    params["clean"]["pipeline"][1]["params"] = {"min_score": 0.11}


def remove_perplexity(params: dict[str, Any]) -> None:
    del params["clean"]["pipeline"][3]


@pytest.mark.parametrize("edit", [add_toxicity, change_language, remove_perplexity])
def test_another_operator_writes_its_columns_and_no_text(
    edit: Callable[[dict[str, Any]], None],
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_files(project, "data/en", range(300))
    put_params(project)
    whole = run(ingest, train_lm, clean)["clean"]["bytes_written"]
    before = set(open_store(project).data_files("documents"))
    put_params(project, edit)
    effort = run(clean)["clean"]
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, ingest, train_lm, clean)
    assert before <= set(open_store(project).data_files("documents"))
    assert effort["bytes_written"] < whole / 10


def test_an_operator_that_breaks_on_a_document_puts_it_aside_although_only_columns_were_wanted(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_files(project, "data/en", range(30))
    put_params(project)
    run(ingest, train_lm, clean)
    annotate = Toxicity.annotate

    def breaks(self: Toxicity, batch: Any) -> Any:
        if text(7) in batch.column("text").to_pylist():
            raise ValueError("seven")
        return annotate(self, batch)

    monkeypatch.setattr(Toxicity, "annotate", breaks)
    put_params(project, add_toxicity)
    run(clean)
    aside = Snapshot.load("clean_quarantine", project).to_table(columns=["operator", "error", "message"])
    assert aside.to_pylist() == [{"operator": "toxicity", "error": "ValueError", "message": "seven"}]
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, ingest, train_lm, clean)


def test_a_transform_that_changed_makes_all_text_anew(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scrub(params: dict[str, Any]) -> None:
        params["clean"]["pipeline"].insert(1, {"use": "scrub_pii"})

    put_files(project, "data/en", range(30))
    (project / "data/en/999.txt").write_text(text(999) + "Write to ann.lee@example.org.\n")
    put_params(project)
    run(ingest, train_lm, clean)
    put_params(project, scrub)
    run(clean)
    texts = Snapshot.load("documents", project).to_table(columns=["text"]).column("text").to_pylist()
    assert [entry for entry in texts if "example.org" in entry] == []
    assert digests() == from_nothing(project, tmp_path_factory.mktemp("new") / "project", monkeypatch, ingest, train_lm, clean)
