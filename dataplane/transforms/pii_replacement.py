"""What takes the place of personal data: a tag, a number, asterisks or a keyed digest."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from typing import Any

from dataplane.errors import EnvironmentFault
from dataplane.transforms.pii_look import narrow
from dataplane.transforms.pii_recognizers import Span

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
    def of(cls, how: str, tag: str) -> Replacement:
        """With the key from the environment, where one is needed; it stands in no params and no log.

        Raises:
            EnvironmentFault: There is no key, or it is too short to keep the values from being guessed.
        """
        key = os.environ.get(KEY_VARIABLE, "") if how == "hash" else ""
        if how == "hash" and len(key) < _MIN_KEY_CHARS:
            raise EnvironmentFault(
                f"replace: hash needs a key of at least {_MIN_KEY_CHARS} characters",
                where="operator 'scrub_pii'",
                fix=f"set the environment variable {KEY_VARIABLE}, or choose another way to replace",
            )
        return cls(how, tag, key.encode())

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


def _plain(kind: str, found: str) -> str:
    """One spelling of a value, however it is written; where signs or capitals tell values apart they stay."""
    if kind in _CASED:
        return found
    return narrow(found).casefold() if kind in _SIGNED else _SIGNS.sub("", narrow(found)).casefold()
