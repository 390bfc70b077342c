"""Accounts, cards, travel documents, plates and secrets: what a shape and a checksum, or a word nearby, make certain.

A finder yields (start, stop) in code points. Every repetition has a bound.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from dataplane.transforms.pii_checks import IBAN_CHARS, valid_base58check, valid_bech32, valid_iban, valid_isbn13, valid_luhn
from dataplane.transforms.pii_look import Found, Look

_START, _END = r"(?<![0-9A-Za-z_.,#/=&+-])", r"(?![0-9A-Za-z_]|[.,-]\d)"
# 13 to 19 digits, whole or in groups with one sign between them.
_LONG_NUMBER = re.compile(rf"{_START}\d(?:(?:-| {{1,2}})?\d){{12,18}}{_END}")
_GROUPS = re.compile(r"[ -]+")
# Issuers by first digits, and the lengths of their numbers. Source: ISO/IEC 7812 ranges as the networks publish them.
_ISSUERS = re.compile(
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|2(?:2(?:2[1-9]|[3-9]\d)|[3-6]\d\d|7(?:[01]\d|20))\d{12}|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[689]\d)\d{11}|62\d{14,17}|(?:50|5[6-8]|6[0-9])\d{14}"
)
_CARD_WORD = re.compile(r"\b(?:card|visa|master ?card|amex|debit|credit|cc|maestro|diners|jcb)\b|卡号|信用卡|銀行卡|银行卡", re.IGNORECASE)
_BANK_WORD = re.compile(r"\b(?:bank|account|acct|debit card)\b|银行|銀行|卡号|卡號|账号|賬號|帳號|账户|借记卡|开户行|工资卡", re.IGNORECASE)
_OTHER_NUMBER = re.compile(
    r"(?:isbn(?:-?1[03])?|issn|doi|asin|imei|ean|upc|gtin|订单号?|訂單號?|運單號?|运单号?|物流单?号?|快递单?号?|单号|流水号|編號|编号|order|invoice"
    r"|tracking|serial|seed|hash|timestamp|\bid|\bno\.?)[^\d\n]{0,8}$",
    re.IGNORECASE,
)

_IBAN_START = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]{2}\d{2}(?=[ -]?[0-9A-Za-z]{4})")
_IBAN_MAX_CHARS = 34 + 9

_PASSPORT_WORD = re.compile(
    r"passports?\b|pasaporte|passaporto|passeport|reisepass|\bpass-?(?:nr|nummer)|travel document|护照|護照|通行证|通行證|여권|旅券",
    re.IGNORECASE,
)
_PASSPORT = re.compile(
    r"(?<![0-9A-Za-z_-])(?:[A-Z]{0,3}\d{6,9}|[A-Z]\d{3}[A-Z]\d{4}|[A-Z][0-9A-Z]{7}\d)(?![0-9A-Za-z_-]|[.,]\d)", re.IGNORECASE
)
# Where nothing names it: letters before digits, or Germany's mixture of both.
_BARE_PASSPORT = re.compile(
    r"[A-Z]{1,3}\d{6,8}|[A-Z]\d{3}[A-Z]\d{4}|[CFGHJKLMNPRTVWXYZ](?=(?:[A-Z]{0,3}\d){4})[0-9A-Z]{7}\d", re.IGNORECASE
)
_LICENCE_WORD = re.compile(
    r"\b(?:driver'?s?'?|driving) ?licen[cs]e\b|\blicen[cs]e(?: (?:number|no\.?|is|#)){0,2}[ :]{0,2}$|führerschein|fahrerlaubnis|patente"
    r"|permis de conduire|permiso de conduc|운전면허|驾驶证号?|驾照|駕照",
    re.IGNORECASE,
)
_LICENCE = re.compile(
    r"(?<![0-9A-Za-z_./-])(?:[A-Z]{0,5}\d{5,14}[0-9A-Z]{0,5}|U1[0-9A-Z]{7}[A-Z]|\d\d(?P<gap>[ -])\d\d(?P=gap)\d{6}(?P=gap)\d\d)"
    r"(?![0-9A-Za-z_-]|[.,]\d)",
    re.IGNORECASE,
)
_BARE_LICENCE = re.compile(r"[A-Z]{2}(?:\d{7}[A-Z]|\d{8}[0-9A-Z])|U1[0-9A-Z]{7}[A-Z]|\d\d([ -])\d\d\1\d{6}\1\d\d", re.IGNORECASE)

_LINK = re.compile(r"(?:[^\w\n]|\b(?:number|num|no|nr|is|was|id|card|de|n)\b|号码|號碼|号|號|为|為|是){0,8}$", re.IGNORECASE)
_WORD_CHARS = 24

_BASE58 = re.compile(r"(?<![0-9A-Za-z])[13LMDT][1-9A-HJ-NP-Za-km-z]{24,34}(?![0-9A-Za-z])")
_BECH32 = re.compile(r"(?<![0-9A-Za-z])bc1[02-9ac-hj-np-z]{6,87}(?![0-9A-Za-z])", re.IGNORECASE)
_HEX_ADDRESS = re.compile(r"(?<![0-9A-Za-z])0x[0-9A-Fa-f]{40}(?![0-9A-Za-z])")
_WALLET_WORD = re.compile(r"\b(?:eth|ethereum|wallet|usdt|erc-?20|address)\b|钱包|錢包|地址|以太坊", re.IGNORECASE)

# Prefixes that the issuers document, with the length of what follows.
_KEY = re.compile(
    r"(?<![0-9A-Za-z_-])(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[opsur]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{60,100}|glpat-[\w-]{20,60}"
    r"|xox[abeoprs]-[0-9A-Za-z-]{10,250}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{16,120}|sk-(?:proj-|ant-|svcacct-|or-)[\w-]{20,250}"
    r"|sk-[0-9A-Za-z]{32,64}|AIza[\w-]{35}|ya29\.[\w-]{20,500}|npm_[0-9A-Za-z]{36}|pypi-[\w-]{50,500}|hf_[A-Za-z]{30,40}"
    r"|SG\.[\w-]{22}\.[\w-]{43}|LTAI[0-9A-Za-z]{12,24}|AKID[0-9A-Za-z]{28,40}|dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
    r"|\d{8,10}:AA[\w-]{33}|eyJ[\w-]{8,2000}\.eyJ[\w-]{8,4000}\.[\w-]{10,1000})(?![0-9A-Za-z_-])",
    re.ASCII,
)
_ASSIGNED = re.compile(
    r"(?:api[_-]?key|secret[_-]?(?:access[_-]?)?key|access[_-]?token|auth[_-]?token|client[_-]?secret|access[_-]?key[_-]?secret)"
    r"[\"']{0,1}[ \t]{0,4}[:=]{1,2}[ \t]{0,4}[\"']{0,1}(?P<value>[0-9A-Za-z_/+=-]{20,200})(?![0-9A-Za-z_/+=.(\[-])",
    re.IGNORECASE | re.ASCII,
)
_KEY_BITS_PER_CHAR = 3.5  # random base 64 of 20 characters has about 4, names of variables less
_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[0-9A-Za-z+/=\s:,.\\]|-(?!-)){20,20000}"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)


def cards(look: Look) -> Found:
    """Numbers of payment cards: an issuer's first digits and length, and the check digit."""
    for start, stop, digits in _long_numbers(look):
        if _is_issued(digits, look, start, stop) and not valid_isbn13(digits):
            yield start, stop


