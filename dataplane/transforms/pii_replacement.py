"""What takes the place of personal data: a tag, a number, asterisks or a keyed digest."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import EnvironmentFault
from dataplane.operator import Rewrite
from dataplane.schema import EDIT_SPANS
from dataplane.transforms.pii_look import narrow
from dataplane.transforms.pii_recognizers import Span

# Signals: how many, and where the replacements stand in the new text. What was there is kept nowhere.
WRITES = {"n": pa.int32(), "spans": pa.list_(pa.struct({"kind": pa.string(), "start": pa.int32(), "stop": pa.int32()}))}
KEY_VARIABLE = "TERRAPLANE_PII_KEY"
_MIN_KEY_CHARS = 16
_DIGEST_HEX_CHARS = 16
_CASED, _SIGNED = ("api_key", "private_key", "crypto"), ("email", "ip")
_SIGNS = re.compile(r"[\s().\-]")


class Replacement:
    """Replaces by kind and value.

    Args:
        how: tag, number, mask or hash.
        tag: Holds {kind}.
        key: Of the digests.
    """

    def __init__(self, how: str, tag: str, key: bytes = b"") -> None:
        self._how, self._tag, self._key = how, tag, key

    @classmethod
    def of(cls, how: str, tag: str, operator: str) -> Replacement:
        """With the key from the environment, where one is needed; it stands in no params and no log.

        Raises:
            EnvironmentFault: There is no key, or it is too short to keep the values from being guessed.
        """
        key = os.environ.get(KEY_VARIABLE, "") if how == "hash" else ""
        if how == "hash" and len(key) < _MIN_KEY_CHARS:
            raise EnvironmentFault(
                f"replace: hash needs a key of at least {_MIN_KEY_CHARS} characters",
                where=f"operator {operator!r}",
                fix=f"set the environment variable {KEY_VARIABLE}, or choose another way to replace",
            )
        return cls(how, tag, key.encode())

    def rewrite(self, text: pa.Array, finds: Iterable[tuple[int, str, Sequence[Span]]], kinds: Sequence[str]) -> Rewrite:
        """The texts with their finds replaced, counts and places by kind, and the signals `WRITES`.

        Args:
            text: large_string [n].
            finds: (row, its text, its finds in order), where there are some.
            kinds: All that there can be.
        """
        before: dict[str, dict[int, list[dict[str, int]]]] = {}
        after: dict[int, list[dict[str, Any]]] = {}
        changed: dict[int, str] = {}
        for row, value, found in finds:
            changed[row], after[row] = self.apply(value, found)
            for span in found:
                before.setdefault(span.kind, {}).setdefault(row, []).append({"start": span.start, "stop": span.stop})
        places = {kind: _by_row(rows, len(text), EDIT_SPANS) for kind, rows in before.items()}
        none = pa.array(np.zeros(len(text), np.int32))
        counts = {kind: places[kind].value_lengths() if kind in places else none for kind in kinds}
        spans = _by_row(after, len(text), WRITES["spans"])
        return Rewrite(_replaced(text, changed), counts, {"n": spans.value_lengths(), "spans": spans}, places)

    def apply(self, text: str, finds: Sequence[Span]) -> tuple[str, list[dict[str, Any]]]:
        """The new text, and the places (kind, start, stop) of the replacements in it, in code points."""
        parts, places, at, length = [], [], 0, 0
        seen: dict[tuple[str, str], int] = {}
        for find in finds:
            new = self._of(find.kind, text[find.start : find.stop], seen)
            start = length + find.start - at
            parts += [text[at : find.start], new]
            places.append({"kind": find.kind, "start": start, "stop": start + len(new)})
            at, length = find.stop, start + len(new)
        return "".join([*parts, text[at:]]), places

    def _of(self, kind: str, found: str, seen: dict[tuple[str, str], int]) -> str:
        if self._how == "mask":
            return "*" * len(found)
        name = kind.upper()
        if self._how == "number":
            place = seen.setdefault((kind, _plain(kind, found)), sum(k == kind for k, _ in seen) + 1)
            name = f"{name}_{place}"
        elif self._how == "hash":
            message = f"{kind}:{_plain(kind, found)}".encode()
            name = f"{name}_{hmac.new(self._key, message, hashlib.sha256).hexdigest()[:_DIGEST_HEX_CHARS]}"
        return self._tag.format(kind=name)


def _by_row(values: dict[int, list[dict[str, Any]]], rows: int, kind: pa.DataType) -> pa.Array:
    return pa.array([values.get(row, []) for row in range(rows)], kind)


def _replaced(text: pa.Array, changed: dict[int, str]) -> pa.Array:
    if not changed:
        return text
    mask = np.zeros(len(text), np.bool_)
    mask[list(changed)] = True
    return pc.replace_with_mask(text, pa.array(mask), pa.array(list(changed.values()), text.type))


def _plain(kind: str, found: str) -> str:
    """One spelling of a value, however it is written; where signs or capitals tell values apart they stay."""
    if kind in _CASED:
        return found
    return narrow(found).casefold() if kind in _SIGNED else _SIGNS.sub("", narrow(found)).casefold()
