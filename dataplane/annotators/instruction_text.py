"""What is asked and what is answered in a conversation, and the words of both.

Conversations are few beside the documents of a corpus, and short, so that they are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.conversation import NotAConversation, Turn, parse

# Chinese and Japanese are not written in words: a character is one. Other words are runs of letters, marks, digits and underscores.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")


@dataclass(frozen=True)
class Exchange:
    """A question and its answer.

    Attributes:
        asked: The turns before the answer.
        answer: The last turn of the assistant; of a comparison, the chosen answer; of a judgement, the judged one.
        n_turns: Turns of the conversation, answers of a comparison counted once.
    """

    asked: tuple[Turn, ...]
    answer: str
    n_turns: int

    def instruction(self) -> str:
        """The words of the turns before the answer."""
        return "\n".join(turn.content for turn in self.asked)


def exchange(text: str | None) -> Exchange | None:
    """The question and answer of a document; None where it is no conversation."""
    try:
        conversation = parse(text or "")
    except NotAConversation:
        return None
    asked, answer = conversation.exchange()
    return Exchange(asked, answer, len(conversation.turns) + (conversation.is_pair() or conversation.is_judged()))


def words(text: str) -> list[str]:
    """The words of a text, without case."""
    return _WORD.findall(text.casefold())


def distinct(tokens: Sequence[str], n: int) -> float | None:
    """Share of the n-grams that are different; None where there is none."""
    grams = list(zip(*(tokens[i:] for i in range(n)), strict=False))
    return len(set(grams)) / len(grams) if grams else None
