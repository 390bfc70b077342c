"""The shapes in which instruction, chat and preference data is published, each to a conversation.

Source: Alpaca, https://github.com/tatsu-lab/stanford_alpaca (instruction, input, output); ShareGPT as FastChat and LLaMA-Factory read it
(conversations of from and value); OASST, Koepf et al. 2023, arXiv:2304.07327 (message trees with ranked replies); HH-RLHF, Bai et al. 2022,
arXiv:2204.05862 (two transcripts, "Human:" and "Assistant:"); judged answers as trl has unpaired preferences, https://huggingface.co/docs/trl
("Dataset formats": prompt, completion, label).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dataplane.conversation import Conversation, NotAConversation, Turn
from dataplane.sources.fields import lookup

Values = Mapping[str, Any]
ROLE_NAMES = {
    "human": "user", "user": "user", "prompter": "user", "gpt": "assistant", "assistant": "assistant", "bot": "assistant",
    "chatgpt": "assistant", "function_call": "assistant", "system": "system", "observation": "tool", "tool": "tool", "function": "tool",
}  # fmt: skip
LABELS: dict[Any, bool] = {True: True, False: False, -1: False, "true": True, "false": False, "1": True, "0": False, "-1": False}
_SPEAKER = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")
_HH = {"Human": "user", "Assistant": "assistant"}


def messages(values: Values, _: Values) -> Conversation:
    """{"messages": [{"role", "content"}], "tools"?}."""
    return Conversation((*_preface(values), *_turns(values.get("messages"), "role", "content")))


def sharegpt(values: Values, _: Values) -> Conversation:
    """{"conversations": [{"from", "value"}], "system"?, "tools"?}, with "chosen" and "rejected" where answers are compared."""
    turns = (*_preface(values), *_turns(values.get("conversations"), "from", "value"))
    return _compared(turns, values.get("chosen"), values.get("rejected"))


def alpaca(values: Values, _: Values) -> Conversation:
    """{"instruction", "input"?, "output", "system"?, "history"?: [[asked, answered]]}, with "chosen" and "rejected" where compared."""
    asked = "\n".join(part for part in (_text(values, "instruction"), _optional(values, "input")) if part)
    turns = (*_preface(values), *_history(values.get("history") or []), Turn("user", asked))
    if "chosen" in values:
        return _compared(turns, values["chosen"], values.get("rejected"))
    return Conversation((*turns, Turn("assistant", _text(values, "output"))))


def _history(found: Any) -> list[Turn]:
    if not isinstance(found, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
        raise NotAConversation("field 'history' is no list of [asked, answered]")
    return [Turn(role, _said(said, "history")) for pair in found for role, said in zip(("user", "assistant"), pair, strict=True)]


def pairs(values: Values, _: Values) -> Conversation:
    """{"prompt": a text or messages, "chosen", "rejected": texts, messages or the whole conversation}."""
    return _compared((*_preface(values), *_prompt(values)), values.get("chosen"), values.get("rejected"))


def _prompt(values: Values) -> list[Turn]:
    """A question as a text, or as messages."""
    prompt = values.get("prompt")
    return [Turn("user", prompt)] if isinstance(prompt, str) else _turns(prompt, "role", "content")


def judged(values: Values, _: Values) -> Conversation:
    """{"prompt": a text or messages, "completion": a text, messages or the whole conversation, "label": true | false}."""
    return _judged((*_preface(values), *_prompt(values)), values.get("completion"), values.get("label"), "completion")


def hh(values: Values, _: Values) -> Conversation:
    """{"chosen", "rejected"}: two transcripts that part at the last answer."""
    better, worse = (_transcript(_text(values, name)) for name in ("chosen", "rejected"))
    if better[:-1] != worse[:-1] or better[-1].role != "assistant" or worse[-1].role != "assistant":
        raise NotAConversation("the two transcripts do not part at their last answer")
    return Conversation(better[:-1], better[-1].content, worse[-1].content)


def _transcript(text: str) -> tuple[Turn, ...]:
    start, *parts = _SPEAKER.split(text)
    if start.strip() or not parts:
        raise NotAConversation("the transcript does not begin with Human: or Assistant:")
    return tuple(Turn(_HH[name], said.strip()) for name, said in zip(parts[::2], parts[1::2], strict=True))


def oasst(values: Values, _: Values) -> Conversation:
    """{"prompt": {"text", "role", "replies": [...]}}: the best-ranked thread of the tree, down to its last assistant's reply."""
    node: Any = values.get("prompt", values)
    turns = []
    while isinstance(node, Mapping):
        turns.append(Turn(_role(node.get("role")), _text(node, "text")))
        found = node.get("replies")
        replies = [reply for reply in found if isinstance(reply, Mapping) and not reply.get("deleted")] if isinstance(found, list) else []
        node = min(replies, key=_rank, default=None)
    while turns and turns[-1].role != "assistant":
        turns.pop()
    return Conversation(tuple(turns))


