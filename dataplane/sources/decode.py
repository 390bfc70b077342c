"""Bytes to text: byte order mark, UTF-8, what the record declares, what the page declares, detection, in this order.

UTF-8 comes before declarations because text in another encoding is almost never valid UTF-8 by chance, while declarations are
often wrong. Nothing raises: bytes that no charset explains become U+FFFD and are counted.

Source: labels as in the WHATWG Encoding Standard, https://encoding.spec.whatwg.org/#names-and-labels.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

SNIFF_BYTES = 1024  # where a page declares its charset; WHATWG HTML, "prescan a byte stream"
DETECT_BYTES = 64 << 10
# UTF-8 with a stray byte or a cut end: characters of several bytes for each damaged one, above which it is nothing else.
# By chance text of another charset has far fewer than one.
MIN_GOOD_PER_BAD = 4

# What the names mean on the web, in Python's supersets of them (the standard's own tables are as wide).
SUPERSETS = {
    "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs", "iso8859-11": "cp874", "iso2022_jp": "iso2022_jp_ext",
}  # fmt: skip
# Charsets that write everything in 7 bits, so that their bytes are valid UTF-8 too; and what gives them away.
SEVEN_BIT = ("iso2022_jp_ext", "iso2022_kr", "hz")
# Codecs of Python that are no charsets of documents.
NO_CHARSETS = frozenset({"charmap", "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})
# Charsets of 16 and 32 bits, which write spaces and line ends with NUL bytes.
WIDE = ("utf-16", "utf-32")
NOT_ASCII = bytes(range(128, 256))
ESCAPES = re.compile(rb"\x1b[$(]|~\{")
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
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return _mostly_utf8(payload) or _by_name(payload, mime, charset, None) or _least_damaged(payload, charset, mime)
    hidden = _by_name(payload, mime, charset, SEVEN_BIT) if ESCAPES.search(payload) and payload.isascii() else None
    return hidden or Decoded(text, "utf-8", "utf8", 0)


def _mostly_utf8(payload: bytes) -> Decoded | None:
    """UTF-8 with little damage, which a charset of single bytes would explain too, as mojibake."""
    found = _replacing(payload, "utf-8", "utf8")
    good = len(found.text) - len(payload.translate(None, NOT_ASCII)) - found.replaced
    return found if good > MIN_GOOD_PER_BAD * found.replaced else None


def _by_name(payload: bytes, mime: str | None, charset: str | None, among: tuple[str, ...] | None) -> Decoded | None:
    """The text by the first name that fits: as declared, as the page says, as detected."""
    names: tuple[tuple[Callable[[], str | None], str], ...] = (
        (lambda: charset, "declared"),
        (lambda: _declared_inside(payload, mime), "meta"),
        (lambda: _detected(payload), "detected"),
    )
    for label, how in names:
        known = python_name(label())
        if known and known.startswith(WIDE) and b"\0" not in payload:
            continue  # a page whose declaration can be read byte by byte is not in it
        if known and known != "utf-8" and (among is None or known in among):
            try:
                return Decoded(payload.decode(known), known, how, 0)
            except UnicodeDecodeError:
                continue
    return None


def python_name(label: str | None) -> str | None:
    """Python's name of a declared charset, None where there is none."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    label = (label or "").strip().lower()
    if not label:
        return None
    mapped = map_encoding_to_html5(label, fallback_utf8=False) or label
    try:
        info = codecs.lookup(SUPERSETS.get(mapped, mapped))
    except (LookupError, ValueError):
        return None
    name = SUPERSETS.get(info.name, info.name)
    return name if info._is_text_encoding and name.replace("_", "-") not in NO_CHARSETS else None


def _declared_inside(payload: bytes, mime: str | None) -> str | None:
    if mime not in ("text/html", "application/xhtml+xml"):
        return None
    found = _META.search(payload[:SNIFF_BYTES]) or _XML.search(payload[:SNIFF_BYTES])
    return found[1].decode("ascii") if found else None


def _detected(payload: bytes) -> str | None:
    import chardet

    # Mainframe charsets explain any bytes and are on no page.
    era = chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME
    encoding: str | None = chardet.detect(payload[:DETECT_BYTES], encoding_era=era)["encoding"]
    return encoding


def _least_damaged(payload: bytes, charset: str | None, mime: str | None) -> Decoded:
    """The candidate that leaves the fewest bytes unexplained."""
    labels = ["utf-8", python_name(charset), python_name(_declared_inside(payload, mime)), python_name(_detected(payload))]
    candidates = [_replacing(payload, name, "fallback") for name in dict.fromkeys(filter(None, labels))]
    return min(candidates, key=lambda candidate: candidate.replaced)


def _replacing(payload: bytes, name: str, how: str) -> Decoded:
    text = payload.decode(name, "replace")
    return Decoded(text, name, how, max(0, text.count("�") - payload.count("�".encode()) if name == "utf-8" else text.count("�")))
