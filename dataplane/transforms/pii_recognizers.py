"""What personal data looks like: recognisers built on presidio-analyzer and phonenumbers.

Spans are code points. The recognisers read a view of the text, of the same length, in which full-width characters are ASCII and
characters of scripts that put no space around numbers are full stops: so every border between "电话" and a digit is one for
presidio's \\b too; words before a number are read in the text itself. No pattern holds a line end, so no find spans two lines.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dataplane.kernels.pii_candidates import ADDRESS, ALL, AT, NUMBER, PEM, PLATE, WORD
from dataplane.transforms import pii_shapes
from dataplane.transforms.pii_checks import shaped_cn_id, valid_cn_id
from dataplane.transforms.pii_national import NATIONAL_IDS, NationalIds

# Full-width ASCII variants U+FF01-U+FF5E lie 0xFEE0 above their twins; spaces and dashes of typesetters stand for plain ones.
_NARROW = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys((0xA0, 0x202F, 0x3000), " ")
    | dict.fromkeys(range(0x2010, 0x2016), "-")
)
_WIDE = re.compile("[０-９Ａ-Ｚａ-ｚ＠]|[（＋－\xa0\u202f\u3000\u2010-\u2015][0-9]")
# Thai to Lao, Burmese, Khmer, CJK with kana, Hangul, and the planes of rarer CJK.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")

_EMAIL = (
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_+-])?@(?:[A-Za-z0-9-]{1,63}\.){1,8}"
    r"(?:xn--[A-Za-z0-9-]{1,59}|[A-Za-z]{2,24})(?![A-Za-z0-9-])"
)
# GB 11643-1999: region, birth date, order, check character; written whole, as 6-8-4, or in fours as on forms.
_CN_ID = r"(?<![0-9A-Za-z])[1-9]\d{5}(?P<gap>[ -]?)(?:18|19|20)\d{6}(?P=gap)\d{3}[\dXx](?![0-9A-Za-z])"
_CN_ID_IN_FOURS = r"(?<![0-9A-Za-z])[1-9]\d{3}(?: {1,2}\d{4}){3} {1,2}\d[\dXx](?![0-9A-Za-z])"
# Blocks that the Chinese carriers hold: 13x-19x; written whole or in 3-4-4, also with the country code.
_CN_MOBILE = r"(?<![0-9A-Za-z.+/=_-])(?:(?:\+|00)?86[ -]?)?1[3-9]\d(?:\d{8}|(?P<gap>[ -])\d{4}(?P=gap)\d{4})(?![0-9A-Za-z_]|[.-]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"(?<![0-9A-Za-z.-])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9A-Za-z-]|\.\d)"
# "::2" and "1::3" are slices of lists far more often than addresses, and lead nowhere as addresses.
_SLICE = re.compile(r"\d{0,4}::\d{0,4}")
# What a recogniser is asked about at all; a window of text around each is what it is given.
_CANDIDATES = {
    "email": r"[A-Za-z0-9_+%-]@[A-Za-z0-9]",
    "cn_id": r"\d{6}[ -]?\d{8}[ -]?\d{3}[\dXx]|\d{4}(?: {1,2}\d{4}){3} {1,2}\d[\dXx]",
    "cn_mobile": r"(?<!\d{5})1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)",
    "ip": r"(?:\.\d{1,3}\.|:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:/]",
}
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
_SHAPES: dict[str, Callable[[str, str], Iterator[tuple[int, int]]]] = {
    "api_key": pii_shapes.api_keys,
    "iban": pii_shapes.ibans,
    "crypto": pii_shapes.crypto_addresses,
    "card": pii_shapes.cards,
    "bank_card": pii_shapes.bank_cards,
    "passport": pii_shapes.passports,
    "driver_licence": pii_shapes.driver_licences,
    "cn_plate": pii_shapes.plates,
}
MARGIN_CHARS = 330  # the longest address (RFC 5321, 4.5.3.1: 64 + 1 + 255) and a little
WINDOW_MARGIN_CHARS = 112  # what is written around six digits, and a word before it
_STOP = "。"  # no word character, and no ASCII dot, which would join what stands on both sides

# What stands before four numbers with dots that are a version.
_VERSION = re.compile(r"(?:\b(?:version|release|ver\.?|v)|版本号?|版)[ \t:：=]{0,3}$", re.IGNORECASE)
_SECTION = re.compile(r" ?[章节節条條款]")
_CONTEXT_CHARS = 32

# Signs that may stand in a phone number, in a run that is not too long to be one.
_PHONE_RUN = re.compile(r"(?<![\w.,+/=#$€£¥%@&-])(?<!\d:)(?:\+|\()?\d[\d ()./-]*\d(?: ?(?:x|ext\.?) ?\d{1,7})?(?![\w%]|[.,:/-]\d)")
_PHONE_RUN_CHARS = 40
_PHONE_DIGITS = range(7, 18)
_PHONE_WORD = re.compile(
    r"(?:\b(?:tele)?phone|\btel|\bfax|\bmobile|\bcell(?:ular|phone)?|\bcall(?:ing)?|\bdial|\bwhats ?app|\bsms|\bhotline"
    r"|电话|電話|手机|手機|传真|傳真|热线|熱線|致电|拨打|客服|座机|微信)[^\d\n]{0,12}$",
    re.IGNORECASE,
)
_REACH = re.compile(
    r"\b(?:answering|reach(?:ed)? (?:me|us|him|her|them)|contact (?:me|us|him|her|them)|text me) (?:at|on) {0,2}$", re.IGNORECASE
)
_PHONE_WORD_AFTER = re.compile(r"[ ,(\\-]{1,3}(?:office|fax|mobile|cell|home|work|tel)\b", re.IGNORECASE)
_NUMBER_WORD = re.compile(
    r"(?:isbn|issn|doi|asin|订单号?|編號|编号|单号|账号|卡号|order|invoice|\bid|\bno\.?|rfc|pmid)[^\d\n]{0,6}$", re.IGNORECASE
)
_DATE = re.compile(
    r"(?:1[89]|20)\d\d([-/.])\d{1,2}\1\d{1,2}\b|\d{1,2}([-/.])\d{1,2}\2(?:1[89]|20)\d\d\b|(?:1[89]|20)\d\d ?[-/] ?(?:1[89]|20)\d\d$"
)
# North American form; others need "+", a trunk 0, brackets, or a word like "phone" before them.
_NANP = re.compile(r"(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}$")
# Presidio's leniency 1 is phonenumbers' VALID: the number exists in its region's plan.
_LENIENCY = 1


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


def narrow(text: str) -> str:
    """The text with full-width ASCII variants as ASCII, of the same length."""
    # Translating is slow, and most full-width characters are punctuation of Chinese that no recogniser asks about.
    return text.translate(_NARROW) if not text.isascii() and _WIDE.search(text) else text


def is_public_ip(address: str) -> bool:
    """Whether an address leads somewhere on the internet; what is no address leads nowhere."""
    ip = _parse_ip(address)
    return ip is not None and ip.is_global


def _parse_ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, an IPv4 one if it is mapped; None for what is none."""
    try:
        ip = ipaddress.ip_interface(address).ip
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


