"""The Universal Declaration of Human Rights by language, as plain text."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ATTRIBUTE = re.compile(r'(?:data-iso6393|(?<![\w-])lang)="([^"]*)"')
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"\s*\n\s*")


@dataclass(frozen=True)
class Declaration:
    """One translation.

    Attributes:
        stem: Name of its file (`cmn_hant`).
        iso6393: Language by ISO 639-3.
        lang: Language as BCP 47 (`zh-Hant`).
        text: Its paragraphs, a line each.
    """

    stem: str
    iso6393: str
    lang: str
    text: str


def declarations(data: Path) -> Iterator[Declaration]:
    """Every translation in `data`/language/udhr/udhr.tar.xz, in order of name."""
    import html

    with tarfile.open(data / "language/udhr/udhr.tar.xz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            stream = archive.extractfile(member) if member.name.endswith(".html") else None
            if stream is None:
                continue
            page = stream.read().decode("utf-8")
            codes = _ATTRIBUTE.findall(page[:300])
            text = html.unescape(_TAG.sub("", _TITLE.sub("", page)))
            yield Declaration(Path(member.name).stem, codes[0], codes[1], _SPACE.sub("\n", text).strip())
