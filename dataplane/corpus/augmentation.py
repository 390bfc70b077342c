"""Variants of the records of a JSONL file, each with the id of its parent and what made it."""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from dataplane.errors import DataError, SourceError, UsageError
from dataplane.params import canonical_json
from dataplane.transforms.augment import Augment, salt
from dataplane.transforms.word_edits import Draws, Vocabulary, edited

BACK_TRANSLATION = "back_translation"
HELD_OUT = "held_out"
SEPARATOR = "#"


@dataclass(frozen=True)
class Plan:
    """What is made of each record.

    Attributes:
        methods: Names of word edits, or BACK_TRANSLATION.
        copies: Variants by each method; one by back-translation, which gives no second.
        share: Edits for each word.
        seed: Another seed gives other variants.
        field: Field of the text; of records with `messages` the turns of `roles` are rewritten.
        id_field: Field of the id.
        roles: Whose turns are rewritten.
        keep_parents: Whether the records themselves are written too.
    """

    methods: Sequence[str]
    copies: int = 1
    share: float = 0.1
    seed: int = 0
    field: str = "text"
    id_field: str = "id"
    roles: Sequence[str] = ("user",)
    keep_parents: bool = True


Rewriter = Callable[[str, str, str, int], tuple[str, int]]  # text, method, key, copy -> text, edits


def rewriter(plan: Plan, words: Vocabulary, translate: Callable[[str], str] | None) -> Rewriter:
    """What makes a variant of one text: its text, and how many edits it took."""

    def rewrite(text: str, method: str, key: str, number: int) -> tuple[str, int]:
        if method != BACK_TRANSLATION:
            return edited(text, method, plan.share, words, Draws(salt(plan.seed, method, key, number)))
        if translate is None:
            raise UsageError("back-translation needs two models", where="augment", fix="name them with --there and --back")
        result = translate(text)
        return result, int(result != text)

    return rewrite


def augment_file(source: Path, target: Path, plan: Plan, rewrite: Rewriter) -> dict[str, Any]:
    """Writes the records of a file with their variants, whole or not at all.

    Args:
        source: JSONL.
        target: The file to make.
        plan: What to make.
        rewrite: What makes a variant of a text.

    Returns:
        Counts: records read, left alone since held out, variants by method, and variants that were as another.

    Raises:
        UsageError: Source and target are one file.
        SourceError: A line is no record with a text.
        DataError: Two records have one id.
    """
    if target.exists() and source.samefile(target):
        raise UsageError("the result would take the place of its source", where=str(target), fix="name another file")
    counts: Counter[str] = Counter()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as out:
            for record in _family(source, plan, rewrite, counts):
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    variants = {method: counts[method] for method in plan.methods}
    return {"records": counts["records"], HELD_OUT: counts[HELD_OUT], "variants": variants, "unchanged": counts["unchanged"]}


def _family(source: Path, plan: Plan, rewrite: Rewriter, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """Each record and its variants, in the order of the file."""
    seen: set[str] = set()
    for where, record in _records(source):
        key = str(record.get(plan.id_field) or xxhash.xxh3_128_hexdigest(canonical_json(record)))
        if key in seen:
            raise DataError(f"the {plan.id_field} {key!r} comes twice", where=where, fix="give each record an id of its own")
        seen.add(key)
        counts["records"] += 1
        if plan.keep_parents:
            yield {**record, plan.id_field: key}
        # A variant of what is held out for evaluation would be asked, and one in training would give it away.
        if record.get("split") == HELD_OUT:
            counts[HELD_OUT] += 1
            continue
        yield from _variants(record, key, where, plan, rewrite, counts)


def _variants(
    record: dict[str, Any], key: str, where: str, plan: Plan, rewrite: Rewriter, counts: Counter[str]
) -> Iterator[dict[str, Any]]:
    made = {tuple(_texts(record, plan, where))}
    for method in plan.methods:
        for number in range(1 if method == BACK_TRANSLATION else plan.copies):
            variant, edits = _variant(record, key, where, plan, lambda text, part, m=method, n=number: rewrite(text, m, part, n))
            texts = tuple(_texts(variant, plan, where))
            if texts in made:
                counts["unchanged"] += 1
                continue
            made.add(texts)
            counts[method] += 1
            name = f"{key}{SEPARATOR}{method}-{number}"
            about = {"method": method, "copy": number, "edits": edits, "seed": plan.seed, "share": plan.share, "version": Augment.version}
            yield {**variant, plan.id_field: name, "parent": key, "augmentation": about}


def _variant(
    record: dict[str, Any], key: str, where: str, plan: Plan, rewrite: Callable[..., tuple[str, int]]
) -> tuple[dict[str, Any], int]:
    """A copy of a record with its texts rewritten, and the edits."""
    variant = copy.deepcopy(record)
    edits = 0
    for i, (holder, name) in enumerate(_places(variant, plan, where)):
        holder[name], count = rewrite(holder[name], f"{key} {i}")
        edits += count
    return variant, edits


def _texts(record: dict[str, Any], plan: Plan, where: str) -> list[str]:
    return [holder[name] for holder, name in _places(record, plan, where)]


def _places(record: dict[str, Any], plan: Plan, where: str) -> list[tuple[dict[str, Any], str]]:
    """Where the texts of a record stand: the object and the name in it.

    Raises:
        SourceError: A text is missing.
    """
    if isinstance(turns := record.get("messages"), list):
        places = [(turn, "content") for turn in turns if isinstance(turn, dict) and turn.get("role") in plan.roles]
    else:
        places = [(record, plan.field)]
    if wrong := [name for holder, name in places if not isinstance(holder.get(name), str)]:
        raise SourceError(f"field {wrong[0]!r} holds no text", where=where, fix="name the field with --field, or mend the line")
    return places


def _records(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with source.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{source}:{number}"
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise SourceError("the line is no JSON", where=where, fix="mend or remove it") from None
            if not isinstance(record, dict):
                raise SourceError("the line is no JSON object", where=where, fix="mend or remove it")
            yield where, record
