"""Which charset bytes are in, judged by how they read: chardet's models on parts of the text, and what no text looks like.

chardet ranks the charsets that explain the bytes. It is asked about several parts and its answers are added up, since one list of
names in many languages outweighs a page of French otherwise. Then what no writing does counts against a reading (a capital after
a small letter, a sign inside a word, control characters), and between equals the charset that the web uses wins.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping

PART_BYTES = 4 << 10
MAX_PARTS = 8
# Readings that chardet holds at least so likely as the best one are looked at.
RIVAL_SHARE = 0.75
# Charsets of machines that no page comes from; they explain Latin letters that others have no model for.
UNSEEN = frozenset({"cp720", "hp-roman8"})
# So much more likely is a charset of the web than another one that explains the bytes as well; chosen on UDHR and Mars texts.
WEB_ADVANTAGE = {"cp1252": 1.04} | dict.fromkeys(
    ("cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8-r", "cp874", "cp932", "euc_jp", "gb18030", "big5hkscs"),
    1.02,
)
# Kinds of character: ASCII letters a and A, others l, U and o (of no case), signs s, what is never text x, everything else a space.
_UNLIKELY = re.compile(r"x|(?<=[al])U(?=[al])|s(?=[lo])|(?<=[alo])s(?=[aA])|(?<=o)[lU]|[lU](?=o)")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_JOINS = "¿¡§©°’·ʼ\u00ad\u200c\u200d´"  # signs that do stand inside words
_NEVER = "¤"
WRONG_WEIGHT = 5  # each wrong character speaks against so many that look right


class _Kinds(dict[int, str]):
    """Code point -> kind, found on first sight."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        kind = " "
        if char.isascii():
            kind = ("a" if char.islower() else "A") if char.isalpha() else " "
        elif category in ("Cc", "Cn", "Co") or char in _NEVER:
            kind = "x"
        elif category[0] == "L":
            kind = {"Ll": "l", "Lu": "U"}.get(category, "o")
        elif category[0] in "SNP" and char not in _JOINS and category not in ("Pd", "Pi", "Pf"):
            kind = "s"
        self[code] = kind
        return kind


_KINDS = _Kinds()


def likely(payload: bytes, python_name: Callable[[str | None], str | None]) -> dict[str, float]:
    """How likely each charset is, by Python's name, the best at 1; empty where none explains the bytes.

    Args:
        payload: Bytes that are not UTF-8.
        python_name: Python's name of a label.
    """
    parts = _parts(payload)
    ranks = _ranked(parts, python_name)
    best = max(ranks.values(), default=0.0)
    scores = {name: rank * _sense(b"".join(parts), name) for name, rank in ranks.items() if rank >= RIVAL_SHARE * best}
    top = max(scores.values(), default=0.0)
    return {name: score / top for name, score in scores.items()} if top else {}


def _ranked(parts: list[bytes], python_name: Callable[[str | None], str | None]) -> Mapping[str, float]:
    """chardet's confidence in each charset that explains every part, summed over the parts."""
    import chardet

    # Mainframe charsets explain any bytes and are on no page.
    era = chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME
    found: dict[str, list[float]] = defaultdict(list)
    for part in parts:
        answers: dict[str, float] = {}
        for answer in chardet.detect_all(part, ignore_threshold=True, encoding_era=era):
            name = python_name(answer["encoding"])
            if name is not None and name not in UNSEEN:
                answers[name] = max(answers.get(name, 0.0), answer["confidence"])
        for name, confidence in answers.items():
            found[name].append(confidence)
    everywhere = max(map(len, found.values()), default=0)
    return {name: sum(values) for name, values in found.items() if len(values) == everywhere}


def _parts(payload: bytes) -> list[bytes]:
    """Up to `MAX_PARTS` stretches of whole lines that are not all ASCII, spread over the payload."""
    if len(payload) <= PART_BYTES:
        return [payload]
    step = max(PART_BYTES, len(payload) // MAX_PARTS)
    parts = [_whole_lines(payload, start) for start in range(0, len(payload) - PART_BYTES // 2, step)]
    return [part for part in parts if not part.isascii()][:MAX_PARTS] or [payload[: MAX_PARTS * PART_BYTES]]


def _whole_lines(payload: bytes, start: int) -> bytes:
    """About `PART_BYTES` from `start`, cut at line ends or spaces, which no charset has inside a character."""
    ends = [payload.find(b"\n", start, start + PART_BYTES // 2), payload.find(b" ", start, start + PART_BYTES // 2)]
    first = next((end + 1 for end in ends if end >= 0), start) if start else 0
    last = max(payload.rfind(b"\n", first, first + PART_BYTES), payload.rfind(b" ", first + PART_BYTES // 2, first + PART_BYTES))
    return payload[first : last + 1] if last > first else payload[first : first + PART_BYTES]


def _sense(payload: bytes, name: str) -> float:
    """0 for a reading that cannot be, else how little of it looks wrong, times the advantage of the web's charsets."""
    try:
        text = payload.decode(name)
    except (UnicodeDecodeError, LookupError):
        return 0.0
    foreign = len(_FOREIGN.findall(text))
    wrong = len(_UNLIKELY.findall(text.translate(_KINDS)))
    return max(0.0, 1 - WRONG_WEIGHT * wrong / max(foreign, 1)) * WEB_ADVANTAGE.get(name, 1.0)
