"""Multiple-choice questions of held-out texts, in English and Chinese; they quote the text, so that a copy in the corpus is found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dataplane.sample import parallel, rules
from dataplane.sample.files import File, Keep, unit_hash
from dataplane.sample.instruct import LABELS_ZH, described, labelled
from dataplane.sample.items import as_file, distinct, first_prose, split, whole_sentences

N_CHOICES = 4
# Decontamination looks for runs of 13 words, so a quotation has at least as many.
MIN_QUOTED_WORDS = 13
MAX_QUOTED_CHARS = 500
ITEMS_A_FILE = 100
# Of a small sample still enough to score.
MIN_ITEMS_A_FILE = 20


def item(key: str, question: str, right: str, wrong: Sequence[str], *, lang: str, passage: str) -> dict[str, Any]:
    """One question; the place of the right choice goes by the hash of the id, `passage` is what it takes from the corpus."""
    place = int(unit_hash(f"place/{key}") * (len(wrong) + 1))
    choices = [*wrong[:place], right, *wrong[place:]]
    return {"id": key, "question": question, "choices": choices, "answer": place, "lang": lang, "passage": passage}


def others(family: Sequence[str], right: str, key: str) -> list[str]:
    """Three others of the family by hash of key and name; fewer where the family is small."""
    return sorted(set(family) - {right}, key=lambda other: (unit_hash(f"other/{key}/{other}"), other))[: N_CHOICES - 1]


def quoted(text: str, name: str) -> str:
    """Whole sentences of a description, "" where they are too short or give the name away."""
    quotation = whole_sentences(first_prose(text), MAX_QUOTED_CHARS)
    words = {word.lower() for word in re.findall(r"\w+", quotation)}
    gives_away = name.lower() in words or name.lower() in quotation.lower()
    return "" if len(quotation.split()) < MIN_QUOTED_WORDS or gives_away else quotation


def docstring_items() -> Iterator[Mapping[str, Any]]:
    """Which name of this module does what is quoted."""
    modules: dict[str, list[str]] = defaultdict(list)
    for each, _ in described():
        modules[each.module].append(each.name)
    for each, _ in described():
        key = f"docstrings/{each.key}"
        quotation = quoted(each.text, each.name.rpartition(".")[2])
        wrong = others(modules[each.module], each.name, key)
        if split(key) == "held_out" and quotation and len(wrong) == N_CHOICES - 1:
            question = f"Which name of Python's module `{each.module}` is described here? {quotation}"
            yield item(key, question, each.name, wrong, lang="en", passage=quotation)


def rule_items() -> Iterator[Mapping[str, Any]]:
    """Which rule of this linter has the reason that is quoted."""
    linters: dict[str, list[str]] = defaultdict(list)
    for rule in rules.rules():
        linters[rule.linter].append(rule.name)
    reasons = Counter(rule.why for rule in rules.rules())
    for rule in (rule for rule in rules.rules() if reasons[rule.why] == 1):
        key = f"rules/{rule.name}"
        quotation = quoted(rule.why, rule.name)
        wrong = others(linters[rule.linter], rule.name, key)
        if split(key) == "held_out" and quotation and len(wrong) == N_CHOICES - 1:
            yield item(key, f"Which Ruff rule has this reason? {quotation}", rule.name, wrong, lang="en", passage=quotation)


def review_items() -> Iterator[Mapping[str, Any]]:
    """Is this Chinese review positive."""
    for key, text, label in labelled():
        key = f"reviews_zh/{key}"
        if split(key) == "held_out":
            right = LABELS_ZH[label]
            wrong = [each for each in LABELS_ZH.values() if each != right]
            yield item(key, f"下面这条评论的情感是正面的还是负面的？{text}", right, wrong, lang="zh", passage=text)


def pair_items() -> Iterator[Mapping[str, Any]]:
    """Which English sentence says what the Chinese one says."""
    levels: dict[int, list[str]] = defaultdict(list)
    for pair in parallel.translated():
        levels[pair.level].append(pair.english)
    for pair in parallel.translated():
        key = f"parallel/{pair.key}"
        wrong = others(levels[pair.level], pair.english, key) if split(key) == "held_out" else []
        if len(wrong) == N_CHOICES - 1:
            yield item(key, f"“{pair.chinese}”用英语怎么说？", pair.english, wrong, lang="zh", passage=pair.chinese)


SOURCES: Mapping[str, Callable[[], Iterator[Mapping[str, Any]]]] = {
    "docstrings": docstring_items,
    "parallel": pair_items,
    "reviews_zh": review_items,
    "rules": rule_items,
}


def decontaminate_params(folder: str) -> list[dict[str, Any]]:
    """The `decontaminate.benchmarks` subtree of params.yaml that finds the passages of the questions in `folder`."""
    return [
        {"name": f"sample_{source}", "paths": [f"{folder}/{source}.jsonl"], "fields": ["passage"], "id_field": "id"} for source in SOURCES
    ]


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file a source; the first by hash, so that a small sample asks of what it keeps."""
    for source, items in SOURCES.items():
        ordered = sorted(distinct(items(), "question"), key=lambda each: (unit_hash(each["id"]), each["id"]))[:ITEMS_A_FILE]
        kept = [each for number, each in enumerate(ordered) if keep(each["id"]) or number < MIN_ITEMS_A_FILE]
        yield as_file(f"{source}.jsonl", kept)
