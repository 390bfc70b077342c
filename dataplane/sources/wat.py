"""WAT, Common Crawl's metadata of pages: the title, the description and the links of a page as a text.

The page's own words are not in a WAT. What people read it for are anchor texts, alternative texts of images and the graph of links, so
that a record is the page's title and one Markdown link or image a line, and the number of links and the language are in `meta`.

Source: https://commoncrawl.org/blog/web-archiving-file-formats-explained
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

MAX_LABEL_CHARS = 1000


def page_of(block: bytes, url: str | None) -> tuple[str, dict[str, Any]] | None:
    """Text and metadata of the page that a WAT record describes; None where it describes no page.

    Args:
        block: The record's JSON.
        url: Address of the page, from which relative links lead.

    Raises:
        ValueError: The block is not JSON.
    """
    values = json.loads(block)
    page = _at(values, "Envelope", "Payload-Metadata", "HTTP-Response-Metadata", "HTML-Metadata")
    if not page:
        return None
    head = _at(page, "Head")
    metas = {str(_at(item).get("name") or _at(item).get("property")).lower(): _at(item).get("content") for item in _list(head, "Metas")}
    title = _line(head.get("Title")) or _line(metas.get("og:title"))
    description = _line(metas.get("description")) or _line(metas.get("og:description"))
    links = list(_links(page, url or ""))
    parts = [f"# {title}" if title else "", description, "\n".join(links)]
    meta = {"title": title, "n_links": len(links), "lang": _line(metas.get("language") or metas.get("og:locale"))}
    return "\n\n".join(filter(None, parts)), {key: value for key, value in meta.items() if value not in ("", None)}


def _links(page: Mapping[str, Any], base: str) -> Iterator[str]:
    for item in _list(page, "Links"):
        link = _at(item)
        image = str(link.get("path", "")).upper().startswith("IMG@")
        target = link.get("url")
        if isinstance(target, str) and target.strip() and not target.lower().startswith(("javascript:", "data:", "#")):
            label = _line(link.get("alt") if image else link.get("text")) or _line(link.get("title"))
            yield f"- {'!' if image else ''}[{label}]({_absolute(base, target.strip())})"


def _absolute(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:  # brackets that are no IPv6 address
        return target


def _at(node: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, an empty one where there is none."""
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _list(node: Mapping[str, Any], name: str) -> list[Any]:
    found = node.get(name)
    return found if isinstance(found, list) else []


def _line(value: Any) -> str:
    return " ".join(value.split())[:MAX_LABEL_CHARS] if isinstance(value, str) else ""
