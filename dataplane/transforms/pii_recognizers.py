"""What personal data looks like: recognisers for one line of text, built on presidio-analyzer and phonenumbers.

Spans are code points. Full-width digits and signs count as their ASCII twins (one character each, so offsets stay).
Presidio's own patterns end words by \\b, which finds no end between a digit and a Chinese character; ours look for ASCII
neighbours instead.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# Full-width ASCII variants U+FF01-U+FF5E lie 0xFEE0 above their twins.
_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
# GB 11643-1999: weights of the first 17 digits and the check characters by remainder.
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECKS = "10X98765432"
_CN_ID = r"(?<![0-9A-Za-z])[1-9]\d{5}(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![0-9A-Za-z])"
# Blocks that the Chinese carriers hold: 13x-19x; written whole or in 3-4-4, also with the country code.
_CN_MOBILE = r"(?<![0-9A-Za-z.+-])(?:(?:\+|00)?86[ -]?)?1[3-9]\d(?:\d{8}|([ -])\d{4}\1\d{4})(?![0-9A-Za-z]|[.-]\d)"
_EMAIL = (
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_+-])?@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"(?<![0-9A-Za-z.-])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9A-Za-z-]|\.\d)"
_IPV6 = r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7}|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![0-9A-Za-z:.])"
# What has to be in a line for a recogniser to be asked at all.
_HINTS = {
    "email": re.compile("@"),
    "cn_id": re.compile(r"\d{17}[\dXx]"),
    "cn_mobile": re.compile(r"1[3-9]\d[ -]?\d{4}"),
    "ip": re.compile(r"\d\.\d{1,3}\.\d|[0-9A-Fa-f]:[0-9A-Fa-f]{0,4}:"),
    "phone": re.compile(r"\d[\d() .-]{5,18}\d"),
}
KINDS = tuple(_HINTS)
# What stands before four numbers with dots that are a version.
_VERSION = re.compile(r"(?:\b(?:version|release|ver\.?|v)|版本号?|版)[\s:：=]{0,3}$", re.IGNORECASE)
_CONTEXT_CHARS = 16
# Presidio's leniency 1 is phonenumbers' VALID: the number exists in its region's plan.
_LENIENCY = 1


@dataclass(frozen=True)
class Span:
    """One find: kind, first and last code point (exclusive)."""

    kind: str
    start: int
    stop: int


def narrow(text: str) -> str:
    """The text with full-width ASCII variants as ASCII, of the same length."""
    return text if text.isascii() else text.translate(_NARROW)


def valid_cn_id(number: str) -> bool:
    """Whether an 18-character Chinese ID number has the check character of GB 11643."""
    total = sum(int(digit) * weight for digit, weight in zip(number[:17], _ID_WEIGHTS, strict=True))
    return _ID_CHECKS[total % 11] == number[17].upper()


def is_public_ip(address: str) -> bool:
    """Whether an address leads somewhere on the internet; what is no address leads nowhere."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


class Recognizers:
    """The recognisers, loaded once.

    Args:
        kinds: Which to use, in order; where finds overlap the earlier kind wins.
        regions: Regions whose national phone numbers are recognised; international ones always are.
        private_ips: Whether addresses that lead nowhere on the internet count.
        unchecked_ids: Whether ID-shaped numbers with a wrong check character count.
    """

    def __init__(self, kinds: Sequence[str], regions: Sequence[str], *, private_ips: bool, unchecked_ids: bool) -> None:
        self.private_ips, self.unchecked_ids = private_ips, unchecked_ids
        makers: dict[str, Callable[[], Any]] = {
            "email": _email,
            "cn_id": lambda: _patterns("CN_ID", _CN_ID),
            "cn_mobile": lambda: _patterns("CN_MOBILE", _CN_MOBILE),
            "ip": _ip,
            "phone": lambda: _phone(regions),
        }
        self._recognizers = {kind: makers[kind]() for kind in kinds}

    def find(self, line: str) -> list[Span]:
        """The finds in one line, in order and without overlaps."""
        text = narrow(line)
        taken: list[Span] = []
        for kind, recognizer in self._recognizers.items():
            if not _HINTS[kind].search(text):
                continue
            for start, stop in self._spans(kind, recognizer, text):
                if all(stop <= other.start or other.stop <= start for other in taken):
                    taken.append(Span(kind, start, stop))
        return sorted(taken, key=lambda span: span.start)

    def _spans(self, kind: str, recognizer: Any, text: str) -> Iterable[tuple[int, int]]:
        found = sorted({(result.start, result.end) for result in recognizer.analyze(text, recognizer.supported_entities, None)})
        if kind == "cn_id" and not self.unchecked_ids:
            return [span for span in found if valid_cn_id(text[span[0] : span[1]])]
        if kind == "ip" and not self.private_ips:
            found = [span for span in found if is_public_ip(text[span[0] : span[1]])]
        if kind == "ip":
            return [span for span in found if not _VERSION.search(text[max(0, span[0] - _CONTEXT_CHARS) : span[0]])]
        return found


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
        """Presidio's recogniser with ASCII borders and without a network."""

        def validate_result(self, pattern_text: str) -> bool:
            """Whether the domain ends in a public suffix."""
            return bool(suffixes(pattern_text.rpartition("@")[2]).suffix)

    return OfflineEmail(patterns=[Pattern("email", _EMAIL, 0.5)])


def _ip() -> Any:
    from presidio_analyzer import Pattern
    from presidio_analyzer.predefined_recognizers import IpRecognizer

    return IpRecognizer(patterns=[Pattern("IPv4", _IPV4, 0.6), Pattern("IPv6", _IPV6, 0.6)])


def _phone(regions: Sequence[str]) -> Any:
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    return PhoneRecognizer(supported_regions=tuple(regions), leniency=_LENIENCY)