class Recognizers:
    """The recognisers, loaded once.

    Args:
        kinds: Which to use; where finds overlap the one earlier in `KINDS` wins.
        regions: Regions whose national phone numbers are recognised; international ones always are.
        private_ips: Whether addresses that lead nowhere on the internet count.
        words: Whether a national number whose shape is not rare counts only beside a word that names it.
    """

    def __init__(self, kinds: Sequence[str], regions: Sequence[str], *, private_ips: bool = False, words: bool = True) -> None:
        self._kinds, self.private_ips = [kind for kind in KINDS if kind in kinds], private_ips
        makers: dict[str, Callable[[], Any]] = {
            "email": _email,
            "cn_id": lambda: _patterns("CN_ID", _CN_ID, _CN_ID_IN_FOURS),
            "cn_id_shaped": lambda: _patterns("CN_ID", _CN_ID, _CN_ID_IN_FOURS),
            "cn_mobile": lambda: _patterns("CN_MOBILE", _CN_MOBILE),
            "ip": _ip,
            "phone": lambda: _phone(regions),
        }
        self._recognizers = {kind: makers[kind]() for kind in self._kinds if kind in makers}
        self._candidates = {kind: re.compile(pattern) for kind, pattern in _CANDIDATES.items()}
        self._accepts = {"cn_id": _accepts_id, "cn_id_shaped": _accepts_shaped_id, "ip": self._accepts_ip}
        national = [kind for kind in self._kinds if kind in NATIONAL_IDS]
        self._national = NationalIds(national, words=words) if national else None

    def find(self, text: str, windows: Sequence[Window] | None = None) -> list[Span]:
        """The finds in a text, in order and without overlaps.

        Args:
            text: The document.
            windows: Where to look, in order and apart; everywhere where left out.
        """
        said = narrow(text)
        seen = said if text.isascii() else _UNSPACED.sub(_STOP, said)
        found: list[Span] = []
        for window in [Window(0, len(text), ALL)] if windows is None else windows:
            found += self._find(seen[window.start : window.stop], said[window.start : window.stop], window, len(text))
        # A private key is longer than a window.
        if "private_key" in self._kinds and (windows is None or any(window.bits & PEM for window in windows)):
            keys = [Span("private_key", start, stop) for start, stop in pii_shapes.private_keys(seen, said)]
            found = _merged(keys, found)
        return found

    def _find(self, seen: str, said: str, window: Window, length: int) -> list[Span]:
        """The finds in a window, as code points of the text; what touches an end at which the text goes on may be cut, and is left out."""
        taken: list[Span] = []
        for kind in self._asked(window.bits):
            new = [span for span in self._of_kind(kind, seen, said) if not _is_cut(span, window, len(seen), length)]
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

    def _of_kind(self, kind: str, seen: str, said: str) -> Iterator[Span]:
        if kind in NATIONAL_IDS:
            yield from (Span(*found) for found in self._national.find(seen, said)) if self._national else ()
        elif kind in _SHAPES:
            yield from (Span(kind, start, stop) for start, stop in _SHAPES[kind](seen, said))
        else:
            recognizer = self._recognizers[kind]
            spans = _phones(recognizer, seen, said) if kind == "phone" else self._matches(kind, recognizer, seen, said)
            yield from (Span(kind, start, stop) for start, stop in spans)

    def _matches(self, kind: str, recognizer: Any, text: str, said: str) -> Iterator[tuple[int, int]]:
        accepts = self._accepts.get(kind)
        for first, last in _windows(self._candidates[kind.removesuffix("_shaped")], text):
            piece = text[first:last]
            for start, stop in sorted(
                {(found.start, found.end) for found in recognizer.analyze(piece, recognizer.supported_entities, None)}
            ):
                # What touches the edge of a window may go on beyond it; its own window holds it whole.
                cut = (start == 0 and first > 0) or (stop == len(piece) and last < len(text))
                if not cut and (accepts is None or accepts(said, first + start, first + stop)):
                    yield first + start, first + stop

    def _accepts_ip(self, text: str, start: int, stop: int) -> bool:
        if (
            _VERSION.search(text[max(0, start - _CONTEXT_CHARS) : start])
            or _SECTION.match(text, stop)
            or _SLICE.fullmatch(text, start, stop)
        ):
            return False
        ip = _parse_ip(text[start:stop])
        return ip is not None and (self.private_ips or ip.is_global)


