"""whatif says what running select with other thresholds would do, in numbers and samples, and says no where it cannot know."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.errors import DataError, ParamsError
from dataplane.lineage.whatif import whatif
from dataplane.stages import select
from tests.lineage.random_documents import CODES, PARAMS, BruteForce, documents, flips, write_params

# Question -> the edits of params.yaml that it stands for.
QUESTIONS = {
    "gopher_quality.min_words=100, language.min_score=0.8": [
        ("{use: gopher_quality, when", "{use: gopher_quality, params: {min_words: 100}, when"), ("min_words: 20", "min_words: 100"),
        ("min_score: 0.5", "min_score: 0.8"),
    ],
    "gopher_quality.min_words=5,language.min_score=0": [
        ("{use: gopher_quality, when", "{use: gopher_quality, params: {min_words: 5}, when"), ("min_words: 20", "min_words: 5"),
        ("min_score: 0.5", "min_score: 0"),
    ],
    "gopher_quality[1].min_words=200": [("min_words: 20", "min_words: 200")],
    "gopher_quality[0].max_words = 150, language.keep=[en, zh], toxicity.max_share=0.5": [
        ("{use: gopher_quality, when", "{use: gopher_quality, params: {max_words: 150}, when"),
        ("min_score: 0.5", "min_score: 0.5, keep: [en, zh]"), ("{use: toxicity}", "{use: toxicity, params: {max_share: 0.5}}"),
    ],
    "gopher_repetition.min_cjk_share=1.0": [("{use: gopher_repetition}", "{use: gopher_repetition, params: {min_cjk_share: 1.0}}")],
    "language.min_score=0.5": [],
}  # fmt: skip


@pytest.fixture
def small(project: Path, put) -> Path:
    write_params(project)
    put("documents", documents(project, 400))
    return project


def put_tokens(put, known: dict[str, int]) -> None:
    columns = {"doc_id": list(known), "n_tokens": list(known.values()), "n_words": [1] * len(known), "input_ids": [[1]] * len(known)}
    put("tokens", pa.table(columns, schema=schema.TOKENS))


def toxic(row: dict, max_share: float) -> bool:
    return (row["toxicity__share"] or 0) > max_share and (row["toxicity__n_hits"] or 0) >= 1


def edited(edits: list[tuple[str, str]]) -> str:
    text = PARAMS
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def sides(question: str) -> dict:
    answer = whatif(question)
    return {name: side_as_counts(answer[name]) for name in ("gained", "lost")}


def side_as_counts(side: dict) -> dict:
    by = {name: Counter({row[name]: row["documents"] for row in side[f"by_{name}"]}) for name in ("source", "language", "reason")}
    return {"documents": side["documents"], "bytes": side["bytes"], **by}


@pytest.mark.parametrize(("lake_format", "questions"), [("lance", list(QUESTIONS)), ("parquet", list(QUESTIONS)[:1])])
def test_whatif_is_what_brute_force_with_the_old_and_the_new_rules_gives(
    project: Path, put, lake_format: str, questions: list[str]
) -> None:
    (project / "settings.yaml").write_text(f"lake: {{format: {lake_format}}}\n")
    write_params(project)
    put("documents", documents(project, 1000))
    before = BruteForce(project)
    expected = {}
    asked_of_the_rules = {question: sides(question) for question in questions}
    for question in questions:
        write_params(project, edited(QUESTIONS[question]))
        expected[question] = flips(before, BruteForce(project))
        write_params(project)
    assert asked_of_the_rules == expected
    select.main()
    read_from_the_books = {question: sides(question) for question in questions}
    assert read_from_the_books == expected
    assert expected[questions[0]]["lost"]["documents"] > 100


BY_LANGUAGE = PARAMS.replace("{use: text_signals}", "{use: text_signals, params: {stop_words: fineweb2}}") + (
    "    - {use: fineweb2, params: {max_duplicate_line_share: GIVEN, min_stop_words: 0, min_terminal_line_share: 0}}\n"
)


@pytest.mark.parametrize(
    ("given", "asked", "after", "shown"),
    [
        ("{zh: 0.02}", "{de: 0.01}", "{zh: 0.02, de: 0.01}", ({"de": 0.263}, {"de": 0.01})),
        ("{zh: 0.02}", "0.03", "0.03", (None, 0.03)),
        ("{zh: 0.02}", "{zh: 0.5, sv: 0.0}", "{zh: 0.5}", ({"zh": 0.02, "sv": 0.292}, {"zh": 0.5, "sv": 0.0})),
        ("0.02", "{'*': 0.5}", "{'*': 0.5, de: 0.02, zh: 0.02}", ({"*": 0.02}, {"*": 0.5})),
        ("{}", "{}", "{}", ({}, {})),
    ],
)
def test_a_question_by_language_changes_the_languages_that_it_names(
    project: Path, put, given: str, asked: str, after: str, shown: tuple[object, object]
) -> None:
    write_params(project, BY_LANGUAGE.replace("GIVEN", given))
    put("documents", documents(project, 600))
    before = BruteForce(project)
    question = f"fineweb2.max_duplicate_line_share={asked}"
    found, (threshold,) = sides(question), whatif(question)["thresholds"]
    write_params(project, BY_LANGUAGE.replace("GIVEN", after))
    assert found == flips(before, BruteForce(project))
    assert threshold["after"] == shown[1]
    assert shown[0] is None or threshold["before"] == shown[0]
    assert (asked == "{}") is (found["gained"]["documents"] + found["lost"]["documents"] == 0)


def test_a_rule_set_says_which_params_of_an_operator_it_needs(project: Path) -> None:
    write_params(project, PARAMS + "    - {use: fineweb2}\n")
    with pytest.raises(ParamsError, match=r"rule set 'fineweb2' decides on what text_signals measures with stop_words") as caught:
        whatif("fineweb2.min_words=20")
    assert 'give text_signals in clean.pipeline the params {"stop_words":"fineweb2"}' in caught.value.render()


@pytest.mark.parametrize("asked", ["{de: 2}", "{de: x}", "{no: 0.1}", "{german: 0.1}"])
def test_a_question_by_language_that_no_param_takes_is_refused(small: Path, put, asked: str) -> None:
    write_params(small, BY_LANGUAGE.replace("GIVEN", "{}"))
    with pytest.raises(ParamsError, match="max_duplicate_line_share"):
        whatif(f"fineweb2.max_duplicate_line_share={asked}")


def test_a_looser_threshold_gains_and_loses_nothing(small: Path) -> None:
    answer = whatif("gopher_quality.min_words=5, language.min_score=0")
    assert [answer["gained"]["documents"] > 20, answer["lost"]["documents"]] == [True, 0]


def test_groups_add_up_to_the_bytes_of_all(small: Path) -> None:
    lost = whatif("gopher_quality.min_words=300")["lost"]
    assert [sum(row["bytes"] for row in lost[by]) for by in ("by_source", "by_language")] == [lost["bytes"]] * 2


def test_samples_show_documents_that_flip_with_the_signals_that_decide(small: Path) -> None:
    before = BruteForce(small)
    rows = {row["doc_id"]: row for row in before.rows}
    samples = whatif("language.min_score=0.9, gopher_quality[1].min_words=30", samples=7)["lost"]["samples"]
    write_params(small, PARAMS.replace("min_score: 0.5", "min_score: 0.9").replace("min_words: 20", "min_words: 30"))
    after = BruteForce(small)
    assert len({sample["doc_id"] for sample in samples}) == 7
    for sample in samples:
        row = rows[sample["doc_id"]]
        assert (before.kept[row["doc_id"]], after.kept[row["doc_id"]]) == (True, False)
        assert (sample["source"], sample["url"], sample["text"]) == (row["source"], row["url"], row["text"][:200])
        assert sorted(sample["reasons"]) == sorted(after.fails[row["doc_id"]])
        assert sample["signals"] == {name: row[name.replace(".", "__")] for name in sample["signals"]}
        if sample["reasons"] == ["language.low_confidence"]:
            assert set(sample["signals"]) == {"kind", "language.score"}


def test_tokens_are_counted_where_they_are_known_and_else_estimated_from_the_source(small: Path, put) -> None:
    rows = {row["doc_id"]: row for row in documents(small, 400).to_pylist()}
    known = {doc_id: row["n_bytes"] // (3 if row["source"] == "web_0" else 5) + 1 for doc_id, row in rows.items() if row["n_bytes"] % 2}
    put(
        "tokens",
        pa.table(
            {"doc_id": list(known), "n_tokens": list(known.values()), "n_words": [1] * len(known), "input_ids": [[1]] * len(known)},
            schema=schema.TOKENS,
        ),
    )
    before = BruteForce(small)
    lost = whatif("language.min_score=0.9")["lost"]
    write_params(small, PARAMS.replace("min_score: 0.5", "min_score: 0.9"))
    after = BruteForce(small)
    gone = [doc_id for doc_id in rows if before.kept[doc_id] and not after.kept[doc_id]]
    counted, estimated = Counter(), Counter()
    for doc_id in gone:
        source = rows[doc_id]["source"]
        alike = [other for other in known if rows[other]["source"] == source]
        ratio = sum(rows[other]["n_bytes"] for other in alike) / sum(known[other] for other in alike)
        counted[source] += known.get(doc_id, 0)
        estimated[source] += 0 if doc_id in known else rows[doc_id]["n_bytes"] / ratio
    by_source = {row["source"]: (row["tokens"], row["estimated_tokens"]) for row in lost["by_source"]}
    assert by_source == {source: (counted[source] + round(estimated[source]), round(estimated[source])) for source in counted}
    assert lost["estimated_tokens"] == round(sum(estimated.values()))
    assert lost["tokens"] == sum(counted.values()) + lost["estimated_tokens"]


def test_a_source_without_known_tokens_is_estimated_from_its_kind(small: Path, put) -> None:
    rows = documents(small, 400).to_pylist()
    put_tokens(put, {row["doc_id"]: 2 * row["n_bytes"] for row in rows if row["source"] == "web_0"})
    lost = {row["source"]: row for row in whatif("language.min_score=0.9")["lost"]["by_source"]}
    assert {source: (row["tokens"], row["estimated_tokens"]) for source, row in lost.items()} == {
        source: (2 * row["bytes"], 0 if source == "web_0" else 2 * row["bytes"]) for source, row in lost.items()
    }


def test_without_the_table_tokens_their_number_is_not_known(small: Path) -> None:
    lost = whatif("language.min_score=0.9")["lost"]
    assert [(row["tokens"], row["estimated_tokens"]) for row in [lost, *lost["by_source"]]] == [(None, None)] * (1 + len(lost["by_source"]))


def test_a_filter_that_drops_at_once_can_only_lose_and_the_answer_says_so(small: Path, put) -> None:
    write_params(small, PARAMS.replace("{use: toxicity}", "{use: toxicity, drop: now, params: {min_hits: 1, max_share: 0.1}}"))
    rows = [
        row for row in documents(small, 400).to_pylist() if not ((row["toxicity__share"] or 0) > 0.1 and (row["toxicity__n_hits"] or 0))
    ]
    put("documents", pa.Table.from_pylist(rows, schema=documents(small, 1).schema))
    gone = {
        "doc_id": CODES[-1],
        "run_id": "r",
        "stage": "clean",
        "operator": "toxicity",
        "op_id": "o",
        "reason": "too_toxic",
        "signals": "{}",
    }
    put("clean_decisions", pa.Table.from_pylist([gone], schema=schema.DECISIONS))
    before = BruteForce(small)
    looser, stricter = whatif("toxicity.max_share=0.9"), whatif("toxicity.max_share=0.01")
    expected = sum(before.kept[row["doc_id"]] and toxic(row, 0.01) for row in before.rows)
    assert (looser["gained"]["documents"], looser["lost"]["documents"]) == (0, 0)
    assert (stricter["gained"]["documents"], stricter["lost"]["documents"]) == (0, expected)
    assert ["the 1 documents that it left out are not in `documents`" in note for note in looser["notes"]] == [True]


def test_the_answer_names_each_place_with_the_value_before(small: Path) -> None:
    thresholds = whatif("gopher_quality.min_words=40, toxicity.min_hits=3")["thresholds"]
    assert [(row["place"], row["param"], row["before"], row["after"]) for row in thresholds] == [
        ("select.rules[1]", "min_words", 50, 40),
        ("select.rules[2]", "min_words", 20, 40),
        ("clean.pipeline[2]", "min_hits", 2, 3),
    ]


def test_a_value_that_changes_no_rule_is_said_to(small: Path) -> None:
    assert [note[:20] for note in whatif("language.max_chars=50")["notes"]] == ["no rule changes: the"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("gopher_qualty.min_words=1", r"no rule set or filter 'gopher_qualty' decides here, did you mean 'gopher_quality'\?"),
        ("gopher_quality.min_word=1", r"has no param 'min_word', did you mean 'min_words'\?"),
        ("text_signals.words=paper", "no rule set or filter 'text_signals' decides here"),
        ("gopher_quality.min_words=many", "min_words: Input should be a valid integer"),
        ("gopher_quality.min_words=-1", "greater than or equal to 0"),
        ("language.min_score=1.5", "less than or equal to 1"),
        ("gopher_quality[2].min_words=1", r"used 2 times, so \[0\] to \[1\] are there"),
        ("gopher_quality.min_words=", "'gopher_quality.min_words' has no value"),
        ("gopher_quality.min_words=[1", "no value in YAML"),
        ("min_words=1", "names no threshold"),
        ("please gopher_quality.min_words=1", "names no threshold"),
        ("", "names no threshold"),
    ],
)
def test_what_cannot_be_asked_is_named(small: Path, question: str, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        whatif(question)


def test_before_there_are_documents_the_answer_is_what_to_run(project: Path) -> None:
    write_params(project)
    with pytest.raises(DataError, match="dvc repro"):
        whatif("language.min_score=0.9")


def test_the_command_prints_json_and_a_page_and_exits_with_2_on_a_wrong_question(small: Path) -> None:
    runner = CliRunner()
    answer = runner.invoke(main, ["whatif", "language.min_score=0.9", "--samples", "1", "--json"])
    assert json.loads(answer.stdout) == json.loads(json.dumps(whatif("language.min_score=0.9", samples=1)))
    page = runner.invoke(main, ["whatif", "language.min_score=0.9", "--samples", "1"])
    assert [page.exit_code, "lost: " in page.stdout, "language.low_confidence" in page.stdout] == [0, True, True]
    wrong = runner.invoke(main, ["whatif", "language.min_scor=0.9"])
    assert (wrong.exit_code, "did you mean 'min_score'?" in wrong.stderr) == (2, True)
