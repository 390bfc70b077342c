"""Chinese identity numbers, mobile phones and number plates."""

from __future__ import annotations

import re

from dataplane.transforms.pii_checks import shaped_cn_id, valid_cn_id
from dataplane.transforms.pii_look import Found, Look

# GB 11643-1999: region, birth date, order, check character; written whole, as 6-8-4, or in fours as on forms.
_ID = re.compile(r"(?<![0-9A-Za-z])[1-9]\d{5}(?P<gap>[ -]?)(?:18|19|20)\d{6}(?P=gap)\d{3}[\dXx](?![0-9A-Za-z])")
_ID_IN_FOURS = re.compile(r"(?<![0-9A-Za-z])[1-9]\d{3}(?: {1,2}\d{4}){3} {1,2}\d[\dXx](?![0-9A-Za-z])")
# Blocks that the Chinese carriers hold: 13x-19x; written whole or in 3-4-4, also with the country code.
_MOBILE = re.compile(
    r"(?<![0-9A-Za-z.+/=_-])(?:(?:\+|00)?86[ -]?)?1[3-9]\d(?:\d{8}|(?P<gap>[ -])\d{4}(?P=gap)\d{4})(?![0-9A-Za-z_]|[.-]\d)"
)
_PLATE = re.compile(
    r"[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-HJ-NP-Z][·•・. ]?"
    r"(?:[DF][A-HJ-NP-Z0-9]\d{4}|\d{5}[DF]|(?=[A-HJ-NP-Z]{0,2}\d|\d)[A-HJ-NP-Z0-9]{4}[A-HJ-NP-Z0-9挂学警港澳])(?![0-9A-Za-z])"
)
_PLATE_DIGITS = 2


def cn_ids(look: Look) -> Found:
    """Numbers with a day of the calendar, a province, and the check character of GB 11643."""
    return ((start, stop) for start, stop, number in _shaped(look) if valid_cn_id(number))


def shaped_cn_ids(look: Look) -> Found:
    """Numbers with a day of the calendar and a province; the check character may be wrong."""
    return ((start, stop) for start, stop, _ in _shaped(look))


def _shaped(look: Look) -> list[tuple[int, int, str]]:
    matches = [match for pattern in (_ID, _ID_IN_FOURS) for match in pattern.finditer(look.seen)]
    found = [(*match.span(), re.sub("[ -]", "", match[0])) for match in matches]
    return [find for find in found if shaped_cn_id(find[2])]


def cn_mobiles(look: Look) -> Found:
    """Eleven digits from 13 to 19, whole or as 3-4-4."""
    return (match.span() for match in _MOBILE.finditer(look.seen))


def cn_plates(look: Look) -> Found:
    """Number plates (GA 36-2018): province, office, five or six signs."""
    for match in _PLATE.finditer(look.said):
        if sum(map(str.isdigit, match[0])) >= _PLATE_DIGITS:
            yield match.span()
