from __future__ import annotations

import functools
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataplane.corpus.contamination import DecontaminateParams, build_index, scan
from dataplane.sample import benchmark, docstrings, instruct, parallel, preference, reviews, rules
from dataplane.sample.items import MAX_ANSWER_CHARS, first_prose, split, whole_sentences

Examples = dict[str, list[dict[str, Any]]]
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)


def everything(_: str) -> bool:
    return True


@functools.cache
def rows_of(module: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for file in module.files(everything) for line in file.data.decode().split("\n")[:-1]]


@given(TEXTS | st.lists(st.sampled_from(["One.", "Two two!", "三。", "no end", "e.g. x"]), max_size=8).map(" ".join), st.integers(0, 60))
def test_whole_sentences_are_a_bounded_start_of_the_text(text: str, limit: int) -> None:
    kept = whole_sentences(text, limit)
    assert len(kept) <= limit
    assert "".join(text.split()).startswith("".join(kept.split()))
    assert kept == "" or kept.endswith((".", "!", "?", "。", "！", "？"))


def test_whole_sentences_stop_where_the_next_does_not_fit() -> None:
    assert whole_sentences("One two. Three four. Five", 100) == "One two. Three four."
    assert whole_sentences("One two. Three four.", 12) == "One two."
    assert whole_sentences("没有空格。第二句！", 5) == "没有空格。"


def test_lists_and_tables_are_no_prose() -> None:
    assert first_prose("A line\nand another.\n\nMore.") == "A line and another."
    assert [first_prose(text) for text in ("- a\n- b", "1. a", "| a |", ">>> f()", "```x```", "", ":param x: y")] == [""] * 7


def test_instructions_have_the_promised_fields_and_bounded_answers(examples: Examples) -> None:
    for row in examples["instruct"]:
        assert list(row) == ["id", "messages", "source", "kind", "lang", "split"]
        question, answer = row["messages"]
        assert (question["role"], answer["role"]) == ("user", "assistant")
        assert 0 < len(answer["content"]) <= MAX_ANSWER_CHARS
    assert {row["lang"] for row in examples["instruct"]} == {"en", "zh"}


def test_preferences_have_the_promised_fields_and_differ(examples: Examples) -> None:
    for row in examples["preference"]:
        assert list(row) == ["id", "prompt", "chosen", "rejected", "source", "lang", "split"]
        assert row["chosen"] != row["rejected"]
    assert {row["lang"] for row in examples["preference"]} == {"en", "zh"}


def test_questions_have_the_promised_fields_and_distinct_choices(examples: Examples) -> None:
    for row in examples["benchmark"]:
        assert list(row) == ["id", "question", "choices", "answer", "lang", "passage"]
        assert len(set(row["choices"])) == len(row["choices"]) in (2, 4)
        assert 0 <= row["answer"] < len(row["choices"])
        assert row["passage"] in row["question"]
    assert {row["lang"] for row in examples["benchmark"]} == {"en", "zh"}


def test_ids_and_contents_occur_once() -> None:
    for module, content in ((instruct, "messages"), (preference, "prompt"), (benchmark, "question")):
        rows = rows_of(module)
        assert [Counter(str(row[name]) for row in rows).most_common(1)[0][1] for name in ("id", content)] == [1, 1], module


def test_no_text_is_in_both_splits() -> None:
    texts: dict[str, set[str]] = {"train": set(), "held_out": set()}
    for row in rows_of(instruct):
        if row["kind"] in ("what", "why"):
            texts[row["split"]].add(row["messages"][1]["content"])
    for row in rows_of(preference):
        if row["source"] == "docstrings":
            texts[row["split"]] |= {row["chosen"], row["rejected"]}
    assert texts["train"] & texts["held_out"] == set()


