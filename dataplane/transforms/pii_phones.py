"""Phone numbers: what libphonenumber's plans hold valid and is written like one, or stands behind a word like "phone".

Eight digits are a valid number somewhere. So a national number counts only where it is written as one is (a trunk 0 or an area
code in brackets, groups of digits, North America's 3-3-4) or named as one; an international one needs its plus sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from dataplane.transforms.pii_look import Found, Look

# Digits with little between them, as far as they go: a part of a longer run is no phone number. Its end is looked at in code, since a
# pattern that fails there would begin anew at each digit.
_RUN = re.compile(r"(?<![\w.+/=#$€£¥%@&-])(?<!\d[:,])(?:\+ ?|\()?\d(?:[ ()./-]{0,3}\d)*+(?P<extension> ?(?:x|ext\.? ?|#)\d{1,7})?")
_GOES_ON = re.compile(r"[\w%]|[.,:/-]\d")
_MIN_RUN_CHARS, _RUN_CHARS = 6, 120
_DIGITS = range(7, 18)
_NAMED_DIGITS = range(6, 18)
_WORDS = (
    "(?:tele|cell ?|smart|i|pay)?phones?|tel|(?:tele)?fax|mobiles?|mob|cell|cellular|call(?:ing)?|dial(?:ing)?|whats ?app|sms|hotline|ring"
    "|telefon|telefax|telefono|teléfono|téléphone|handy|mobil|móvil|celular|cellulare|portable|cep|gsm|desk|direct line|helpline"
    "|(?:reach|contact|text)(?:ed|ing)? (?=me|us|him|her|them|at|on)|answering|телефон|тел|факс"
)
_UNSPACED_WORDS = "电话|電話|手机|手機|传真|傳真|热线|熱線|致电|致電|拨打|客服|座机|微信|联系方式|携帯|전화|휴대폰|โทร"
# What may stand between the word and its number.
_LINK = "me|us|him|her|them|at|on|is|are|was|to|number|num|numero|número|no|nr|our|my|your|the|号码|號碼|号|號|为|為|是|或|请|和|番号|번호"
_WORD = re.compile(rf"(?:\b(?:{_WORDS})\b|{_UNSPACED_WORDS})(?:[^\w\n]{{0,3}}(?:{_LINK})|[^\w\n]{{1,3}}){{0,4}}$", re.IGNORECASE)
_LABEL = re.compile(r"\b(?:office|home|work|direct|contact|main|landline)(?: number)?[ \t]{0,3}[:：][ \t]{0,3}$", re.IGNORECASE)
_WORD_AFTER = re.compile(r"[ ,(\\-]{1,3}(?:office|fax|mobile|cell|home|work|tel|desk)\b", re.IGNORECASE)
_OTHER_NUMBER = re.compile(
    r"(?:isbn(?:-?1[03])?|issn|doi|asin|订单号?|訂單號?|編號|编号|单号|账号|卡号|order|invoice|\bid|rfc|pmid"
    r"|(?<!phone )(?<!fax )(?<!cep )\bno\.?)[^\d\n]{0,6}$",
    re.IGNORECASE,
)
_YEAR, _MONTH, _DAY = r"(?:1[89]|20)\d\d", "(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_DATE = re.compile(
    rf"{_YEAR}([-/. ])\d{{1,2}}\1\d{{1,2}}\b|\d{{1,2}}([-/. ])\d{{1,2}}\2{_YEAR}\b|{_YEAR} ?[-/] ?{_YEAR}$"
    rf"|\({_YEAR}\)|{_YEAR}{_MONTH}{_DAY}(?!\d)"
)
# North America's form: with the country code or an extension whatever the digits, else where the plan has the number.
_NANP = re.compile(r"(?P<country>(?:\+|00)?1[-. ])?(?:\(\d{3}\) ?\d{3}[-.]|\d{3}-\d{3}-|\d{3}\.\d{3}\.)\d{4}")
# Thousands, and what a matrix holds: no groups of a phone number.
_THOUSANDS = re.compile(r"\d{1,3}(?: \d{3})+$|\d+(?:\.\d+)*$")
_TRUNK = re.compile(r"(?:\(0?\d{1,4}\) ?|0\d{1,4}[-/ ])\d{2,8}(?:[ -]\d{2,5}){0,3}")
_ZIP = re.compile(r"\d{5}-\d{4}")  # US Postal Service, ZIP+4
_TRUNK_DIGITS = range(9, 13)
_PART = re.compile(rf"(?<![^ ])(?:{_NANP.pattern.replace('?P<country>', '?:')}|\+\d{{1,3}} ?\d[\d-]{{6,14}})(?![^ ])")


def phones(regions: Sequence[str]) -> Callable[[Look], Found]:
    """A finder of phone numbers.

    Args:
        regions: Whose national numbers are valid (ISO 3166); all where empty.
    """
    every = tuple(regions) or _all_regions()

    def find(look: Look) -> Found:
        for run in _RUN.finditer(look.seen):
            if _MIN_RUN_CHARS <= run.end() - run.start() <= _RUN_CHARS and not _GOES_ON.match(look.seen, run.end()):
                yield from _in_run(look, Number.of(run), every, chosen=bool(regions))

    return find


@dataclass(frozen=True)
class Number:
    """Where it stands, its digits with what is between them, and its extension."""

    start: int
    stop: int
    core: str
    extension: str

    @classmethod
    def of(cls, run: re.Match[str]) -> Number:
        """A run."""
        extension = run["extension"] or ""
        return cls(*run.span(), run[0].removesuffix(extension), extension)

    @property
    def n_digits(self) -> int:
        """Digits without those of the extension."""
        return sum(map(str.isdigit, self.core))


def _in_run(look: Look, run: Number, regions: tuple[str, ...], *, chosen: bool) -> Found:
    """The run itself, or those of its parts that stand between spaces and are written as phone numbers."""
    if _OTHER_NUMBER.search(look.before(run.start)) or _DATE.match(run.core):
        return
    if _is_phone(look, run, regions, chosen=chosen):
        yield run.start, run.stop
        return
    for match in _PART.finditer(run.core):
        if _is_written(match[0], "", regions):
            yield run.start + match.start(), run.start + match.end()


def _is_phone(look: Look, run: Number, regions: tuple[str, ...], *, chosen: bool) -> bool:
    if _is_named(look, run):
        return run.n_digits in _NAMED_DIGITS and (_THOUSANDS.match(run.core) is None or in_some_plan(run.core, regions))
    if run.n_digits not in _DIGITS:
        return False
    if look.alone(run.start, run.stop) and chosen:
        return in_some_plan(run.core, regions)
    return _is_written(run.core, run.extension, regions)


def _is_written(core: str, extension: str, regions: tuple[str, ...]) -> bool:
    """Whether it is a number of a plan and written as one."""
    if core[0] == "+" or core[:2] == "00":
        return in_some_plan(core, ("ZZ",)) or _is_nanp(core, extension, regions)
    return _is_nanp(core, extension, regions) or (_is_trunk(core) and in_some_plan(core, regions))


def _is_named(look: Look, run: Number) -> bool:
    before = look.before(run.start)
    return any(word.search(before) for word in (_WORD, _LABEL)) or _WORD_AFTER.match(look.said, run.stop) is not None


def _is_nanp(core: str, extension: str, regions: tuple[str, ...]) -> bool:
    match = _NANP.fullmatch(core)
    return match is not None and (bool(extension) or match["country"] is not None or in_some_plan(core, regions))


def _is_trunk(core: str) -> bool:
    groups = re.findall(r"\d+", core)
    # Pairs alone are lists of numbers more often than numbers of phones.
    return (
        sum(map(len, groups)) in _TRUNK_DIGITS
        and _TRUNK.fullmatch(core) is not None
        and not _ZIP.fullmatch(core)
        and any(len(group) > 2 for group in groups)
    )


@lru_cache(maxsize=1 << 16)
def in_some_plan(number: str, regions: tuple[str, ...]) -> bool:
    """Whether it is valid in the plan of one of the regions; "ZZ" stands for none, so that only international ones are."""
    import phonenumbers

    plain = "+" + number[2:] if number.startswith("00") else number
    national = re.sub(r"\D", "", number)
    for region in regions:
        if region != "ZZ" and not plain.startswith("+") and not _could_be(national, region):
            continue
        try:
            parsed = phonenumbers.parse(plain, None if region == "ZZ" else region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(parsed):
            return True
    return False


def _could_be(national: str, region: str) -> bool:
    """A look at length and first digits, which spares most of 245 calls of the library."""
    prefix, pattern = _plan(region)
    stripped = national.removeprefix(prefix) if prefix else national
    return pattern.fullmatch(stripped) is not None or pattern.fullmatch(national) is not None


@cache
def _plan(region: str) -> tuple[str, re.Pattern[str]]:
    import phonenumbers

    metadata: Any = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
    return metadata.national_prefix or "", re.compile(metadata.general_desc.national_number_pattern)


@lru_cache
def _all_regions() -> tuple[str, ...]:
    import phonenumbers

    return tuple(sorted(phonenumbers.SUPPORTED_REGIONS))