def _is_issued(digits: str, look: Look, start: int, stop: int) -> bool:
    if look.near(_CARD_WORD, start, stop):
        return True
    return _ISSUERS.fullmatch(digits) is not None and not _OTHER_NUMBER.search(look.before(start))


def bank_cards(look: Look) -> Found:
    """Other numbers of 13 to 19 digits with a check digit beside a word like "account"."""
    return ((start, stop) for start, stop, _ in _long_numbers(look) if look.near(_BANK_WORD, start, stop))


def _long_numbers(look: Look) -> Iterator[tuple[int, int, str]]:
    for match in _LONG_NUMBER.finditer(look.seen):
        groups = _GROUPS.split(match[0])
        # Columns of a table are not written in fours.
        if (len(groups) == 1 or all(3 <= len(group) <= 7 for group in groups[:-1])) and valid_luhn("".join(groups)):
            yield match.start(), match.end(), "".join(groups)


def ibans(look: Look) -> Found:
    """Account numbers of their country's length with right check digits, whole or in groups."""
    for match in _IBAN_START.finditer(look.seen):
        stop = _after(look.seen, match.start(), IBAN_CHARS.get(match[0][:2].upper(), 0))
        if stop and valid_iban(re.sub("[ -]", "", look.seen[match.start() : stop])):
            yield match.start(), stop


