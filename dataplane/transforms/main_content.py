"""Main content of a page as Markdown, in one pass over its tree: the fast way of html_text.

Frame parts go by element, by role and by what their class or id says they are. The content is then the smallest element that holds
most of the page's text outside links, less the blocks in it that are little more than links.

Source: the measures are those of Kohlschütter et al. 2010, doi:10.1145/1718487.1718542 (text and link density of blocks).
"""

from __future__ import annotations

import functools
import re
from typing import Any

from dataplane.transforms.markdown import markdown

MIN_SHARE = 0.75  # of the text that an element must hold for the content to be sought in it alone
MIN_PROSE_SHARE = 0.3  # of the text; below it the page is a list of links
MAX_FRAME_SHARE = 0.4  # of the page's text: what holds more is no frame part, whatever its class says
MAX_LINK_SHARE = 0.6  # of a block's text that may be links
SHORT_BLOCK_CHARS = 30
NO_TEXT = ("script", "style", "template", "head", "iframe", "object", "embed", "canvas", "audio", "video", "map", "input")
# Without text of the content too, though where their end is missing all that follows is in them.
FRAME_TAGS = frozenset({"nav", "footer", "aside", "dialog", "menu", "button", "select", "textarea", "svg"})
FRAME_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar"}
)
FRAME_WORDS = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|submenu|sidebar|side-?bar|footer|foot|breadcrumbs?|crumbs?|cookies?|consent|gdpr|share|sharing|"
    r"social|socials|related|recommend(?:ed|ations?)?|advert|adverts|advertisement|ads?|adsbygoogle|banner|promo|promoted|sponsor(?:ed|s)?|"
    r"subscribe|subscription|newsletter|signup|sign-up|login|popup|pop-up|modal|overlay|pagination|pager|paginator|skip-link|toolbar|topbar|"
    r"taboola|outbrain|disqus|copyright|masthead|sr-only|screen-reader-text|visually-hidden|tags|tagcloud|"
    r"toc|byline|author-box|author-bio|more-posts|read-next|prev-next|post-nav|respond|print-only|noprint)(?:$|[\s_-])"
)
HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
BLOCKS = frozenset({"div", "section", "ul", "ol", "dl", "table", "p", "header", "form", "center", "figure", "details"})
LEAVES = frozenset({"p", "pre", "table", "ul", "ol", "a", "span"})  # too small to be sought in
LINK_BLOCKS = ("div", "section", "ul", "ol", "dl", "p", "table")
MAX_DROPPED_SHARE = 0.5  # of the content's text: where more is links, the links are the content


def parsed(html: str) -> Any:
    """The page's root element, None where it has none."""
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return etree.fromstring(html.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def content(root: Any) -> str:
    """The main content of a parsed page, which loses its frame parts on the way."""
    _strip(root)
    sizes = Sizes(root)
    frame = [element for element in root.iter(*BLOCKS, *FRAME_TAGS) if _is_frame(element, sizes)]
    sizes.forget(frame)
    for element in frame:
        _drop(element)
    main = _main(root, sizes)
    links = [element for element in main.iter(*LINK_BLOCKS) if element is not main and sizes.is_links(element)]
    inside = set(links)
    if sum(sizes.text[element] for element in links if element.getparent() not in inside) <= MAX_DROPPED_SHARE * sizes.text[main]:
        for element in links:
            _drop(element)
    return markdown(main)


def _strip(root: Any) -> None:
    """Takes out the elements without text. Pages that are made by scripts have their text in <noscript>."""
    from lxml import etree

    etree.strip_elements(root, *NO_TEXT, with_tail=False)
    n_chars = etree.XPath("string-length(normalize-space(.))")
    quiet = sum(n_chars(element) for element in root.iter("noscript"))
    if 2 * quiet < n_chars(root):
        etree.strip_elements(root, "noscript", with_tail=False)


class Sizes:
    """Characters of text in each element, and how many of them are in links."""

    def __init__(self, root: Any) -> None:
        self.text: dict[Any, int] = {}
        self.link: dict[Any, int] = {}
        self._order = list(root.iter())
        for element in reversed(self._order):
            text = len(element.text.strip()) if element.text else 0
            link = 0
            for child in element:
                text += self.text[child]
                link += self.link[child]
                if child.tail:
                    text += len(child.tail.strip())
            self.text[element] = text
            self.link[element] = text if element.tag == "a" else link
        self.total = max(1, self.text[root])

    def forget(self, elements: list[Any]) -> None:
        """Takes the text of elements off what their ancestors hold, in one pass however deep they lie."""
        gone = set(elements)
        lost: dict[Any, tuple[int, int]] = {}
        for element in reversed(self._order):
            text, link = (self.text[element], self.link[element]) if element in gone else lost.get(element, (0, 0))
            if not text:
                continue
            if element not in gone:
                self.text[element] -= text
                self.link[element] -= link
            parent = element.getparent()
            before = lost.get(parent, (0, 0))
            lost[parent] = before[0] + text, before[1] + link

    def prose(self, element: Any) -> int:
        """Characters outside links."""
        return self.text[element] - self.link[element]

    def is_links(self, element: Any) -> bool:
        """Whether an element is little more than links."""
        text, link = self.text.get(element, 0), self.link.get(element, 0)
        return link > MAX_LINK_SHARE * text and text > 0


def _is_frame(element: Any, sizes: Sizes) -> bool:
    if sizes.text[element] > MAX_FRAME_SHARE * sizes.total:
        return False
    if element.tag in FRAME_TAGS:
        return True
    marks = element.attrib
    if not marks:
        return False
    if marks.get("role") in FRAME_ROLES or marks.get("aria-hidden") == "true" or "hidden" in marks:
        return True
    if "style" in marks and HIDDEN.search(marks["style"]):
        return True
    names = f"{marks.get('class', '')} {marks.get('id', '')}"
    return len(names) > 1 and _names_frame(names)


@functools.lru_cache(maxsize=1 << 16)  # the names of a page's parts come again and again
def _names_frame(names: str) -> bool:
    return FRAME_WORDS.search(names.lower()) is not None


def _drop(element: Any) -> None:
    """Takes an element out of its tree, but not the text behind it."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        before = element.getprevious()
        if before is None:
            parent.text = (parent.text or "") + element.tail
        else:
            before.tail = (before.tail or "") + element.tail
    parent.remove(element)


def _main(root: Any, sizes: Sizes) -> Any:
    """The smallest element that holds most of the prose; of a page without much of it, most of the text."""
    in_links = sizes.link if sizes.prose(root) > MIN_PROSE_SHARE * sizes.text[root] else {}
    whole = sizes.text[root] - in_links.get(root, 0)
    at = root
    while True:
        share, best = max(
            ((sizes.text[child] - in_links.get(child, 0), child) for child in at), key=lambda found: found[0], default=(0, None)
        )
        if best is None or share < MIN_SHARE * whole or best.tag in LEAVES:
            return at
        at = best
