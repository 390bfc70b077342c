"""What the names of HTML mean for the main text of a page: of tags, and of the words in class, id and role.

Names are compared by their first eight letters, packed into one number; a longer word stands for all that begin like it.

Source: https://html.spec.whatwg.org/multipage/syntax.html (optional tags, void and raw text elements) and, for roles,
https://www.w3.org/TR/wai-aria-1.2/#landmark_roles.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KEY_LETTERS = 8
TEXT, OTHER = 0, 1  # ids of what is no known element: a run of text, an unknown tag
# Traits of elements.
VOID, RAW, INLINE, ENDS_P, IN_HEAD, SILENT, FRAME_TAG, HEADING, PARAGRAPH = (1 << bit for bit in range(9))
ITEM, TERM, ROW, CELL, PART, OPTION, LIST, TABLE, TERMS = (1 << bit for bit in range(9, 18))
# Cues: what an element's attributes say. Weak ones count where the element is short or full of links.
FRAME, WEAK, HIDDEN, FOLD, BODY, COMMENT, FORUM, LINK = (1 << bit for bit in range(8))

_TRAITS = {
    VOID: "area base br col embed hr img input link meta source track wbr param",
    RAW: "script style title textarea xmp iframe noembed noframes",
    INLINE: "a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark nobr q s samp small span "
    "strike strong sub sup time tt u var wbr math",
    ENDS_P: "address article aside blockquote center details dialog dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hgroup hr main menu nav ol p pre search section summary table ul li",
    IN_HEAD: "base link meta script style title noscript template html head",
    SILENT: "script style template head iframe object embed canvas audio video map input title textarea noembed noframes select svg",
    FRAME_TAG: "figcaption nav footer aside dialog menu button select textarea svg search",
    HEADING: "h1 h2 h3 h4 h5 h6",
    PARAGRAPH: "p", ITEM: "li", TERM: "dt dd", ROW: "tr", CELL: "td th", PART: "tbody thead tfoot", OPTION: "option",
    LIST: "ul ol menu", TABLE: "table", TERMS: "dl",
}  # fmt: skip
_STRUCTURE = "html body noscript caption math annotation picture"
_CUES = {
    FRAME: "nav navbar subnav topnav navigation menu menus menuitem menubar submenu megamenu dropdown flyout offcanvas hamburger "
    "footer foot colophon sidebar aside rail breadcrumb breadcrumbs crumb crumbs cookie cookies consent gdpr share sharing "
    "shares sharedaddy social socials related recommend recommended recommendation recirc recirculation trending popular "
    "advert adverts advertisement ad ads adsbygoogle sponsor sponsored sponsors promo promos promoted subscribe "
    "subscription newsletter signup signin login modal popup popover overlay lightbox pagination pager paginator "
    "toolbar topbar taboola outbrain copyright masthead sr screen visually tagcloud prevnext noprint gallery galleries "
    "carousel slider slideshow print contentinfo complementary dialog alertdialog textwidget",
    WEAK: "widget widgets banner search filter filters cta meta metadata author authors byline date dateline timestamp posted tag "
    "tags category categories taxonomy more logo bio alert notice disclaimer follow contact credit credits count button "
    "buttons btn tooltip feedback cart toggle published updated caption thumbnail avatar legal rating vcard comments",
    FOLD: "accordion faq answer answers collapse collapsible collapsed expand expandable expanded tab tabs tabpanel panel pane "
    "less spoiler details",
    COMMENT: "comment comments commentlist disqus respond reply replies",
    FORUM: "forum forums thread threads topic topics discussion question phpbb viewtopic discourse",
}
_NOUNS = "article post entry story blog news"
_PARTS = "body content text main detail details copy"


def key(name: str) -> int:
    """The number that a name is compared by."""
    return int.from_bytes(name.encode()[:KEY_LETTERS].ljust(KEY_LETTERS, b"\0"), "big")


def _table(values: dict[int, int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    keys = sorted(values)
    return np.array(keys, np.uint64), np.array([values[name] for name in keys], np.int64)


def _by_word(groups: dict[int, str]) -> dict[int, int]:
    """The bits of each word."""
    bits: dict[int, int] = {}
    for bit, words in groups.items():
        for word in words.split():
            bits[key(word)] = bits.get(key(word), 0) | bit
    return bits


NAMES = ("", "?", *sorted({name for names in _TRAITS.values() for name in names.split()} | set(_STRUCTURE.split())))
IDS = {name: at for at, name in enumerate(NAMES)}
TAG_KEYS, TAG_IDS = _table({key(name): at for name, at in IDS.items() if at > OTHER})
TRAITS = np.array([sum(bit for bit, names in _TRAITS.items() if name in names.split()) for name in NAMES], np.int64)
TRAITS[OTHER] = INLINE
NOUN, DETAIL = 1 << 20, 1 << 21  # of two words that together name the body of an article
WORD_KEYS, WORD_CUES = _table(_by_word(_CUES | {NOUN: _NOUNS, DETAIL: _PARTS}))
# What the start of an element closes, and how far up that is looked for.
CLOSES = np.zeros(len(NAMES), np.int64)
STOPS = np.zeros(len(NAMES), np.int64)
for _names, _closes, _stops in (
    ("li", ITEM, LIST | TABLE | CELL), ("dt dd", TERM, TERMS | TABLE | CELL), ("tr", ROW, TABLE), ("td th", CELL, ROW | TABLE),
    ("tbody thead tfoot", PART, TABLE), ("option", OPTION, SILENT),
):  # fmt: skip
    for _name in _names.split():
        CLOSES[IDS[_name]], STOPS[IDS[_name]] = _closes, _stops
