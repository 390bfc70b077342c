"""Preference pairs: good and bad code, the right docstring and a sibling's, the right label or translation and a wrong one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dataplane.sample import parallel, rules
from dataplane.sample.files import File, Keep, unit_hash
from dataplane.sample.instruct import (
    DOCSTRING_QUESTIONS,
    LABELS_ZH,
    MAX_CODE_CHARS,
    REVIEW_QUESTIONS,
    TO_ENGLISH,
    described,
    labelled,
)
from dataplane.sample.items import as_file, distinct, first_prose, in_hash_order, pick, split, whole_sentences

MAX_REVIEWS = 1_000

Sibling = TypeVar("Sibling")


def item(key: str, prompt: str, chosen: str, rejected: str, *, source: str, lang: str) -> dict[str, Any]:
    """One pair."""
    return {"id": key, "prompt": prompt, "chosen": chosen, "rejected": rejected, "source": source, "lang": lang, "split": split(key)}


def siblings(members: Iterable[tuple[str, str, Sibling]]) -> Iterator[tuple[str, Sibling, Sibling]]:
    """Each (key, family, value) with the value of the next one, by hash, of its family and split.

    A held-out text is thus never the rejected answer of a pair that is trained on.
    """
    families: dict[tuple[str, str], list[tuple[str, Sibling]]] = defaultdict(list)
    for key, family, value in members:
        families[family, split(key)].append((key, value))
    for _, family_members in sorted(families.items()):
        ordered = sorted(family_members, key=lambda member: (unit_hash(f"sibling/{member[0]}"), member[0]))
        if len(ordered) > 1:
            for (key, value), (_, other) in zip(ordered, [*ordered[1:], ordered[0]], strict=True):
                yield key, value, other


def docstring_items() -> Iterator[Mapping[str, Any]]:
    """A name's docstring is better than that of another name of its module."""
    members = ((f"docstrings/{each.key}", each.module, (each, answer)) for each, answer in described())
    for key, (each, chosen), (_, rejected) in siblings(members):
        prompt = pick(DOCSTRING_QUESTIONS, key).format(name=each.key, module=each.module)
        yield item(key, prompt, chosen, rejected, source="docstrings", lang="en")


def rule_items() -> Iterator[Mapping[str, Any]]:
    """Code that a rule accepts is better than code that it reports."""
    for rule in rules.rules():
        what = whole_sentences(first_prose(rule.what))
        if what and rule.bad != rule.good and 0 < len(rule.good) <= MAX_CODE_CHARS and len(rule.bad) <= MAX_CODE_CHARS:
            prompt = f"Write Python that passes the Ruff rule `{rule.name}` ({rule.code}): {what}"
            chosen, rejected = (f"```python\n{code}\n```" for code in (rule.good, rule.bad))
            yield item(f"rules/{rule.name}", prompt, chosen, rejected, source="rules", lang="en")


def review_items() -> Iterator[Mapping[str, Any]]:
    """The right label is better than the wrong one."""
    for key, text, label in labelled()[:MAX_REVIEWS]:
        key = f"reviews_zh/{key}"
        wrong = "negative" if label == "positive" else "positive"
        chosen, rejected = (f"这条评论是{LABELS_ZH[each]}的。" for each in (label, wrong))
        yield item(key, pick(REVIEW_QUESTIONS, key).format(text=text), chosen, rejected, source="reviews_zh", lang="zh")


def pair_items() -> Iterator[Mapping[str, Any]]:
    """A sentence's translation is better than that of another sentence of its topic."""
    members = ((f"parallel/{pair.key}", f"{pair.level}/{pair.topic}", pair) for pair in parallel.translated())
    for key, pair, other in siblings(members):
        if pair.english != other.english:
            prompt = pick(TO_ENGLISH, key).format(text=pair.chinese)
            yield item(key, prompt, pair.english, other.english, source="parallel", lang="zh")


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file a source, mixed by hash."""
    for source, items in {
        "docstrings": docstring_items(),
        "parallel": pair_items(),
        "reviews_zh": review_items(),
        "rules": rule_items(),
    }.items():
        yield as_file(f"{source}.jsonl", in_hash_order(distinct(items, "prompt"), keep))
