"""What stands around the text of a page: counters, and the words of its buttons, as RE2 patterns over stripped lines.

The publication (Penedo et al. 2023, arXiv:2306.01116, G.2) names kinds and one example of each ("3 likes", "sign-in", "Read more...",
"items in cart") and no list; the lists here are our own, English and Chinese. Words at the start have to be all of the line, or be parted
from the rest by a sign; words at the end have to be all of the line, or follow the end of a sentence. "Sign in to the registry with your
key", "Home-made jam" and "if you want to learn more" stay as they are.
"""

from __future__ import annotations

# RE2's \W, \s and \b know ASCII alone.
SIGNS = r"[^\p{L}\p{N}]*"
_GAP = r"[\s\p{Z}]*"
_PARTED = r"[|·•»›>→]"


def _any(*phrases: str) -> str:
    return f"(?:{'|'.join(phrases)})"


_NUMBER = rf"\p{{Nd}}[\p{{Nd}}.,，]*{_GAP}[kKmMwW万千亿萬億]?\+?"
_COUNTED = _any(
    "likes?", "shares?", "comments?", "replies", "reply", "views?", "reads?", "retweets?", "reposts?", "tweets?", "followers?", "following",
    "subscribers?", "upvotes?", "votes?", "points?", "downloads?", "stars?", "forks?", "watching", "watchers?", "ratings?", "reviews?",
    "posts?", "photos?", "videos?", "members?", "claps?", "hearts?", "favou?rites?",
)  # fmt: skip
_COUNTED_ZH = (
    _any(
        "阅读", "浏览", "点击", "播放", "查看", "观看", "下载", "点赞", "收藏",
        "评论", "回复", "转发", "分享", "关注", "粉丝", "喜欢", "赞",
        "閱讀", "瀏覽", "點擊", "觀看", "下載", "點讚", "評論", "回覆", "轉發", "關注", "粉絲", "喜歡", "讚",
    )
    + "(?:次数|次數|数|數|量)?"
)  # fmt: skip
_TIMES = f"{_GAP}[次人条个條個]?{_GAP}"
_ONE_COUNTER = _any(
    rf"{_NUMBER}{_GAP}{_COUNTED}",
    rf"{_COUNTED}{_GAP}[:(]?{_GAP}{_NUMBER}\)?",
    rf"{_COUNTED_ZH}{_GAP}[:：(（]?{_GAP}{_NUMBER}{_TIMES}[)）]?",
    rf"{_NUMBER}{_TIMES}{_COUNTED_ZH}",
)
# One or several: "3 likes", "12 Comments | 4 Shares", "阅读 1.2万 评论 35".
COUNTER = rf"(?i)^{SIGNS}{_ONE_COUNTER}(?:{SIGNS}{_ONE_COUNTER})*{SIGNS}$"

_START = _any(
    "sign[ -]?in", "sign[ -]?up", "log[ -]?in", "log[ -]?out", "register", "subscribe", "skip to (?:main |the )?content",
    "jump to (?:navigation|content|search)", r"share (?:this|on|via)(?: \w+)?", "tweet(?: this)?", "pin it", 
    "print(?: this)?(?: page| article)?",
    "back to top", "home", "menu", "search", r"follow us(?: on \w+)?", "click here", "leave a (?:comment|reply)", "post a comment",
)  # fmt: skip
_TO_DO = "comment|reply|post|vote|view|read|see|continue|download|follow"
_START_ZH = _any(
    "登录", "登陆", "立即注册", "注册", "返回首页", "首页", "返回顶部", "上一篇", "下一篇", "上一页", "下一页", "分享到", "扫一扫",
    "当前位置",
    "您的位置", "关注我们", "登錄", "註冊", "首頁", "返回頂部", "上一頁", "下一頁",
)  # fmt: skip
START = _any(
    rf"(?i)^{_START}(?: (?:or|and) {_START})*(?: to (?:{_TO_DO})\b.*$|{_GAP}$|{_GAP}{_PARTED}{SIGNS})",
    rf"^(?:{_START_ZH}(?:{_GAP}$|{_GAP}[|/·•»›>→:：!！]{SIGNS}|[\s\p{{Z}}]+))+",
)

_END = _any(
    "read more", "read the full (?:story|article)", "continue reading", "learn more", "see more", "view more", "show more", "load more",
    "more info", "find out more", "click here to read more",
)  # fmt: skip
_END_ZH = _any(
    "阅读全文", "查看全文", "阅读更多", "查看更多", "点击查看更多", "展开全文", "更多内容", "加载更多", "了解更多", "閱讀全文", "展開全文",
)  # fmt: skip
END = rf"(?i)(?P<before>^|[.!?…。！？;；\])）】」』”\"]){_GAP}[\[(（【|»›>→–-]*{_GAP}(?:{_END}|{_END_ZH}){SIGNS}$"
ANY = _any(
    r"(?i)\b\d+ items? in (?:your )?(?:shopping )?(?:cart|basket|bag)\b",
    r"\badd to (?:cart|basket|bag|wishlist)\b",
    r"\byour (?:shopping )?cart is empty\b",
    r"\bview (?:shopping )?cart\b",
    r"\ball rights reserved\b",
    r"购物车(?:内)?(?:有|共)\s*\d+\s*件(?:商品)?",
    "加入购物车", "您的购物车为空", "版权所有", "加入購物車", "版權所有",
)  # fmt: skip
# Kind of edit -> pattern, and what stays of what it finds.
PATTERNS = {"pattern_at_start": (START, ""), "pattern_at_end": (END, r"\1"), "pattern_anywhere": (ANY, "")}