def _after(text: str, start: int, characters: int) -> int:
    """Where so many letters and digits end, with single spaces or dashes between them; 0 where they do not, or go on."""
    left = characters
    for at in range(start, min(len(text), start + _IBAN_MAX_CHARS)):
        if text[at].isascii() and text[at].isalnum():
            left -= 1
            if left == 0:
                return 0 if text[at + 1 : at + 2].isascii() and text[at + 1 : at + 2].isalnum() else at + 1
        elif text[at] not in " -" or text[at - 1] in " -":
            return 0
    return 0


def passports(look: Look) -> Found:
    """Numbers of travel documents beside a word that says so."""
    return _named(_PASSPORT, _PASSPORT_WORD, _BARE_PASSPORT, look)


def driver_licences(look: Look) -> Found:
    """Numbers of driving licences beside a word that says so."""
    return _named(_LICENCE, _LICENCE_WORD, _BARE_LICENCE, look)


def _named(shape: re.Pattern[str], word: re.Pattern[str], bare: re.Pattern[str], look: Look) -> Found:
    if look.bare or word.search(look.said):
        for match in shape.finditer(look.seen):
            if _is_named(word, look, *match.span()) or (bare.fullmatch(match[0]) and look.alone(*match.span())):
                yield match.span()


def _is_named(word: re.Pattern[str], look: Look, start: int, stop: int) -> bool:
    """Whether a word is near; digits alone, which count applications as well, need it right before them."""
    if not look.seen[start:stop].isdigit():
        return look.near(word, start, stop)
    link = _LINK.search(look.before(start))
    return link is not None and word.search(look.before(start)[: link.start()][-_WORD_CHARS:]) is not None


def crypto_addresses(look: Look) -> Found:
    """Addresses with a right checksum; hexadecimal ones, which need none, beside a word."""
    yield from (match.span() for match in _BASE58.finditer(look.seen) if valid_base58check(match[0]))
    yield from (match.span() for match in _BECH32.finditer(look.seen) if valid_bech32(match[0]))
    yield from (match.span() for match in _HEX_ADDRESS.finditer(look.seen) if look.near(_WALLET_WORD, *match.span()))


def api_keys(look: Look) -> Found:
    """Keys with a known prefix, and random values that are assigned to a name like api_key."""
    yield from (match.span() for match in _KEY.finditer(look.seen))
    for match in _ASSIGNED.finditer(look.seen):
        if _is_random(match["value"]):
            yield match.span("value")


def _is_random(value: str) -> bool:
    counts = Counter(value)
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return bits >= _KEY_BITS_PER_CHAR and sum(map(str.isdigit, value)) >= 2 and any(map(str.isalpha, value))


def private_keys(look: Look) -> Found:
    """PEM and OpenPGP private keys, cut off ones too."""
    return (match.span() for match in _PEM.finditer(look.said))
