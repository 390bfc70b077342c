"""Preference pairs: a prompt, the answer to prefer and the one to avoid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.conversation import Turn
from dataplane.errors import SourceError
from trainplane.data.chat import ChatEncoder, split_of
from trainplane.data.jsonl import read_records, text_field

MEND = "mend or remove the line"


@dataclass(frozen=True)
class Pair:
    """One comparison.

    Attributes:
        id: Of the pair; unique in its split.
        prompt: What the user says last.
        chosen: The better answer.
        rejected: The worse answer.
        source: Where it comes from.
        split: train | held_out.
        history: What was said before.
        asker: Whose turn the prompt is: the user's, or a tool's.
    """

    id: str
    prompt: str
    chosen: str
    rejected: str
    source: str
    split: str
    history: tuple[Turn, ...] = ()
    asker: str = "user"

    def messages(self) -> list[Turn]:
        """What the answers answer."""
        return [*self.history, Turn(self.asker, self.prompt)]


@dataclass(frozen=True)
class EncodedPair:
    """Tokens of a pair; both answers with the token that ends them."""

    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]

    def longest(self) -> int:
        """Tokens of the prompt with the longer answer."""
        return len(self.prompt_ids) + max(len(self.chosen_ids), len(self.rejected_ids))


def read_pairs(globs: Iterable[str], root: Path) -> list[Pair]:
    """The pairs of JSONL files {"id", "prompt", "chosen", "rejected", "source", "split"}.

    Raises:
        SourceError: A record is wrong, an answer is empty, both answers are equal, or an id comes twice or in both splits.
    """
    pairs: list[Pair] = []
    splits: dict[str, str] = {}
    for where, record in read_records(globs, root):
        pair = _pair(record, where)
        if pair.id in splits:
            told = "comes twice" if splits[pair.id] == pair.split else "is in both train and held_out"
            raise SourceError(f"the id {pair.id!r} {told}", where=where, fix="give each pair an id of its own, in one split")
        splits[pair.id] = pair.split
        pairs.append(pair)
    return pairs


def _pair(record: dict[str, Any], where: str) -> Pair:
    values = {name: text_field(record, name, where) for name in ("id", "prompt", "chosen", "rejected")}
    for name in ("prompt", "chosen", "rejected"):
        if not values[name].strip():
            raise SourceError(f"field {name!r} is empty", where=where, fix=MEND)
    if values["chosen"] == values["rejected"]:
        raise SourceError("chosen and rejected are the same: there is nothing to prefer", where=where, fix=MEND)
    prompt, chosen, rejected = values["prompt"], values["chosen"], values["rejected"]
    return Pair(values["id"], prompt, chosen, rejected, str(record.get("source", "")), split_of(record, where))


def encode_pair(pair: Pair, encoder: ChatEncoder) -> EncodedPair:
    """Tokens of a pair, by the chat template."""
    asked = pair.messages()
    prompt_ids, chosen_ids = encoder.answer(asked, pair.chosen)
    _, rejected_ids = encoder.answer(asked, pair.rejected)
    return EncodedPair(prompt_ids, chosen_ids, rejected_ids)
