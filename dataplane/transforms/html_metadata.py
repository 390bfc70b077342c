"""What a page says about itself: title, author, date, licence (as it stands, and as an SPDX identifier), language.

Source: https://schema.org/Article, https://ogp.me, https://html.spec.whatwg.org/#standard-metadata-names, and rel=license as in
https://microformats.org/wiki/rel-license.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dataplane.annotators.license_links import license_of_url, license_of_words

FIELDS = ("title", "author", "date", "license", "spdx", "lang")
MAX_CHARS = 500
MAX_JSON_CHARS = 200_000
# Names in <meta>, the best first.
META_NAMES = {
    "title": ("og:title", "citation_title", "dc.title", "twitter:title"),
    "author": ("author", "article:author", "citation_author", "dc.creator", "parsely-author", "byl"),
    "date": (
        "article:published_time", "datepublished", "citation_publication_date", "date", "dc.date", "pubdate", "publishdate",
        "og:published_time",
    ),
    "license": ("dc.rights.license", "license", "dcterms.license"),
    "lang": ("og:locale", "content-language", "dc.language"),
}  # fmt: skip
# Names that may speak of a licence, and mostly of a copyright.
RIGHTS_NAMES = ("dc.rights", "dcterms.rights", "rights", "copyright")
LINKED_NAMES = {"author": "author", "date": "datePublished", "license": "license", "lang": "inLanguage", "title": "headline"}
DATE = re.compile(r"(?:19|20)\d\d[-/.](?:1[0-2]|0?[1-9])[-/.](?:3[01]|[12]\d|0?[1-9])(?!\d)")
ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def metadata(root: Any) -> dict[str, str | None]:
    """The fields of a page.

    Args:
        root: The page's root element, with its head.
    """
    metas: dict[str, str] = {}
    for element in root.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or element.get("http-equiv")
        if name and element.get("content"):
            metas.setdefault(name.lower(), element.get("content"))
    linked = _linked_data(root)
    found = {field: _first([*(metas.get(name) for name in names), linked.get(field)]) for field, names in META_NAMES.items()}
    found["title"] = found["title"] or _first(["".join(element.itertext()) for element in root.iter("title", "h1")])
    found["license"] = (
        _first([element.get("href") for element in root.iter("a", "link") if "license" in (element.get("rel") or "")]) or found["license"]
    )
    found["spdx"] = _spdx(root, [found["license"], *(metas.get(name) for name in RIGHTS_NAMES)])
    found["lang"] = _first([root.get("lang"), root.get("{http://www.w3.org/XML/1998/namespace}lang"), found["lang"]])
    found["date"] = _date(found["date"]) or _first([_date(element.get("datetime")) for element in root.iter("time")])
    if found["author"] and ADDRESS.match(found["author"]):
        found["author"] = linked.get("author")  # a profile's address names nobody
    return found


def _spdx(root: Any, declared: Iterable[str | None]) -> str | None:
    """SPDX identifier of the declared licence, else of the one licence that links lead to; several links decide nothing."""
    for words in declared:
        if words and (found := license_of_words(words[:MAX_CHARS])):
            return found
    linked = {found for element in root.iter("a", "link") if (found := license_of_url(element.get("href") or ""))}
    return linked.pop() if len(linked) == 1 else None


def _first(values: list[str | None]) -> str | None:
    """The first value that says something, on one line."""
    lines = (" ".join(value.split())[:MAX_CHARS] for value in values if value)
    return next(filter(None, lines), None)


def _date(text: str | None) -> str | None:
    """The day of a date, as YYYY-MM-DD."""
    found = DATE.search(text or "")
    if found is None:
        return None
    year, month, day = re.split(r"[-/.]", found[0])
    return f"{year}-{int(month):02}-{int(day):02}"


def _linked_data(root: Any) -> dict[str, str]:
    """The fields as the page's JSON-LD has them."""
    found: dict[str, str] = {}
    for element in root.iter("script"):
        if element.get("type") == "application/ld+json" and 0 < len(element.text or "") <= MAX_JSON_CHARS:
            try:
                items = list(_items(json.loads(element.text)))
            except (ValueError, RecursionError):
                continue
            for item in items:
                for field, name in LINKED_NAMES.items():
                    if value := _name(item.get(name)):
                        found.setdefault(field, value)
    return found


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects that describe a work: of a graph each, of a list each."""
    values = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, Mapping):
            yield item
            graph = item.get("@graph")
            yield from (node for node in graph if isinstance(node, Mapping)) if isinstance(graph, list) else ()


def _name(value: Any) -> str | None:
    """A text, the name of an object, or the first of a list."""
    for _ in range(3):
        if isinstance(value, list):
            value = value[0] if value else None
        elif isinstance(value, Mapping):
            value = value.get("name") or value.get("url")
    return value if isinstance(value, str) else None
