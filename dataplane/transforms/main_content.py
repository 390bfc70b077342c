"""Main content of a page as Markdown, by the cues and densities of its elements: the fast way of html_text."""

from __future__ import annotations

from dataplane.kernels.html_content import select
from dataplane.kernels.html_names import NAMES
from dataplane.kernels.html_tree import TAG
from dataplane.transforms.html_page import Page
from dataplane.transforms.markdown import markdown

MIN_SURE_CHARS = 300
FORUM_TYPES = frozenset({"DiscussionForumPosting", "QAPage", "Question"})  # of schema.org: comments are what the page is about


def content(page: Page) -> tuple[str, bool]:
    """The main content, and whether it is likely to be that: some part of the page stands out, and it is not short."""
    is_forum = any(FORUM_TYPES.intersection(_types(item.get("@type"))) for item in page.linked_data)
    kept = select(page.rows, is_forum)
    text = markdown(page.data, kept)
    return text, NAMES[kept[0, TAG]] not in ("", "html", "body") and len(text) >= MIN_SURE_CHARS


def _types(value: object) -> list[str]:
    """The types of an object, which may be one or a list."""
    return [kind for kind in (value if isinstance(value, list) else [value]) if isinstance(kind, str)]
