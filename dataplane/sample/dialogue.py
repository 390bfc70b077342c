"""Conversations of chatterbot-corpus in 28 languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import yaml

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, jsonl

DISTRIBUTION = "chatterbot-corpus"
FOLDER = "chatterbot_corpus/data/"
LANGUAGES = {
    "bengali": "bn", "chinese": "zh", "dutch": "nl", "english": "en", "french": "fr", "german": "de", "hebrew": "he",
    "hindi": "hi", "hinglish": "hi-Latn", "indonesian": "id", "italian": "it", "japanese": "ja", "korean": "ko",
    "marathi": "mr", "oriya": "or", "persian": "fa", "portuguese": "pt", "russian": "ru", "spanish": "es", "swedish": "sv",
    "tamil": "ta", "telugu": "te", "thai": "th", "traditionalchinese": "zh-Hant", "turkish": "tr", "ukrainian": "uk",
    "urdu": "ur", "yoruba": "yo",
}  # fmt: skip


def conversations(keep: Keep) -> Iterator[dict[str, Any]]:
    """Conversations in the order of the files, a turn a line."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path, data in packages.read_folder(DISTRIBUTION, FOLDER).items():
        name = PurePosixPath(path)
        loaded = yaml.load(data.decode(), Loader=loader)  # the safe loader, in C where it can
        for number, turns in enumerate(loaded.get("conversations") or []):
            key = f"{name.parent.name}/{name.stem}/{number:04d}"
            if keep(f"dialogue/{key}"):
                text = "\n".join(str(turn).strip() for turn in turns)
                yield {"id": key, "text": text, "turns": len(turns), "lang": LANGUAGES[name.parent.name]}


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file a language."""
    by_language: dict[str, list[dict[str, Any]]] = {}
    for row in conversations(keep):
        by_language.setdefault(row["lang"], []).append(row)
    for language, rows in sorted(by_language.items()):
        yield File(f"{language}.jsonl", jsonl(rows), len(rows))
