"""Checksums of numbers that name people and accounts."""

from __future__ import annotations

import datetime
import hashlib

from dataplane.transforms.pii_presidio import predefined

_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECKS = "10X98765432"
# GB/T 2260: the first two digits are a province.
_PROVINCES = frozenset(
    map(str, (*range(11, 16), *range(21, 24), *range(31, 38), *range(41, 47), *range(50, 55), *range(61, 66), 71, 81, 82, 83))
)
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_ADDRESS_BYTES, _CHECK_BYTES = 25, 4
# Length of an account number by country. Source: SWIFT, IBAN Registry.
_IBAN_REGISTRY = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18
    FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24
    ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23
    ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
IBAN_CHARS = {entry[:2]: int(entry[2:]) for entry in _IBAN_REGISTRY.split()}


def valid_cn_id(number: str) -> bool:
    """Whether an 18-character Chinese ID number has the check character of GB 11643."""
    total = sum(int(digit) * weight for digit, weight in zip(number[:17], _ID_WEIGHTS, strict=True))
    return _ID_CHECKS[total % 11] == number[17].upper()


def shaped_cn_id(number: str) -> bool:
    """Whether it begins with a province and holds a day of the calendar."""
    try:
        datetime.date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    return number[:2] in _PROVINCES


def valid_luhn(digits: str) -> bool:
    """Whether a number ends in its check digit of ISO/IEC 7812-1, annex B; one digit repeated does not count."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0 and len(set(digits)) > 1


def valid_iban(account: str) -> bool:
    """Whether an account number without spaces has its country's length and the check digits of ISO 7064, MOD 97-10."""
    if account not in (account.upper(), account.lower()):
        return False
    account = account.upper()
    if len(account) != IBAN_CHARS.get(account[:2]):
        return False
    return int("".join(str(int(character, 36)) for character in account[4:] + account[:4])) % 97 == 1


def valid_base58check(address: str) -> bool:
    """Whether a text in base 58 is 21 bytes and the first four bytes of their double SHA-256, as Bitcoin writes addresses."""
    value = 0
    for character in address:
        value = value * 58 + _BASE58.index(character)
    if value.bit_length() > 8 * _ADDRESS_BYTES:
        return False
    raw = value.to_bytes(_ADDRESS_BYTES, "big")
    body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
    return hashlib.sha256(hashlib.sha256(body).digest()).digest()[:_CHECK_BYTES] == check


def valid_bech32(address: str) -> bool:
    """Whether a Bitcoin address in base 32 has the checksum of BIP 173 or of BIP 350."""
    return bool(predefined().CryptoRecognizer().validate_result(address.lower()))


def valid_isbn13(digits: str) -> bool:
    """Whether a number is one of a book: prefix 978 or 979 and the check digit of GTIN (ISO 2108)."""
    if len(digits) != 13 or digits[:3] not in ("978", "979"):
        return False
    return sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(digits)) % 10 == 0


def valid_mod_11_10(digits: str) -> bool:
    """Whether a number ends in its check digit of ISO 7064, MOD 11,10, as German tax numbers do."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])