def _rank(reply: Values) -> float:
    rank = reply.get("rank")
    return float(rank) if isinstance(rank, int | float) else float("inf")  # min takes the first of those without one


def fields(values: Values, named: Values) -> Conversation:
    """Any object, by a map from who speaks to the field: {user: question, assistant: answer}; with a label, the answer is judged."""
    found = {name: lookup(values, str(path)) for name, path in named.items()}
    turns = tuple(Turn(role, _said(found[role], str(named[role]))) for role in ("system", "user") if found.get(role) not in (None, ""))
    if "chosen" in named:
        return _compared(turns, found["chosen"], found.get("rejected"))
    answer = str(named.get("assistant", "assistant"))
    if "label" in named:
        return _judged(turns, found.get("assistant"), found["label"], answer)
    return Conversation((*turns, Turn("assistant", _said(found.get("assistant"), answer))))


def _preface(values: Values) -> list[Turn]:
    """The system's turn: what it says, and the tools that it offers."""
    tools = values.get("tools")
    told = [_optional(values, "system"), tools if isinstance(tools, str) else json.dumps(tools, ensure_ascii=False) if tools else ""]
    return [Turn("system", "\n\n".join(filter(None, told)))] if any(told) else []


def _turns(found: Any, role: str, content: str) -> list[Turn]:
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(turn, Mapping) for turn in found):
        raise NotAConversation(f"the turns are no list of objects with {role!r} and {content!r}")
    return [Turn(_role(turn.get(role)), _words(turn, content)) for turn in found]


def _words(turn: Values, content: str) -> str:
    """What a turn says; of one that only calls tools, its calls."""
    if turn.get(content) in (None, "") and turn.get("tool_calls"):
        return json.dumps(turn["tool_calls"], ensure_ascii=False)
    return _text(turn, content)


def _role(name: Any) -> str:
    if str(name).lower() not in ROLE_NAMES:
        raise NotAConversation(f"unknown speaker; known: {', '.join(ROLE_NAMES)}")
    return ROLE_NAMES[str(name).lower()]


def _compared(turns: Sequence[Turn], chosen: Any, rejected: Any) -> Conversation:
    if chosen is None and rejected is None:
        return Conversation(tuple(turns))
    return Conversation(tuple(turns), _answer(chosen, "chosen"), _answer(rejected, "rejected"))


def _judged(turns: Sequence[Turn], answer: Any, label: Any, name: str) -> Conversation:
    """A label is true or false, as JSON has them, as 1 and 0 (or -1), or as those words."""
    desirable = LABELS.get(label.strip().lower() if isinstance(label, str) else label if isinstance(label, bool | int | float) else "")
    if desirable is None:
        raise NotAConversation(f"the label is {str(label)[:40]!r}, expected true or false, 1 or 0")
    return Conversation(tuple(turns), judged=_answer(answer, name), desirable=desirable)


def _answer(found: Any, name: str) -> str:
    """An answer: a text, a message, or a conversation that ends in it."""
    last = found[-1] if isinstance(found, Sequence) and not isinstance(found, str) and found else found
    if isinstance(last, Mapping):
        last = last.get("content", last.get("value"))
    return _said(last, name)


def _text(values: Values, name: str) -> str:
    return _said(values.get(name), name)


def _optional(values: Values, name: str) -> str:
    return _said(values.get(name) or "", name)


def _said(found: Any, name: str) -> str:
    if not isinstance(found, str):
        raise NotAConversation(f"field {name!r} holds {type(found).__name__}, expected a text")
    return found


LAYOUTS: dict[str, Callable[[Values, Values], Conversation]] = {
    "messages": messages, "sharegpt": sharegpt, "alpaca": alpaca, "pairs": pairs, "judged": judged, "hh": hh, "oasst": oasst,
    "fields": fields,
}  # fmt: skip
