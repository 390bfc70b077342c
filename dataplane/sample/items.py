"""Questions and answers made of the sample's texts: how their words are cut, and which are held out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from dataplane.sample.files import File, Keep, jsonl, unit_hash

HELD_OUT_SHARE = 0.1
MAX_ANSWER_CHARS = 600
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])")
# A list, a table, an example or a field list is no sentence.
_NOT_PROSE = re.compile(r"^\s*(?:[-*+|>:@]|\d+[.)]|```|\.\. |={3,})", re.MULTILINE)

Choice = TypeVar("Choice")


def split(key: str) -> str:
    """The split of everything that is made of the text of that key; independent of what a smaller sample keeps."""
    return "held_out" if unit_hash(f"split/{key}") < HELD_OUT_SHARE else "train"


def pick(choices: Sequence[Choice], key: str) -> Choice:
    """One of the choices, by hash of the key."""
    return choices[int(unit_hash(f"pick/{key}") * len(choices))]


def first_prose(text: str) -> str:
    """The first paragraph in one line, "" where it is no prose."""
    paragraph = text.strip().split("\n\n")[0]
    return "" if _NOT_PROSE.search(paragraph) else " ".join(paragraph.split())


def whole_sentences(text: str, limit: int = MAX_ANSWER_CHARS) -> str:
    """As many whole sentences from the start as fit in `limit` characters; "" where not even the first does."""
    kept = ""
    for sentence in _SENTENCE_END.split(text):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > limit or not sentence.endswith((".", "!", "?", "。", "！", "？")):
            break
        kept = longer
    return kept


def distinct(items: Iterable[Mapping[str, Any]], *names: str) -> Iterator[Mapping[str, Any]]:
    """Items whose named fields, taken together, were not seen before."""
    seen = set()
    for item in items:
        content = json.dumps([item[name] for name in names], ensure_ascii=False)
        if content not in seen:
            seen.add(content)
            yield item


def in_hash_order(items: Iterable[Mapping[str, Any]], keep: Keep) -> list[Mapping[str, Any]]:
    """The items that are kept, mixed by the hash of their id, so that the first n are a fair sample."""
    return sorted((item for item in items if keep(item["id"])), key=lambda item: (unit_hash(item["id"]), item["id"]))


def as_file(path: str, items: Sequence[Mapping[str, Any]]) -> File:
    """The items as a JSON Lines file."""
    return File(path, jsonl(items), len(items))
