"""docs/operators.md is what the code, the examples and the committed results say; each example has the outcome that it is listed under."""

import json
from pathlib import Path

import pytest

from benchmarks import examples, measure, results
from benchmarks.operators_page import PAGE, facts, page
from dataplane.catalogue import catalogue
from dataplane.errors import DataError, ModelMissing
from dataplane.registry import entries
from dataplane.ruleset import load_rule_set

OWN = "terraplane"
STALE = "docs/operators.md is stale: run `make docs`"


def test_the_page_says_of_every_entry_what_the_code_says() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert [entry.name for entry in catalogue(OWN) if "\n".join(facts(entry)) not in written] == [], STALE


@pytest.mark.slow
def test_the_page_is_what_the_generator_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        written = page()
    except ModelMissing as missing:
        pytest.skip(missing.render())
    assert PAGE.read_text(encoding="utf-8") == written, STALE


@pytest.mark.parametrize("name", sorted(entries("dataplane.rules")))
def test_every_rule_drops_its_example_and_none_drops_what_is_kept(name: str) -> None:
    shown = examples.rule_examples(name)
    assert {example.reason for example in shown} == {"", *load_rule_set(name).spec.rules}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ({"keep": [{"text": "Short."}]}, "'Short.' is listed as kept by c4, and is dropped for ['too_few_sentences']"),
        ({"drop": {"lorem_ipsum": {"text": "Nothing of it."}}}, "'Nothing of it.' is listed as dropped by c4.lorem_ipsum, and is not"),
        ({"drop": {}}, "rule 'curly_bracket' of 'c4' has no example"),
        ({"keep": []}, "rule set 'c4' has no example of what it keeps"),
    ],
)
def test_an_example_under_the_wrong_heading_is_a_fault(listed: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"c4": {"keep": [], "drop": {}} | listed}
    monkeypatch.setattr(examples, "read", lambda: {"texts": {}, "sets": sets})
    with pytest.raises(DataError) as caught:
        examples.rule_examples("c4")
    assert said in str(caught.value)


def test_results_are_dated_and_belong_to_what_they_name(tmp_path: Path) -> None:
    stamp = {"date": "2026-12-02", "version": "0.1.0", "cores": 2}
    rows = [{"name": "repair/clean", "ours": 2.0, "unit": "MB/s"}, {"name": "decode/cp1252", "ours": 1.0, "unit": "MB/s"}]
    results.write("encoding", [{"name": "old"}], stamp, tmp_path)
    results.write("encoding", rows, stamp, tmp_path)
    results.write("quality.rules", [{"name": "c4.lorem_ipsum", "set": "a set"}], stamp, tmp_path)
    found = results.read(tmp_path)
    assert found == [
        *({**stamp, "benchmark": "encoding", **row} for row in rows),
        {**stamp, "benchmark": "quality.rules", "name": "c4.lorem_ipsum", "set": "a set"},
    ]
    assert [results.subjects(row)[0] for row in found] == ["encoding_repair", "encoding_repair", "c4.lorem_ipsum"]
    assert results.subjects({"benchmark": "wikitext", "name": "all pages"}) == ("all", "wikitext")


def test_a_missing_set_is_a_row_and_not_silence(tmp_path: Path) -> None:
    (row,) = measure.measure(measure.commands(tmp_path, tmp_path)["quality.rules"])
    assert list(row) == ["missing"]
    assert "majority_minus_agreement.jsonl" in row["missing"]


def test_committed_results_are_stamped() -> None:
    rows = results.read()
    assert [json.dumps(row) for row in rows if not {*results.STAMP, "benchmark"} <= set(row)] == []
