"""The funnel agrees with the books of every stage, and says of each rule what it alone drops."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.errors import DataError, UsageError
from dataplane.lineage.funnel import funnel
from dataplane.stages import select
from tests.lineage.random_documents import CODES, PARAMS, BruteForce, documents, write_params

N = 400


@pytest.fixture(params=["lance", "parquet"])
def selected(project: Path, put, request: pytest.FixtureRequest) -> BruteForce:
    """A project after select, and what brute force says of it."""
    (project / "settings.yaml").write_text(f"lake: {{format: {request.param}}}\n")
    write_params(project)
    put("documents", documents(project, N))
    select.main()
    return BruteForce(project)


@pytest.fixture
def mixed(project: Path, put) -> dict[str, list[str]]:
    """A project of ten documents that went all the way; who was dropped in each step."""
    ids, size = CODES[:10], list(range(1, 11))
    sources = ["a"] * 5 + ["b"] * 5
    write_params(project)
    empty = {name: [None] * 10 for name in ("kind", "url", "mime", "text_hash")}
    columns = pa.schema([*schema.DOCUMENTS, pa.field("language__lang", pa.string())])
    documents = {"doc_id": ids, "source": sources, "n_bytes": size, "text": [""] * 10, "language__lang": ["en", "zh"] * 5, **empty}
    put("documents", pa.table(documents, schema=columns))
    raw = {"doc_id": [*ids, CODES[20], CODES[21]], "source": [*sources, "b", "c"]}
    put("raw", pa.table({field.name: pa.array(raw.get(field.name, [None] * 12), field.type) for field in schema.RAW}, schema=schema.RAW))
    rows = {
        "clean_decisions": (schema.DECISIONS, [{"doc_id": CODES[20], "operator": "language", "reason": "other_language"}]),
        "clean_quarantine": (schema.QUARANTINE, [{"doc_id": CODES[21], "source": "c"}]),
        "select_decisions": (
            schema.DECISIONS,
            [
                {"doc_id": ids[0], "operator": "gopher_quality", "reason": "too_few_words"},
                {"doc_id": ids[0], "operator": "gopher_repetition", "reason": "frequent_2_gram"},
                {"doc_id": ids[1], "operator": "gopher_repetition", "reason": "frequent_2_gram"},
                {"doc_id": ids[1], "operator": "former", "reason": "rule"},
            ],
        ),
        "duplicates": (
            schema.DUPLICATES,
            [
                {"doc_id": ids[2], "kept": False, "how": "exact"}, {"doc_id": ids[3], "kept": False, "how": "minhash"},
                {"doc_id": ids[4], "kept": True, "how": None},
            ],
        ),
        "contamination": (
            schema.CONTAMINATION,
            [{"doc_id": ids[5], "benchmark": "z"}, {"doc_id": ids[5], "benchmark": "y"}, {"doc_id": ids[6], "benchmark": "y"}],
        ),
        "held_out": (schema.HELD_OUT, [{"doc_id": ids[8]}]),
        "mixture": (schema.MIXTURE, [{"doc_id": ids[6]}, {"doc_id": ids[9]}, {"doc_id": ids[6]}]),
    }  # fmt: skip
    for table, (columns, values) in rows.items():
        put(table, pa.Table.from_pylist(values, schema=columns))
    left = {"selected": ids[2:], "deduplicated": ids[4:], "decontaminated": [ids[4], *ids[6:]]}
    for table, kept in left.items():
        put(table, pa.table({"doc_id": kept}, schema=schema.IDS))
    return left


def test_rules_are_counted_as_brute_force_counts_them(selected: BruteForce) -> None:
    order = [row["rule"] for row in funnel()["rules"]]
    found = {row["rule"]: (row["fails"], row["only"]) for row in funnel()["rules"] if row["fails"]}
    fails = Counter(rule for rules in selected.fails.values() for rule in set(rules))
    only = Counter(rules[0] for rules in selected.fails.values() if len(set(rules)) == 1)
    assert found == {rule: (count, only[rule]) for rule, count in fails.items()}
    first = Counter(min(rules, key=order.index) for rules in selected.fails.values())
    left = [N - sum(first[rule] for rule in order[: i + 1]) for i in range(len(order))]
    assert [row["left"] for row in funnel()["rules"]] == left
    assert left[-1] == sum(selected.kept.values())


def test_the_select_step_is_in_the_books_by_source_and_by_language(selected: BruteForce, project: Path) -> None:
    books = json.loads((project / "metrics" / "select.json").read_text())
    (step,) = funnel()["steps"]
    dropped = [row for row in selected.rows if not selected.kept[row["doc_id"]]]
    assert step == {
        "step": "select", "in": books["rows"]["in"], "quarantined": 0, "dropped": books["rows"]["dropped"], "left": books["rows"]["kept"],
        "bytes_dropped": sum(row["n_bytes"] for row in dropped),
        "bytes_left": sum(row["n_bytes"] for row in selected.rows) - sum(row["n_bytes"] for row in dropped),
    }  # fmt: skip
    assert {row["source"]: row["dropped"] for row in funnel(by="source")["steps"] if row["dropped"]} == books["dropped_by_source"]
    by_language = {row["language"]: row["dropped"] for row in funnel(by="language")["steps"]}
    assert by_language == dict(Counter(row["language__lang"] for row in dropped))


def test_the_order_of_the_rules_is_that_of_the_run_although_params_have_changed_since(selected: BruteForce, project: Path) -> None:
    before = funnel()["rules"]
    write_params(project, PARAMS.replace("    - {use: gopher_repetition}\n", ""))
    assert funnel()["rules"] == before


def test_every_step_says_who_went_in_was_dropped_and_is_left(mixed: dict[str, list[str]]) -> None:
    names = ("step", "in", "quarantined", "dropped", "left", "bytes_dropped", "bytes_left")
    assert [tuple(row[name] for name in names) for row in funnel()["steps"]] == [
        ("clean", 12, 1, 1, 10, None, 55),
        ("select", 10, 0, 2, 8, 3, 52),
        ("dedup", 8, 0, 2, 6, 7, 45),
        ("decontaminate", 6, 0, 1, 5, 6, 39),
        ("mix", 5, 0, 2, 3, 13, 26),
    ]


def test_every_step_by_source_and_by_language(mixed: dict[str, list[str]]) -> None:
    by_source, by_language = funnel(by="source")["steps"], funnel(by="language")["steps"]
    assert [(row["step"], row["source"], row["in"], row["dropped"], row["left"]) for row in by_source] == [
        ("clean", "a", 5, 0, 5), ("clean", "b", 6, 1, 5), ("clean", "c", 1, 0, 0),
        ("select", "a", 5, 2, 3), ("select", "b", 5, 0, 5),
        ("dedup", "a", 3, 2, 1), ("dedup", "b", 5, 0, 5),
        ("decontaminate", "a", 1, 0, 1), ("decontaminate", "b", 5, 1, 4),
        ("mix", "a", 1, 1, 0), ("mix", "b", 4, 1, 3),
    ]  # fmt: skip
    assert [(row["step"], row["language"], row["dropped"]) for row in by_language if row["dropped"]] == [
        ("clean", None, 1), ("select", "en", 1), ("select", "zh", 1), ("dedup", "en", 1), ("dedup", "zh", 1), ("decontaminate", "zh", 1),
        ("mix", "en", 1), ("mix", "zh", 1),
    ]  # fmt: skip


def test_every_reason_with_its_documents_and_bytes(mixed: dict[str, list[str]]) -> None:
    assert [tuple(row.values()) for row in funnel()["reasons"]] == [
        ("clean", "language.other_language", 1, None),
        ("select", "gopher_quality.too_few_words", 1, 1),
        ("select", "gopher_repetition.frequent_2_gram", 1, 2),
        ("dedup", "exact", 1, 3),
        ("dedup", "minhash", 1, 4),
        ("decontaminate", "y", 1, 6),
        ("mix", "left_out", 2, 13),
    ]
    rules = {row["rule"]: (row["fails"], row["only"], row["left"]) for row in funnel()["rules"]}
    assert {rule: rules[rule] for rule in ("gopher_quality.too_few_words", "gopher_repetition.frequent_2_gram", "former.rule")} == {
        "gopher_quality.too_few_words": (1, 0, 9),
        "gopher_repetition.frequent_2_gram": (2, 0, 8),
        "former.rule": (1, 0, 8),
    }


def test_the_command_prints_json_and_tables(mixed: dict[str, list[str]]) -> None:
    runner = CliRunner()
    assert json.loads(runner.invoke(main, ["funnel", "--by", "source", "--json"]).stdout) == funnel(by="source")
    page = runner.invoke(main, ["funnel"])
    assert [page.exit_code, *(title in page.stdout for title in ("steps", "rules of select", "reasons"))] == [0, True, True, True]


def test_more_rules_than_one_number_holds_are_refused(mixed: dict[str, list[str]], put) -> None:
    rows = [{"doc_id": CODES[0], "operator": "many", "reason": f"rule_{i}"} for i in range(120)]
    put("select_decisions", pa.Table.from_pylist(rows, schema=schema.DECISIONS))
    with pytest.raises(DataError, match="rules decide, and a funnel has room for 128"):
        funnel()


def test_a_language_that_was_not_measured_is_no_group(mixed: dict[str, list[str]], put) -> None:
    put("documents", schema.DOCUMENTS.empty_table())
    with pytest.raises(UsageError, match="no language was measured"):
        funnel(by="language")


def test_without_documents_there_is_no_funnel(project: Path) -> None:
    with pytest.raises(DataError, match="dvc repro"):
        funnel()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_step_of_a_whole_run_is_in_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    from tests.faults.corpus import STAGES, make

    root = make(tmp_path / "project")
    monkeypatch.chdir(root)
    for stage in STAGES[: STAGES.index("mix") + 1]:
        subprocess.run([sys.executable, "-m", f"dataplane.stages.{stage}"], check=True, capture_output=True)
    for by in (None, "source"):
        found = {}
        for row in funnel(by=by)["steps"]:
            sums = found.setdefault(row["step"], Counter())
            sums.update({"in": row["in"], "kept": row["left"], "dropped": row["dropped"] or 0, "quarantined": row["quarantined"]})
        books = {step: json.loads(Path("metrics", f"{step}.json").read_text())["rows"] for step in found}
        assert list(found) == ["ingest", "clean", "select", "dedup", "decontaminate", "mix"]
        assert {step: dict(sums) for step, sums in found.items()} == books
    selected = json.loads(Path("metrics/select.json").read_text())
    assert {row["rule"]: row["fails"] for row in funnel()["rules"] if row["fails"]} == selected["reasons"]
