"""Bytes to text: byte order mark, NULs of UTF-16, UTF-8, what the record declares, what the page declares, detection, in this order.

UTF-8 comes before declarations because text in another encoding is almost never valid UTF-8 by chance, while declarations are
often wrong; for the same reason a declaration that explains any bytes is believed only where it is a likely reading. Nothing
raises: bytes that no charset explains become U+FFFD and are counted.

Source: labels as in the WHATWG Encoding Standard, https://encoding.spec.whatwg.org/#names-and-labels.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dataplane.sources.charset import likely

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
MIN_WIDE_BYTES = 16
MIN_WIDE_ASCII = 0.005  # share of spaces, digits and line ends that text in any script has
MIN_WIDE_CONTROLS = 0.2  # share of bytes that are controls: half in English, Russian and the like, whose UTF-16 is valid UTF-8
CONTROLS = bytes([*range(9), *range(14, 32)])
LINE_ENDS = dict.fromkeys(map(ord, "\t\n\r\f"), " ")
MULTIBYTE = frozenset({"gb18030", "big5hkscs", "big5", "cp932", "euc_jp", "euc_jis_2004", "cp949", "euc_kr", "johab", *SEVEN_BIT})
# A declared charset is believed where it is at least so likely as the likeliest.
MIN_BELIEVABLE = 0.7
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
    wide = _wide(payload, charset)
    if wide:
        return wide
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return _mostly_utf8(payload) or _legacy(payload, mime, charset) or _least_damaged(payload, charset, mime)
    hidden = _seven_bit(payload, mime, charset) if ESCAPES.search(payload) and payload.isascii() else None
    return hidden or Decoded(text, "utf-8", "utf8", 0)


def _wide(payload: bytes, charset: str | None) -> Decoded | None:
    """UTF-16 or UTF-32 without a mark, seen by its NULs: its ASCII characters have them all on one side."""
    if b"\0" not in payload[:DETECT_BYTES]:
        return None
    declared = python_name(charset)
    names = [declared] if declared and declared.startswith(WIDE) else []
    names += ["utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"] if len(payload) >= MIN_WIDE_BYTES and _hardly_utf8(payload) else []
    for name in names:
        if _reads_well(payload, name, least_spaces=0.0 if name == declared else MIN_WIDE_ASCII):
            return Decoded(payload.decode(name), name, "declared" if name == declared else "detected", 0)
    return None


def _hardly_utf8(payload: bytes) -> bool:
    """Not UTF-8, or with so many controls that it is none: pairs of ASCII letters with a stray NUL read as Chinese in 16 bits."""
    start = payload[:DETECT_BYTES]
    if len(start) - len(start.translate(None, CONTROLS)) >= MIN_WIDE_CONTROLS * len(start):
        return True
    return _strictly(payload, "utf-8") is None


def _reads_well(payload: bytes, name: str, least_spaces: float) -> bool:
    """Whether a wide charset explains the bytes with no controls, nothing unassigned, and some ASCII as every text has."""
    try:
        start = payload[: DETECT_BYTES // 4].decode(name) if len(payload) > DETECT_BYTES // 4 else payload.decode(name)
        payload.decode(name)
    except UnicodeDecodeError:
        return False
    categories = Counter(map(unicodedata.category, start.translate(LINE_ENDS)))
    ascii_count = sum(char.isascii() for char in start)
    return not any(categories[kind] for kind in ("Cc", "Cn", "Co")) and ascii_count >= least_spaces * len(start)


def _mostly_utf8(payload: bytes) -> Decoded | None:
    """UTF-8 with little damage, which a charset of single bytes would explain too, as mojibake."""
    found = _replacing(payload, "utf-8", "utf8")
    good = len(found.text) - len(payload.translate(None, NOT_ASCII)) - found.replaced
    return found if good > MIN_GOOD_PER_BAD * found.replaced else None


def _seven_bit(payload: bytes, mime: str | None, charset: str | None) -> Decoded | None:
    """Text in a charset of escapes, by the first name that fits."""
    for name, how in (*_declared(payload, mime, charset), (python_name(_detected(payload)), "detected")):
        if name in SEVEN_BIT and (text := _strictly(payload, name)) is not None:
            return Decoded(text, name, how, 0)
    return None


def _legacy(payload: bytes, mime: str | None, charset: str | None) -> Decoded | None:
    """The text by the first declaration that is believable, else the likeliest reading.

    Almost any bytes are valid in a charset of single bytes, and servers declare Latin-1 for pages they know nothing of. So such a
    declaration is held against the other readings; one of several bytes a character is its own proof.
    """
    scores: dict[str, float] | None = None
    for name, how in _declared(payload, mime, charset):
        text = _strictly(payload, name)
        if text is None:
            continue
        if name not in MULTIBYTE:
            scores = likely(payload, python_name) if scores is None else scores
            if scores and scores.get(name, 0.0) < MIN_BELIEVABLE:
                continue
        return Decoded(text, name, how, 0)
    scores = likely(payload, python_name) if scores is None else scores
    for name in sorted(scores, key=lambda name: -scores[name]):
        text = _strictly(payload, name)
        if text is not None:
            return Decoded(text, name, "detected", 0)
    return None


def _declared(payload: bytes, mime: str | None, charset: str | None) -> Iterator[tuple[str, str]]:
    """What the record and the page declare, by Python's names, but for what cannot be."""
    for label, how in ((charset, "declared"), (_declared_inside(payload, mime), "meta")):
        name = python_name(label)
        # A page whose declaration can be read byte by byte is not in 16 bits.
        if name and name != "utf-8" and not name.startswith(WIDE):
            yield name, how


def _strictly(payload: bytes, name: str) -> str | None:
    try:
        return payload.decode(name)
    except UnicodeDecodeError:
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
