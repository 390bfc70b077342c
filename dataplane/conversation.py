"""A conversation as one text, which operators measure and rewrite like any other, and from which training reads the turns back.

A line of its own names who speaks: ``⟦user⟧``. A line of somebody's words that begins with that bracket is written with ``⟦⟧`` before it,
so that no words can pass for a turn. A comparison ends in the two answers, ``⟦chosen⟧`` and ``⟦rejected⟧``; where one answer was judged by
itself, it stands behind ``⟦desirable⟧`` or ``⟦undesirable⟧``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.errors import DataError

MIME = "text/x-chat"
ROLES = ("system", "user", "assistant", "tool")
CHOSEN, REJECTED = "chosen", "rejected"
DESIRABLE, UNDESIRABLE = "desirable", "undesirable"
OPEN, CLOSE = "⟦", "⟧"
ESCAPE = OPEN + CLOSE
_NAMES = {f"{OPEN}{name}{CLOSE}": name for name in (*ROLES, CHOSEN, REJECTED, DESIRABLE, UNDESIRABLE)}


class NotAConversation(DataError):
    """A text, or a record, that holds no conversation to learn from."""


@dataclass(frozen=True)
class Turn:
    """What one speaker says."""

    role: str
    content: str


@dataclass(frozen=True)
class Conversation:
    """Turns; of a comparison, also the two answers to them, and of a judgement the one.

    Attributes:
        turns: In order; where no answer is compared or judged, the last is the assistant's.
        chosen: The better answer, None where nothing is compared.
        rejected: The worse one.
        judged: An answer that was judged by itself, None where none was.
        desirable: Whether it was found good.
    """

    turns: tuple[Turn, ...]
    chosen: str | None = None
    rejected: str | None = None
    judged: str | None = None
    desirable: bool = False

    def is_pair(self) -> bool:
        """Whether two answers are compared."""
        return self.chosen is not None

    def is_judged(self) -> bool:
        """Whether one answer is judged by itself."""
        return self.judged is not None

    def asked(self) -> tuple[Turn, ...]:
        """What the last answer answers: all turns where answers are compared or judged, else those before the last."""
        return self.turns if self.is_pair() or self.is_judged() else self.turns[:-1]

    def exchange(self) -> tuple[tuple[Turn, ...], str]:
        """What is asked, and the answer: the better, the judged, or the assistant's last turn with words; what follows that is left."""
        if self.chosen is not None or self.judged is not None:
            return self.turns, str(self.chosen if self.chosen is not None else self.judged)
        place = max(i for i, turn in enumerate(self.turns) if turn.role == "assistant" and turn.content.strip())
        return self.turns[:place], self.turns[place].content


def checked(conversation: Conversation) -> Conversation:
    """The conversation, if there is something to learn from it.

    Raises:
        NotAConversation: No turn or an unknown role; no word of an assistant; a comparison or a judgement with an empty answer, or that
            does not answer a user or a tool; a comparison of equal answers.
    """
    turns = conversation.turns
    if unknown := sorted({turn.role for turn in turns} - set(ROLES)):
        raise NotAConversation(f"unknown roles {unknown}; known: {list(ROLES)}")
    if not turns:
        raise NotAConversation("there is no turn")
    if (conversation.is_pair() or conversation.is_judged()) and turns[-1].role not in ("user", "tool"):
        what = "compared answers follow" if conversation.is_pair() else "judged answer follows"
        raise NotAConversation(f"the {what} a turn of the {turns[-1].role}, expected the user's or a tool's")
    if conversation.is_judged():
        if not str(conversation.judged).strip():
            raise NotAConversation("the judged answer is empty")
    elif conversation.is_pair():
        if not (str(conversation.chosen).strip() and str(conversation.rejected).strip()):
            raise NotAConversation("the chosen or the rejected answer is empty")
        if str(conversation.chosen).strip() == str(conversation.rejected).strip():
            raise NotAConversation("chosen and rejected are the same: there is nothing to prefer")
    elif not any(turn.role == "assistant" and turn.content.strip() for turn in turns):
        raise NotAConversation("no assistant's turn with words: there is nothing to learn")
    return conversation


def render(conversation: Conversation) -> str:
    """The conversation as one text."""
    parts = [(turn.role, turn.content) for turn in conversation.turns]
    if conversation.chosen is not None and conversation.rejected is not None:
        parts += [(CHOSEN, conversation.chosen), (REJECTED, conversation.rejected)]
    if conversation.judged is not None:
        parts.append((DESIRABLE if conversation.desirable else UNDESIRABLE, conversation.judged))
    return "\n".join(line for name, content in parts for line in (f"{OPEN}{name}{CLOSE}", *map(_escaped, content.split("\n"))))


def parse(text: str) -> Conversation:
    """The conversation of a text, after whatever operators made of its words.

    Raises:
        NotAConversation: It does not begin with a turn, or an operator took what names the turns.
    """
    parts: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if line in _NAMES:
            parts.append((_NAMES[line], []))
        elif parts:
            parts[-1][1].append(line.removeprefix(ESCAPE))
        elif line.strip():
            raise NotAConversation("the text does not begin with a turn: an operator took the line that names it")
    return checked(_of_parts([(name, "\n".join(lines)) for name, lines in parts]))


def _of_parts(parts: Sequence[tuple[str, str]]) -> Conversation:
    names = [name for name, _ in parts]
    if names.count(DESIRABLE) + names.count(UNDESIRABLE):
        if names[-1] not in (DESIRABLE, UNDESIRABLE) or not set(names[:-1]) <= set(ROLES):
            raise NotAConversation("a judgement does not end in its one answer")
        return Conversation(tuple(Turn(*part) for part in parts[:-1]), judged=parts[-1][1], desirable=names[-1] == DESIRABLE)
    if CHOSEN not in names and REJECTED not in names:
        return Conversation(tuple(Turn(*part) for part in parts))
    if names[-2:] != [CHOSEN, REJECTED] or names.count(CHOSEN) + names.count(REJECTED) != 2:
        raise NotAConversation("a comparison does not end in one chosen and one rejected answer")
    return Conversation(tuple(Turn(*part) for part in parts[:-2]), parts[-2][1], parts[-1][1])


def _escaped(line: str) -> str:
    return ESCAPE + line if line.startswith(OPEN) else line
