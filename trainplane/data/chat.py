"""Chat examples: read, rendered by the tokenizer's chat template, and labelled so that only the assistant's words are learnt.

A template is rendered once for each sequence of roles, with marks in place of the contents. What lies between the marks is the
template's own, and its special tokens count; the contents are tokenised as plain text, so that `<|end|>` in a user's message
is seven letters and cannot end a turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataplane.conversation import ROLES, Turn
from dataplane.errors import SourceError
from trainplane.data.jsonl import read_records, text_field
from trainplane.data.packed import IGNORED
from trainplane.errors import TrainingError

ASSISTANT = "assistant"
# Letters of a plane for private use: no template holds them, and none changes them by case or white space.
_MARK = "\U000f0000{}\U000f0001"
_MARKS = re.compile("\U000f0000(\\d+)\U000f0001")


@dataclass(frozen=True)
class Example:
    """A conversation.

    Attributes:
        id: Unique in its data.
        messages: Its turns.
        source: Where it comes from.
        lang: Its language, "" where unknown.
        split: train | held_out.
    """

    id: str
    messages: tuple[Turn, ...]
    source: str
    lang: str
    split: str


@dataclass(frozen=True)
class Encoded:
    """Tokens of a conversation.

    Attributes:
        input_ids: The tokens.
        labels: The same tokens where they are learnt, IGNORED elsewhere; not shifted.
    """

    input_ids: list[int]
    labels: list[int]

    def n_labels(self) -> int:
        """Tokens that are learnt."""
        return sum(label != IGNORED for label in self.labels)

    def cut(self, max_length: int) -> Encoded:
        """The first tokens."""
        return Encoded(self.input_ids[:max_length], self.labels[:max_length])


@dataclass(frozen=True)
class _Piece:
    """A stretch of a rendered template: its own tokens, or the content of a message."""

    ids: tuple[int, ...]
    message: int | None
    learnt: bool


def read_examples(globs: Iterable[str], root: Path) -> list[Example]:
    """The examples of JSONL files {"id", "messages": [{"role", "content"}], "source", "lang", "split"}.

    Raises:
        SourceError: A record is wrong, or two have one id.
    """
    examples: list[Example] = []
    seen: set[str] = set()
    for where, record in read_records(globs, root):
        example = _example(record, where)
        if example.id in seen:
            raise SourceError(f"the id {example.id!r} comes twice", where=where, fix="give each example an id of its own")
        seen.add(example.id)
        examples.append(example)
    return examples


def _example(record: dict[str, Any], where: str) -> Example:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise SourceError("field 'messages' should be a list of objects", where=where, fix="mend or remove the line")
    turns = tuple(Turn(text_field(message, "role", where), text_field(message, "content", where)) for message in messages)
    if unknown := {turn.role for turn in turns} - set(ROLES):
        raise SourceError(f"unknown roles {sorted(unknown)}; known: {sorted(ROLES)}", where=where, fix="mend or remove the line")
    if not any(turn.role == ASSISTANT and turn.content for turn in turns):
        raise SourceError("no assistant's message with words: there is nothing to learn", where=where, fix="mend or remove the line")
    return Example(
        text_field(record, "id", where), turns, str(record.get("source", "")), str(record.get("lang", "")), split_of(record, where)
    )


def write_examples(examples: Iterable[Example], path: Path) -> None:
    """Writes examples so that `read_examples` reads them."""
    lines = (json.dumps(asdict(example), ensure_ascii=False, sort_keys=True) + "\n" for example in examples)
    path.write_text("".join(lines), encoding="utf-8")


def split_of(record: dict[str, Any], where: str) -> str:
    """The split of a record; train where it says nothing.

    Raises:
        SourceError: It is neither train nor held_out.
    """
    split = record.get("split", "train")
    if split not in ("train", "held_out"):
        raise SourceError(f"split {split!r} is neither 'train' nor 'held_out'", where=where, fix="mend or remove the line")
    return str(split)


class ChatEncoder:
    """Turns conversations into tokens.

    Args:
        tokenizer: With a chat template, as transformers loads it.

    Raises:
        TrainingError: There is no template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise TrainingError("the tokenizer has no chat template", where="chat", fix="dvc repro tokenizer")
        self.tokenizer = tokenizer
        self._layouts: dict[tuple[tuple[str, ...], bool], list[_Piece]] = {}

    def encode(self, messages: Sequence[Turn]) -> Encoded:
        """Tokens and labels of a whole conversation.

        Raises:
            TrainingError: Nothing is learnt, or the beginning-of-sequence token stands twice.
        """
        input_ids: list[int] = []
        labels: list[int] = []
        for piece in self._layout(tuple(message.role for message in messages), prompt=False):
            ids = list(piece.ids) if piece.message is None else self.plain(messages[piece.message].content)
            input_ids += ids
            labels += ids if piece.learnt else [IGNORED] * len(ids)
        if all(label == IGNORED for label in labels):
            raise TrainingError(
                "no token of the example is learnt", where="chat", fix="check the chat template and the assistant's messages"
            )
        self._check_start(input_ids)
        return Encoded(input_ids, labels)

    def prompt(self, messages: Sequence[Turn]) -> list[int]:
        """Tokens up to where the assistant begins to speak."""
        layout = self._layout(tuple(message.role for message in messages), prompt=True)
        return [
            token for piece in layout for token in (piece.ids if piece.message is None else self.plain(messages[piece.message].content))
        ]

    def answer(self, messages: Sequence[Turn], content: str) -> tuple[list[int], list[int]]:
        """Tokens of a prompt, and those of an answer with the token that ends it."""
        encoded = self.encode([*messages, Turn(ASSISTANT, content)])
        start = next(i for i, label in reversed(list(enumerate(encoded.labels))) if label == IGNORED) + 1
        return encoded.input_ids[:start], encoded.input_ids[start:]

    def stop_ids(self) -> list[int]:
        """Tokens at which generation stops: what ends an answer, and the end of the text.

        An answer ends with the first special token behind its words: templates such as ChatML's put a line break behind it.
        """
        _, answer = self.answer([Turn("user", "?")], "!")
        special = set(self.tokenizer.all_special_ids)
        ends = [token for token in answer if token in special] or answer[-1:]
        return sorted({ends[0], int(self.tokenizer.eos_token_id)})

    def _check_start(self, input_ids: list[int]) -> None:
        bos = self.tokenizer.bos_token_id
        if bos is not None and input_ids[:2] == [bos, bos]:
            raise TrainingError("the token that begins a sequence stands twice", where="chat", fix="take it out of the chat template")

    def plain(self, text: str) -> list[int]:
        """Tokens of a text that is no template: what looks like a special token is text."""
        backend = self.tokenizer.backend_tokenizer
        backend.encode_special_tokens = True
        try:
            ids: list[int] = backend.encode(text, add_special_tokens=False).ids
        finally:
            backend.encode_special_tokens = False
        return ids

    def _layout(self, roles: tuple[str, ...], *, prompt: bool) -> list[_Piece]:
        if (roles, prompt) not in self._layouts:
            self._layouts[roles, prompt] = self._render_layout(roles, prompt=prompt)
        return self._layouts[roles, prompt]

    def _render_layout(self, roles: tuple[str, ...], *, prompt: bool) -> list[_Piece]:
        """Pieces of the rendered template, the assistant's turns found by rendering prefixes.

        A turn of the assistant is learnt from where the prompt before it ends to where the conversation with it ends: this
        needs no {% generation %} in the template.
        """
        marked = [{"role": role, "content": _MARK.format(number)} for number, role in enumerate(roles)]
        whole = self._render(marked, prompt=prompt)
        pieces: list[_Piece] = []
        at = 0
        for number, role in enumerate(roles):
            start = self._boundary(whole, marked[:number], prompt=role == ASSISTANT)
            stop = self._boundary(whole, marked[: number + 1], prompt=False)
            pieces += self._pieces(whole[at:start], learnt=False)
            pieces += self._pieces(whole[start:stop], learnt=role == ASSISTANT)
            at = stop
        pieces += self._pieces(whole[at:], learnt=False)
        if [piece.message for piece in pieces if piece.message is not None] != list(range(len(roles))):
            raise TrainingError("the chat template drops, doubles or changes messages", where="chat", fix="correct the template")
        return pieces

    def _boundary(self, whole: str, messages: list[dict[str, str]], *, prompt: bool) -> int:
        if not messages and not prompt:
            return 0
        prefix = self._render(messages, prompt=prompt)
        if not whole.startswith(prefix):
            raise TrainingError(
                "the chat template renders a conversation's start in another way than the whole", where="chat", fix="correct the template"
            )
        return len(prefix)

    def _render(self, messages: list[dict[str, str]], *, prompt: bool) -> str:
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))

    def _pieces(self, text: str, *, learnt: bool) -> list[_Piece]:
        pieces = []
        for place, part in enumerate(_MARKS.split(text)):
            if place % 2:
                pieces.append(_Piece((), int(part), learnt))
            elif part:
                pieces.append(_Piece(tuple(self.tokenizer.backend_tokenizer.encode(part, add_special_tokens=False).ids), None, learnt))
        return pieces
