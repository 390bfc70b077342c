"""Instruction pairs out of rule pages, docstrings, labelled reviews and sentence pairs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from dataplane.sample import docstrings, parallel, reviews, rules
from dataplane.sample.files import File, Keep, unit_hash
from dataplane.sample.items import as_file, distinct, first_prose, in_hash_order, pick, split, whole_sentences

MIN_ANSWER_CHARS = 20
MAX_CODE_CHARS = 500
MAX_REVIEWS = 2_000
REVIEW_MIN_CHARS, REVIEW_MAX_CHARS = 10, 150
LABELS_ZH = {"positive": "正面", "negative": "负面"}

DOCSTRING_QUESTIONS = (
    "What does `{name}` do in Python?",
    "In Python's standard library, what is `{name}` for?",
    "Explain `{name}` of the module `{module}` in a few words.",
)
RULE_QUESTIONS = ("What does the Ruff rule `{name}` ({code}) check?", "Explain what Ruff's rule `{name}` ({code}) looks for.")
WHY_QUESTIONS = ("Why does the Ruff rule `{name}` ({code}) exist?", "Why is what Ruff reports as `{name}` ({code}) bad?")
REVIEW_QUESTIONS = ("下面这条评论的情感是正面的还是负面的？\n{text}", "请判断这条评论的情感倾向：\n{text}")
TO_ENGLISH = ("请把下面的句子翻译成英语：\n{text}", "“{text}”用英语怎么说？")
TO_CHINESE = ("Translate into Chinese:\n{text}", "How do you say this in Chinese?\n{text}")


def item(key: str, question: str, answer: str, *, source: str, kind: str, lang: str, group: str) -> dict[str, Any]:
    """One pair; all that is made of one `group` is in one split."""
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"id": key, "messages": messages, "source": source, "kind": kind, "lang": lang, "split": split(group)}


@functools.cache
def described() -> tuple[tuple[docstrings.Docstring, str], ...]:
    """Docstrings that begin with whole sentences, and these; of equal ones the first."""
    found: dict[str, docstrings.Docstring] = {}
    for each in docstrings.stdlib():
        answer = whole_sentences(first_prose(each.text))
        if len(answer) >= MIN_ANSWER_CHARS:
            found.setdefault(answer, each)
    return tuple((each, answer) for answer, each in found.items())


@functools.cache
def labelled() -> tuple[tuple[str, str, str], ...]:
    """Key, text and label of reviews of middling length; once each, without those that carry both labels."""
    found: dict[str, tuple[str, str, str]] = {}
    labels: dict[str, set[str]] = {}
    for key, text, label in reviews.reviews():
        text = text.strip()
        labels.setdefault(text, set()).add(label)
        if REVIEW_MIN_CHARS <= len(text) <= REVIEW_MAX_CHARS:
            found.setdefault(text, (key, text, label))
    unambiguous = (each for text, each in found.items() if len(labels[text]) == 1)
    return tuple(sorted(unambiguous, key=lambda each: unit_hash(each[1])))


def docstring_items() -> Iterator[Mapping[str, Any]]:
    """What does this name do."""
    for each, answer in described():
        key = f"docstrings/{each.key}"
        question = pick(DOCSTRING_QUESTIONS, key).format(name=each.key, module=each.module)
        yield item(key, question, answer, source="docstrings", kind="what", lang="en", group=key)


def rule_items() -> Iterator[Mapping[str, Any]]:
    """What a rule checks, why, and how its example is mended; of equal answers the first, as some rules share a reason."""
    answered: set[str] = set()
    for rule in rules.rules():
        group = f"rules/{rule.name}"
        for kind, questions, section in (("what", RULE_QUESTIONS, rule.what), ("why", WHY_QUESTIONS, rule.why)):
            answer = whole_sentences(first_prose(section))
            if len(answer) >= MIN_ANSWER_CHARS and answer not in answered:
                answered.add(answer)
                question = pick(questions, group).format(name=rule.name, code=rule.code)
                yield item(f"{group}/{kind}", question, answer, source="rules", kind=kind, lang="en", group=group)
        if rule.good and len(rule.bad) <= MAX_CODE_CHARS and len(rule.good) <= MAX_CODE_CHARS:
            question = f"Ruff reports `{rule.name}` ({rule.code}) here. How is it mended?\n```python\n{rule.bad}\n```"
            answer = f"```python\n{rule.good}\n```"
            yield item(f"{group}/fix", question, answer, source="rules", kind="fix", lang="en", group=group)


def review_items() -> Iterator[Mapping[str, Any]]:
    """Is this review positive."""
    for key, text, label in labelled()[:MAX_REVIEWS]:
        key = f"reviews_zh/{key}"
        question = pick(REVIEW_QUESTIONS, key).format(text=text)
        answer = f"这条评论是{LABELS_ZH[label]}的。"
        yield item(key, question, answer, source="reviews_zh", kind="sentiment", lang="zh", group=key)


def pair_items() -> Iterator[Mapping[str, Any]]:
    """Translate, one direction a pair; a sentence is asked for once, so that no held-out question is trained on."""
    asked: set[str] = set()
    for pair in parallel.translated():
        key = f"parallel/{pair.key}"
        to_english = unit_hash(f"direction/{key}") < 0.5
        questions, text, answer = (TO_ENGLISH, pair.chinese, pair.english) if to_english else (TO_CHINESE, pair.english, pair.chinese)
        if text in asked:
            continue
        asked.add(text)
        question = pick(questions, key).format(text=text)
        lang = "zh" if to_english else "en"
        yield item(key, question, answer, source="parallel", kind="translate", lang=lang, group=key)


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file a source, mixed by hash."""
    for source, items in {
        "docstrings": docstring_items(),
        "parallel": pair_items(),
        "reviews_zh": review_items(),
        "rules": rule_items(),
    }.items():
        yield as_file(f"{source}.jsonl", in_hash_order(distinct(items, "messages"), keep))
