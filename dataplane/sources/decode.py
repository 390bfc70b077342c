"""Bytes to text: byte order mark, UTF-8, what the record declares, what the page declares, detection, in this order.

UTF-8 comes before declarations because text in another encoding is almost never valid UTF-8 by chance, while declarations are
often wrong. Nothing raises: bytes that no charset explains become U+FFFD and are counted.

Source: labels as in the WHATWG Encoding Standard, https://encoding.spec.whatwg.org/#names-and-labels.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

SNIFF_BYTES = 1024  # where a page declares its charset; WHATWG HTML, "prescan a byte stream"
DETECT_BYTES = 64 << 10

# Declared names mean their supersets on the web.
WEB_LABELS = {
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "iso-8859-1": "cp1252", "latin1": "cp1252",
    "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252", "windows-1252": "cp1252", "iso-8859-9": "cp1254", "tis-620": "cp874",
    "iso-8859-11": "cp874", "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949",
    "big5": "big5hkscs", "x-x-big5": "big5hkscs",
}  # fmt: skip
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,500}?charset\s{0,20}=\s{0,20}[\"']?\s{0,20}([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s{0,100}<\?xml[^>]{0,200}?encoding\s{0,20}=\s{0,20}[\"']([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)


@dataclass(frozen=True)
class Decoded:
    """Text, and how it was found.

    Attributes:
        text: The text; a byte order mark is taken off.
        charset: Python's name of the charset.
        how: bom | utf8 | declared | meta | detected | fallback
        replaced: Sequences of bytes that became U+FFFD.
    """

    text: str
    charset: str
    how: str
    replaced: int


def decode(payload: bytes, mime: str | None, charset: str | None) -> Decoded:
    """Text of a payload.

    Args:
        payload: The bytes.
        mime: Type as declared; HTML is looked into for its own declaration.
        charset: As declared by the record.
    """
    for mark, name in BOMS:
        if payload.startswith(mark):
            return _replacing(payload[len(mark) :], name, "bom")
    try:
        return Decoded(payload.decode("utf-8"), "utf-8", "utf8", 0)
    except UnicodeDecodeError:
        pass
    for label, how in ((charset, "declared"), (_declared_inside(payload, mime), "meta"), (_detected(payload), "detected")):
        known = python_name(label)
        if known and known != "utf-8":
            try:
                return Decoded(payload.decode(known), known, how, 0)
            except (UnicodeDecodeError, LookupError):
                continue
    return _least_damaged(payload, charset, mime)


def python_name(label: str | None) -> str | None:
    """Python's name of a declared charset, None where there is none."""
    if not label:
        return None
    wanted = WEB_LABELS.get(label.strip().lower(), label.strip().lower())
    try:
        info = codecs.lookup(wanted)
    except (LookupError, ValueError):
        return None
    return info.name if info._is_text_encoding else None


def _declared_inside(payload: bytes, mime: str | None) -> str | None:
    if mime not in ("text/html", "application/xhtml+xml"):
        return None
    found = _META.search(payload[:SNIFF_BYTES]) or _XML.search(payload[:SNIFF_BYTES])
    return found[1].decode("ascii") if found else None


def _detected(payload: bytes) -> str | None:
    import chardet

    encoding: str | None = chardet.detect(payload[:DETECT_BYTES])["encoding"]
    return encoding


def _least_damaged(payload: bytes, charset: str | None, mime: str | None) -> Decoded:
    """The candidate that leaves the fewest bytes unexplained."""
    labels = ["utf-8", python_name(charset), python_name(_declared_inside(payload, mime)), python_name(_detected(payload))]
    candidates = [_replacing(payload, name, "fallback") for name in dict.fromkeys(filter(None, labels))]
    return min(candidates, key=lambda candidate: candidate.replaced)


def _replacing(payload: bytes, name: str, how: str) -> Decoded:
    text = payload.decode(name, "replace")
    return Decoded(text, name, how, max(0, text.count("�") - payload.count("�".encode()) if name == "utf-8" else text.count("�")))