def test_no_question_is_in_both_splits() -> None:
    asked = [(row["messages"][0]["content"].casefold(), row["split"]) for row in rows_of(instruct)]
    questions = {split: {question for question, where in asked if where == split} for split in ("train", "held_out")}
    assert questions["train"] & questions["held_out"] == set()


def test_all_items_of_one_rule_are_in_one_split() -> None:
    splits: dict[str, set[str]] = {}
    for row in rows_of(instruct) + rows_of(preference):
        if row["source"] == "rules":
            splits.setdefault(row["id"].split("/")[1], set()).add(row["split"])
    assert {len(each) for each in splits.values()} == {1}


def test_about_a_tenth_is_held_out() -> None:
    held_out = sum(split(str(key)) == "held_out" for key in range(20_000))
    assert abs(held_out - 2_000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5


def test_questions_are_of_held_out_texts_only() -> None:
    rows = rows_of(benchmark)
    assert 200 <= len(rows) <= 400
    assert {split(row["id"]) for row in rows} == {"held_out"}


def test_the_right_choice_is_right() -> None:
    summaries = {rule.name: rule for rule in rules.rules()}
    described = {each.key: each for each in docstrings.stdlib()}
    for row in rows_of(benchmark):
        right = row["choices"][row["answer"]]
        source, _, key = row["id"].partition("/")
        if source == "rules":
            assert right == key
            assert [rule.name for rule in summaries.values() if rule.why == summaries[key].why] == [key]
            assert row["question"].split("? ", 1)[1] in " ".join(summaries[key].why.split())
        if source == "docstrings":
            assert right == described[key].name


def test_every_place_of_the_answer_is_used_about_equally() -> None:
    for choices in (2, 4):
        places = Counter(row["answer"] for row in rows_of(benchmark) if len(row["choices"]) == choices)
        n = places.total()
        # Five standard deviations of a binomial around an equal share.
        assert all(abs(places[place] - n / choices) < 5 * (n * (choices - 1)) ** 0.5 / choices for place in range(choices))


def test_decontamination_finds_every_long_enough_question_in_the_corpus(tmp_path: Path) -> None:
    folder = tmp_path / "benchmark"
    folder.mkdir()
    for file in benchmark.files(everything):
        (folder / file.path).write_bytes(file.data)
    params = DecontaminateParams.parse({"benchmarks": benchmark.decontaminate_params("benchmark")}, where="decontaminate")
    index = build_index(params, tmp_path)
    texts = [f"{each.key}\n\n{each.text}" for each in docstrings.stdlib()] + [rule.explanation for rule in rules.rules()]
    texts += [text for _, text, _ in reviews.reviews()] + [pair.chinese for pair in parallel.pairs()]
    hits = scan(index, pa.array([str(number) for number in range(len(texts))]), pa.array(texts, pa.large_string()))
    found = {row["item_id"] for row in hits.to_pylist() if row["covered"] >= params.min_covered}
    rows = rows_of(benchmark)
    assert len(found) == len(rows) - sum(index.skipped.values())
    assert len(found) > 0.75 * len(rows)


@given(st.dictionaries(st.text(max_size=8), st.sampled_from("abc"), max_size=30))
def test_a_sibling_is_another_of_the_same_family_and_split(families: dict[str, str]) -> None:
    found = {key: other for key, _, other in preference.siblings((key, family, key) for key, family in families.items())}
    groups = Counter((family, split(key)) for key, family in families.items())
    assert set(found) == {key for key, family in families.items() if groups[family, split(key)] > 1}
    for key, other in found.items():
        assert other != key
        assert (families[other], split(other)) == (families[key], split(key))


def test_items_are_mixed_so_that_a_prefix_is_a_fair_sample(sample: Path) -> None:
    rows = [json.loads(line) for line in (sample / "instruct" / "reviews_zh.jsonl").read_text().split("\n")[:-1]]
    answers = [row["messages"][1]["content"] for row in rows]
    changes = sum(one != other for one, other in pairwise(answers))
    assert changes > len(answers) / 4
