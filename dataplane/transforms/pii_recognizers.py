"""Where in a text personal data of which kind stands: windows around the candidates of the first pass, and a finder for each kind.

Spans are code points. A find that touches an end of its window may be cut, and is left out; its own window holds it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dataplane.kernels.pii_candidates import ADDRESS, ALL, AT, NUMBER, PEM, PLATE, WORD
from dataplane.transforms import pii_shapes
from dataplane.transforms.pii_addresses import emails, ips
from dataplane.transforms.pii_chinese import cn_ids, cn_mobiles, cn_plates, shaped_cn_ids
from dataplane.transforms.pii_look import Found, Look
from dataplane.transforms.pii_national import NATIONAL_IDS, NationalIds
from dataplane.transforms.pii_phones import phones

# What each kind could be hidden in: the bits of the candidates in which it is looked for. Where finds overlap the earlier kind wins.
_BITS = {
    "private_key": PEM,
    "api_key": WORD | AT | ADDRESS,
    "email": AT,
    "cn_id": NUMBER,
    "cn_id_shaped": NUMBER,
    "cn_mobile": NUMBER,
    "ip": ADDRESS,
    "iban": WORD | NUMBER,
    "crypto": WORD,
    **dict.fromkeys(NATIONAL_IDS, NUMBER | WORD),
    "card": NUMBER,
    "bank_card": NUMBER,
    "passport": NUMBER | WORD,
    "driver_licence": NUMBER | WORD,
    "cn_plate": PLATE,
    "phone": NUMBER,
}
KINDS = tuple(_BITS)
_FINDERS: dict[str, Callable[[Look], Found]] = {
    "private_key": pii_shapes.private_keys,
    "api_key": pii_shapes.api_keys,
    "email": emails,
    "cn_id": cn_ids,
    "cn_id_shaped": shaped_cn_ids,
    "cn_mobile": cn_mobiles,
    "iban": pii_shapes.ibans,
    "crypto": pii_shapes.crypto_addresses,
    "card": pii_shapes.cards,
    "bank_card": pii_shapes.bank_cards,
    "passport": pii_shapes.passports,
    "driver_licence": pii_shapes.driver_licences,
    "cn_plate": cn_plates,
}
MARGIN_CHARS = 330  # the longest address (RFC 5321, 4.5.3.1: 64 + 1 + 255) and a little
WINDOW_MARGIN_CHARS = 112  # what is written around six digits, and a word before it


@dataclass(frozen=True)
class Span:
    """One find: kind, first and last code point (exclusive)."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class Window:
    """Where to look: first and last code point (exclusive), and the bits of what could be there."""

    start: int
    stop: int
    bits: int


def windows_of(candidates: Iterable[Sequence[int]], length: int) -> list[Window]:
    """Windows around the candidates of one text, with room for what belongs to them, joined where they meet.

    Args:
        candidates: (first, last, bits), in any order.
        length: Of the text, in code points.
    """
    joined: list[Window] = []
    for first, last, bits in sorted((max(0, c[0] - _margin(c[2])), min(length, c[1] + _margin(c[2])), c[2]) for c in candidates):
        if joined and first <= joined[-1].stop:
            before = joined.pop()
            first, last, bits = before.start, max(before.stop, last), before.bits | bits
        joined.append(Window(first, last, bits))
    return joined


def _margin(bits: int) -> int:
    return MARGIN_CHARS if bits & AT else WINDOW_MARGIN_CHARS


class Recognizers:
    """The recognisers, loaded once.

    Args:
        kinds: Which to use; where finds overlap the one earlier in `KINDS` wins.
        regions: Regions whose national phone numbers are recognised, all where empty; international ones always are.
        private_ips: Whether addresses that lead nowhere on the internet count.
        words: Whether a national number whose shape is not rare counts only beside a word that names it.
    """

    def __init__(self, kinds: Sequence[str], regions: Sequence[str] = (), *, private_ips: bool = False, words: bool = True) -> None:
        self._kinds = [kind for kind in KINDS if kind in kinds]
        self._finders = {**_FINDERS, "ip": ips(private=private_ips), "phone": phones(regions)}
        national = [kind for kind in self._kinds if kind in NATIONAL_IDS]
        self._national = NationalIds(national, words=words) if national else None

    def find(self, text: str, windows: Sequence[Window] | None = None) -> list[Span]:
        """The finds in a text, in order and without overlaps.

        Args:
            text: The document.
            windows: Where to look, in order and apart; everywhere where left out.
        """
        windows = [Window(0, len(text), ALL)] if windows is None else windows
        found = [span for window in windows for span in self._find(Look.at(text, window.start, window.stop), window, len(text))]
        # A private key is longer than a window.
        if "private_key" in self._kinds and any(window.bits & PEM for window in windows):
            keys = [Span("private_key", start, stop) for start, stop in pii_shapes.private_keys(Look.at(text, 0, len(text)))]
            found = _merged(keys, found)
        return found

    def _find(self, look: Look, window: Window, length: int) -> list[Span]:
        """The finds in a window, as code points of the text."""
        taken: list[Span] = []
        for kind in self._asked(window.bits):
            new = [span for span in self._of_kind(kind, look) if not _is_cut(span, window, length)]
            taken = _merged(taken, new) if new else taken
        return [Span(span.kind, window.start + span.start, window.start + span.stop) for span in taken]

    def _asked(self, bits: int) -> Iterator[str]:
        """The kinds that could be there; all national numbers are asked for at once, by the first of them."""
        national = False
        for kind in self._kinds:
            if not _BITS[kind] & bits or kind == "private_key" or (kind in NATIONAL_IDS and national):
                continue
            national = national or kind in NATIONAL_IDS
            yield kind

    def _of_kind(self, kind: str, look: Look) -> Iterator[Span]:
        if kind in NATIONAL_IDS:
            yield from (Span(*found) for found in self._national.find(look)) if self._national else ()
        else:
            yield from (Span(kind, start, stop) for start, stop in self._finders[kind](look))


def _is_cut(span: Span, window: Window, length: int) -> bool:
    return (span.start == 0 and window.start > 0) or (span.stop == window.stop - window.start and window.stop < length)


def _merged(taken: list[Span], new: Iterable[Span]) -> list[Span]:
    """Both in order; a new one that overlaps one taken before is left out."""
    free: list[Span] = []
    i, reached = 0, 0
    for span in sorted(new, key=lambda s: (s.start, -s.stop)):
        while i < len(taken) and taken[i].stop <= span.start:
            i += 1
        if span.start >= reached and (i == len(taken) or span.stop <= taken[i].start):
            free.append(span)
            reached = span.stop
    return sorted([*taken, *free], key=lambda s: s.start)
