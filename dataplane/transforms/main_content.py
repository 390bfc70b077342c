"""Main content of a page as Markdown, by the cues and densities of its elements: the fast way of html_text."""

from __future__ import annotations

from dataplane.kernels.html_content import select
from dataplane.transforms.html_page import Page
from dataplane.transforms.markdown import markdown

FORUM_TYPES = frozenset({"DiscussionForumPosting", "QAPage", "Question"})  # of schema.org: comments are what the page is about


def content(page: Page) -> str:
    """The main content."""
    is_forum = any(FORUM_TYPES.intersection(_types(item.get("@type"))) for item in page.linked_data)
    return markdown(page.data, select(page.rows, is_forum))


def _types(value: object) -> list[str]:
    """The types of an object, which may be one or a list."""
    return [kind for kind in (value if isinstance(value, list) else [value]) if isinstance(kind, str)]
