"""What a page says about itself: title, author, date, licence (as it stands, and as an SPDX identifier), language.

Source: https://schema.org/Article, https://ogp.me, https://html.spec.whatwg.org/#standard-metadata-names, and rel=license as in
https://microformats.org/wiki/rel-license.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dataplane.annotators.license_links import license_of_url, license_of_words
from dataplane.transforms.html_page import Page

FIELDS = ("title", "author", "date", "license", "spdx", "lang")
MAX_CHARS = 500
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
# What every address of `license_links` has one of, and every rel=license.
LICENSE = re.compile(rb"licen[cs]e|LICEN[CS]E|Licen[cs]e|publicdomain|/MPL/|/copyleft/|opendatacommons|wtfpl")
ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def metadata(page: Page) -> dict[str, str | None]:
    """The fields of a page."""
    metas: dict[str, str] = {}
    for row in page.elements("meta"):
        values = page.attributes(row)
        name = values.get("property") or values.get("name") or values.get("itemprop") or values.get("http-equiv")
        if name and values.get("content"):
            metas.setdefault(name.lower(), values["content"])
    linked = _linked_data(page)
    found = {field: _first([*(metas.get(name) for name in META_NAMES[field]), linked.get(field)]) for field in META_NAMES}
    found["title"] = (
        found["title"]
        or _first([page.text(row) for row in page.elements("title")])
        or _first([page.text(row) for row in page.elements("h1")])
    )
    found["license"] = _license(page) or found["license"]
    found["spdx"] = _spdx(page, [found["license"], *(metas.get(name) for name in RIGHTS_NAMES)])
    root = next((page.attributes(row) for row in page.elements("html")), {})
    found["lang"] = _first([root.get("lang"), root.get("xml:lang"), found["lang"]])
    found["date"] = _date(found["date"]) or _first([_date(page.attributes(row).get("datetime")) for row in page.elements("time")])
    if found["author"] and ADDRESS.match(found["author"]):
        found["author"] = linked.get("author")  # a profile's address names nobody
    return found


def _license(page: Page) -> str | None:
    """Where the first link with rel=license leads."""
    links = (values for values in _links(page) if "license" in values.get("rel", "").lower().split() and values.get("href"))
    return _first([values["href"] for values in itertools.islice(links, 1)])


def _spdx(page: Page, declared: Iterable[str | None]) -> str | None:
    """SPDX identifier of the declared licence, else of the one licence that links lead to; several links decide nothing."""
    for words in declared:
        if words and (found := license_of_words(words[:MAX_CHARS])):
            return found
    linked = {found for values in _links(page) if (found := license_of_url(values.get("href", "")))}
    return linked.pop() if len(linked) == 1 else None


def _links(page: Page) -> Iterator[dict[str, str]]:
    """The attributes of the links in which a licence is mentioned."""
    seen = -1
    for match in LICENSE.finditer(page.data):
        row = page.row_at(match.start())
        if row != seen and page.name(row) in ("a", "link"):
            yield page.attributes(row)
        seen = row


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


def _linked_data(page: Page) -> dict[str, str]:
    """The fields as the page's JSON-LD has them."""
    found: dict[str, str] = {}
    for item in page.linked_data:
        for field, name in LINKED_NAMES.items():
            if value := _name(item.get(name)):
                found.setdefault(field, value)
    return found


def _name(value: Any) -> str | None:
    """A text, the name of an object, or the first of a list."""
    for _ in range(3):
        if isinstance(value, list):
            value = value[0] if value else None
        elif isinstance(value, Mapping):
            value = value.get("name") or value.get("url")
    return value if isinstance(value, str) else None