def _accepts_id(text: str, start: int, stop: int) -> bool:
    return _accepts_shaped_id(text, start, stop) and valid_cn_id(re.sub(r"[ -]", "", text[start:stop]))


def _accepts_shaped_id(text: str, start: int, stop: int) -> bool:
    return shaped_cn_id(re.sub(r"[ -]", "", text[start:stop]))


def _is_cut(span: Span, window: Window, seen_chars: int, length: int) -> bool:
    return (span.start == 0 and window.start > 0) or (span.stop == seen_chars and window.stop < length)


def _windows(candidate: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Stretches around the candidates, joined where they meet."""
    first = last = -1
    for match in candidate.finditer(text):
        start, stop = max(0, match.start() - MARGIN_CHARS), min(len(text), match.end() + MARGIN_CHARS)
        if start > last >= 0:
            yield first, last
            first = -1
        first, last = (start if first < 0 else first), stop
    if last >= 0:
        yield first, last


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


def _phones(recognizer: Any, text: str, said: str) -> Iterator[tuple[int, int]]:
    """Phone numbers: valid in their plan and written like one, or of their length behind a word like "phone"."""
    for run in _PHONE_RUN.finditer(text):
        number = run[0]
        if len(number) > _PHONE_RUN_CHARS or sum(map(str.isdigit, number)) not in _PHONE_DIGITS or _DATE.match(number):
            continue
        before = said[max(0, run.start() - _CONTEXT_CHARS) : run.start()]
        if _NUMBER_WORD.search(before):
            continue
        named = any(word.search(before) for word in (_PHONE_WORD, _REACH)) or _PHONE_WORD_AFTER.match(said, run.end())
        spans = sorted({(found.start, found.end) for found in recognizer.analyze(number, recognizer.supported_entities, None)})
        for start, stop in spans:
            if named or _written_as_phone(number[start:stop]):
                yield run.start() + start, run.start() + stop
        if named and not spans and not re.fullmatch(r"\d+(?:\.\d+)*", number):
            yield run.start(), run.end()


def _written_as_phone(number: str) -> bool:
    if number.startswith("+") or _NANP.match(number):
        return True
    return number[0] in "0(" and not number.isdigit() and "." not in number


def _patterns(entity: str, *expressions: str) -> Any:
    from presidio_analyzer import Pattern, PatternRecognizer

    return PatternRecognizer(entity, patterns=[Pattern(entity, expression, 1.0) for expression in expressions])


def _email() -> Any:
    import tldextract
    from presidio_analyzer import Pattern
    from presidio_analyzer.predefined_recognizers import EmailRecognizer

    # The bundled list of public suffixes; the default would fetch a newer one.
    suffixes = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)

    class OfflineEmail(EmailRecognizer):  # type: ignore[misc]
        """Presidio's recogniser without a network."""

        def validate_result(self, pattern_text: str) -> bool:
            """Whether the domain ends in a public suffix."""
            return bool(suffixes(pattern_text.rpartition("@")[2]).suffix)

    return OfflineEmail(patterns=[Pattern("email", _EMAIL, 0.5)])


def _ip() -> Any:
    from presidio_analyzer import Pattern
    from presidio_analyzer.predefined_recognizers import IpRecognizer

    # "::" alone is an operator of several programming languages. Presidio's IPv4 pattern finds one inside "1.2.3.4.5".
    sixes = [pattern for pattern in IpRecognizer.PATTERNS if pattern.name not in ("IPv4", "IPv6_unspecified")]
    return IpRecognizer(patterns=[Pattern("IPv4", _IPV4, 0.6), *sixes])


def _phone(regions: Sequence[str]) -> Any:
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    return PhoneRecognizer(supported_regions=tuple(regions), leniency=_LENIENCY)
