"""Which field of an object or a row is the text, the id, the address, and what else is kept."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record
from dataplane.sources.code_language import language_of, source_mime

MAX_META_CHARS = 2000  # of one value; longer ones are left out of `meta`
MAX_META_FIELDS = 64
SURROGATE = re.compile("[\ud800-\udfff]")
BETWEEN_TEXTS = "\n\n"


class Fields(BaseParams):
    """Which field is what; a dot leads into an object, a number to an element of a list."""

    text: str | tuple[str, ...] = Field("text", description="Field of the text; of several the texts are joined by an empty line.")
    id: str | None = Field(None, description="Field that names the record: edited text under one id is a new version of one document.")
    url: str | None = Field("url", description="Field of the address.")
    path: str | None = Field(
        None, description="Field of a file's name, which says its programming language; its MIME type is text/x-LANGUAGE."
    )
    meta: dict[str, str] | None = Field(
        None, description="Name in `meta` -> field, as in {title: info.title}; null keeps every short value of the top level."
    )

    def texts(self) -> tuple[str, ...]:
        """The fields of the text."""
        return (self.text,) if isinstance(self.text, str) else self.text

    def paths(self) -> list[str]:
        """Every field that is named."""
        return [*self.texts(), *filter(None, (self.id, self.url, self.path)), *(self.meta or {}).values()]


class Locator:
    """Where a record lies: bytes of a stream, or a row."""

    def __init__(self, offset: int, length: int, row: int | None = None) -> None:
        self.offset, self.length, self.row = offset, length, row


def record_of(values: Mapping[str, Any], fields: Fields, at: Locator, mime: str) -> Record | Fault:
    """A record from a JSON object or a row."""
    text = _text(values, fields)
    if not isinstance(text, str | bytes):
        known = ", ".join(list(map(str, values))[:8])
        named = " and ".join(map(repr, fields.texts()))
        got = f"field {named} holds {type(text).__name__}, expected a text"
        return Fault(at.offset, "NoText", f"{got} (fields: {known}); set the option `text`")
    key = lookup(values, fields.id) if fields.id else None
    if fields.id and key in (None, ""):
        return Fault(at.offset, "NoId", f"field {fields.id!r} is empty or absent")
    url = lookup(values, fields.url) if fields.url else None
    mime = (_source_mime(lookup(values, fields.path), text) if fields.path else None) or mime
    charset, payload = (None, text) if isinstance(text, bytes) else ("utf-8", storable(text).encode())
    return Record(
        payload, at.offset, at.length, row=at.row, key=None if key is None else storable(str(key)), mime=mime, charset=charset,
        url=storable(url) if isinstance(url, str) else None, meta=small_values(values, fields) or None,
    )  # fmt: skip


def _source_mime(name: Any, text: str | bytes) -> str | None:
    """The MIME type of the programming language of a file of this name."""
    language = language_of(name, text if isinstance(text, str) else text.decode("utf-8", "replace")) if isinstance(name, str) else None
    return source_mime(language) if language else None


def _text(values: Mapping[str, Any], fields: Fields) -> Any:
    """The text, or what stands in its place. Of several fields those that are absent are passed over."""
    paths = fields.texts()
    if len(paths) == 1:
        return lookup(values, paths[0])
    found = [text for path in paths if isinstance(text := lookup(values, path), str)]
    return BETWEEN_TEXTS.join(found) if found else None


def storable(text: str) -> str:
    """A text without lone surrogates, which are legal in JSON and not in UTF-8: each becomes U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


def lookup(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where it leads nowhere. A field whose own name has the dot comes first."""
    if path in values:
        return values[path]
    node: Any = values
    for part in path.split("."):
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, Sequence) and not isinstance(node, str | bytes) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def small_values(values: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The fields asked for, else the small ones that are neither the text nor the address."""
    if fields.meta is not None:
        named = ((name, lookup(values, path)) for name, path in fields.meta.items())
        return {name: _kept(value) for name, value in named if _is_small(value)}
    taken = {name.partition(".")[0] for name in (*fields.texts(), fields.url) if name}
    small = ((str(k), v) for k, v in values.items() if k not in taken and len(str(k)) <= MAX_META_CHARS and _is_small(v))
    return {storable(k): _kept(v) for k, v in itertools.islice(small, MAX_META_FIELDS)}


def _kept(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _is_small(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has no NaN, though Python reads it
    return isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= MAX_META_CHARS)
