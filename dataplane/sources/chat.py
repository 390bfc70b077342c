"""Instruction, chat and preference data: an object is a conversation, or a question with two answers that are compared, or one judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from dataplane.conversation import MIME, NotAConversation, checked, render
from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record
from dataplane.sources.chat_layouts import LAYOUTS
from dataplane.sources.fields import Fields, Locator, lookup, small_values, storable
from dataplane.sources.json_values import Json
from dataplane.sources.jsonl import MAX_LINE_BYTES


class Chat(Json):
    """Reads the objects of JSON lines or of a JSON array as conversations; one from which nothing can be learnt is a fault.

    Source: those of dataplane.sources.chat_layouts.
    """

    name = "chat"
    suffixes: ClassVar[tuple[str, ...]] = ()  # JSON may be anything: a source states this format

    class Params(BaseParams):
        """Options of conversations."""

        layout: Literal["messages", "sharegpt", "alpaca", "pairs", "judged", "hh", "oasst", "fields"] = Field(
            "messages", description="Which shape the objects have."
        )
        fields: dict[Literal["system", "user", "assistant", "chosen", "rejected", "label"], str] = Field(
            {},
            description="For layout fields: who speaks -> field, as in {user: question, assistant: answer}; label: answers are judged.",
        )
        id: str | None = Field(None, description="Field that names the record: edited text under one id is a new version of one document.")
        meta: dict[str, str] = Field(
            {"split": "split", "lang": "lang"}, description="Name in `meta` -> field; split is train or held_out, where a field says it."
        )
        max_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="Longest object.")

    def record(self, values: Mapping[str, Any], at: Locator) -> Record | Fault:
        """The conversation of an object, as one text."""
        try:
            conversation = checked(LAYOUTS[self.params.layout](values, self.params.fields))
        except NotAConversation as error:
            return Fault(at.offset, "NotAConversation", error.message)
        key = lookup(values, self.params.id) if self.params.id else None
        if self.params.id and key in (None, ""):
            return Fault(at.offset, "NoId", f"field {self.params.id!r} is empty or absent")
        meta = small_values(values, Fields.parse({"meta": self.params.meta, "url": None}, where=self.name))
        return Record(
            storable(render(conversation)).encode(), at.offset, at.length, key=None if key is None else storable(str(key)), mime=MIME,
            charset="utf-8", meta=meta or None,
        )  # fmt: skip
