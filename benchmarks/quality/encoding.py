"""How often bytes become the right text: real text of 30 languages in 46 charsets, undeclared, declared, and declared wrongly.

    python -m benchmarks.quality encoding --data FOLDER [--json] [--failures]

The text is the Universal Declaration (language/udhr) and Wikipedia's article on Mars (encoding/wikipedia_mars), each in every
charset that its language was written in, as a start of 200 or 1,000 characters and whole. Right is the very text that was
encoded. The peers are given the same bytes; they know no declarations. Encoded text is cleaner than pages of the wild are.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.quality.udhr import declarations

# Charset -> languages that were written in it.
WRITTEN = {
    "utf-8": "eng fra rus cmn_hans jpn", "utf-8-sig": "eng fra rus cmn_hans", "utf-16": "eng rus cmn_hans", "utf-32": "eng rus cmn_hans",
    "utf-16-le": "eng rus cmn_hans", "utf-16-be": "eng rus jpn",
    "cp1252": "fra deu_1996 spa ita nld por_PT swe fin", "iso8859-1": "fra deu_1996 spa ita nld por_PT swe fin",
    "iso8859-15": "fra deu_1996 fin spa", "mac_roman": "fra deu_1996 spa", "cp850": "fra deu_1996 spa", "cp437": "deu_1996 spa",
    "iso8859-2": "pol ces hun slv", "cp1250": "pol ces hun slv", "cp852": "pol ces hun", "mac_latin2": "pol ces",
    "cp1251": "rus bul ukr", "koi8-r": "rus", "koi8-u": "ukr", "iso8859-5": "rus bul", "cp866": "rus", "cp855": "rus bul",
    "mac_cyrillic": "rus",
    "iso8859-7": "ell_monotonic", "cp1253": "ell_monotonic", "cp1256": "arb pes_1", "iso8859-6": "arb", "cp1255": "heb", "iso8859-8": "heb",
    "cp1254": "tur", "iso8859-9": "tur", "cp1257": "lit lav est", "iso8859-13": "lit lav", "iso8859-4": "lit lav", "iso8859-3": "epo mlt",
    "iso8859-16": "ron_2006", "johab": "kor",
    "cp1258": "vie", "cp874": "tha", "iso8859-11": "tha",
    "gb2312": "cmn_hans", "gbk": "cmn_hans cmn_hant", "gb18030": "cmn_hans", "hz": "cmn_hans", "big5": "cmn_hant", "big5hkscs": "cmn_hant",
    "cp932": "jpn", "shift_jis": "jpn", "euc_jp": "jpn", "iso2022_jp": "jpn", "euc_kr": "kor", "cp949": "kor", "iso2022_kr": "kor",
}  # fmt: skip
MARS = {
    "french": "fra", "german": "deu_1996", "portuguese": "por_PT", "czech": "ces", "russian": "rus", "greek": "ell_monotonic",
    "arabic": "arb", "persan": "pes_1", "hebrew": "heb", "turkish": "tur", "vietnamese": "vie", "thai": "tha", "japanese": "jpn",
    "korean": "kor", "chinese": "cmn_hans", "english": "eng", "esperanto": "epo",
}  # fmt: skip
LENGTHS = {"200": 200, "1000": 1000, "whole": 1 << 20}
# What servers say of pages that they know nothing about.
WRONG = {"wrong: utf-8": "utf-8", "wrong: latin-1": "iso-8859-1"}


@dataclass(frozen=True)
class Case:
    """One text in one charset."""

    where: str
    charset: str
    text: str
    payload: bytes


def texts(data: Path) -> Iterator[tuple[str, str, str]]:
    """(set, language, text)."""
    wanted = {language for languages in WRITTEN.values() for language in languages.split()}
    for found in declarations(data):
        if found.stem in wanted:
            yield "udhr", found.stem, found.text
    with tarfile.open(data / "encoding/wikipedia_mars/wikipedia_mars.tar.xz") as archive:
        for name, language in MARS.items():
            stream = archive.extractfile(f"wikipedia_mars/{name}.utf8.txt")
            yield "mars", language, (stream.read() if stream else b"").decode("utf-8-sig").strip()


def cases(data: Path, lengths: Iterable[str]) -> Iterator[Case]:
    """Texts in the charsets of their languages; what a charset cannot write is left out of the text first."""
    for origin, language, text in texts(data):
        for charset in (name for name, languages in WRITTEN.items() if language in languages.split()):
            form = vietnamese(text) if charset == "cp1258" else text
            writable = form.encode(charset, "ignore").decode(charset)
            for length in lengths:
                part = writable[: LENGTHS[length]]
                yield Case(f"{origin} {language} {length}", charset, part, part.encode(charset))


def vietnamese(text: str) -> str:
    """Letters composed and tones apart, as windows-1258 writes them."""
    tones = "\u0300\u0301\u0303\u0309\u0323"
    out = []
    for char in unicodedata.normalize("NFC", text):
        apart = unicodedata.normalize("NFD", char)
        marks = "".join(mark for mark in apart if mark in tones)
        out.append(unicodedata.normalize("NFC", "".join(mark for mark in apart if mark not in tones)) + marks)
    return "".join(out)


def by_us(payload: bytes, declared: str | None) -> str:
    from dataplane.sources.decode import decode

    return decode(payload, "text/plain", declared).text


def by_chardet(payload: bytes) -> str:
    import chardet

    return _as(payload, chardet.detect(payload)["encoding"])


def by_normalizer(payload: bytes) -> str:
    import charset_normalizer

    best = charset_normalizer.from_bytes(payload).best()
    return _as(payload, best.encoding if best else None)


def _as(payload: bytes, charset: str | None) -> str:
    try:
        return payload.decode(charset or "utf-8", "replace").removeprefix("\ufeff")
    except LookupError:
        return ""


def runs(peers: bool) -> dict[str, Callable[[Case], str]]:
    """Name -> what answers a case."""
    found: dict[str, Callable[[Case], str]] = {
        "undeclared": lambda case: by_us(case.payload, None),
        "declared": lambda case: by_us(case.payload, case.charset),
    }
    for name, label in WRONG.items():
        found[name] = lambda case, label=label: by_us(case.payload, label)  # type: ignore[misc]
    if peers:
        found[f"chardet {version('chardet')}"] = lambda case: by_chardet(case.payload)
        found[f"charset-normalizer {version('charset-normalizer')}"] = lambda case: by_normalizer(case.payload)
    return found


def main(arguments: list[str]) -> None:
    """Prints one line for each way of asking, and by charset where ours fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with encoding/ and language/")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    parser.add_argument("--failures", action="store_true", help="name every case that is read wrongly")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    options = parser.parse_args(arguments)
    every = list(cases(options.data, LENGTHS))
    for name, answer in runs(not options.no_peers).items():
        wrong = [case for case in every if answer(case) != case.text]
        by_length = {length: sum(case.where.endswith(f" {length}") for case in wrong) for length in LENGTHS}
        by_charset: dict[str, int] = defaultdict(int)
        for case in wrong:
            by_charset[case.charset] += 1
        row = {
            "name": f"encoding/{name}", "cases": len(every), "right": len(every) - len(wrong),
            "accuracy": round(1 - len(wrong) / len(every), 4),
            "accuracy_by_length": {length: round(1 - n * len(LENGTHS) / len(every), 4) for length, n in by_length.items()},
            "wrong_by_charset": dict(by_charset),
        }  # fmt: skip
        print(json.dumps(row) if options.json else f"{row['name']:40} {row['accuracy']:.4f}  {row['accuracy_by_length']}")
        if options.failures:
            for case in wrong:
                print(f"    {case.charset}: {case.where}")
