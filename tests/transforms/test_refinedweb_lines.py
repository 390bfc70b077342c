"""Lines as RefinedWeb corrects them: what goes, what is taken out of lines, what stays, and what the rule set drops."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.ruleset import load_rule_set
from dataplane.testing import Example, conformance
from dataplane.transforms.refinedweb_lines import RefinedwebLines

ENGLISH = "The quick brown fox jumps over the lazy dog, and then it goes home."
CHINESE = "今天天气很好，我们一起去公园散步。"


def rewrite(*texts: str, **params: object) -> tuple[list[str], list[dict[str, int]]]:
    """New texts, and the edits of each that were made."""
    made = RefinedwebLines(params).transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    edits = [{kind: n[row].as_py() for kind, n in made.edits.items() if n[row].as_py()} for row in range(len(texts))]
    return made.text.to_pylist(), edits


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ABOUT US AND OUR WORK", "uppercase"),
        ("12/04/2020", "numeric"),
        ("１２３，４５６", "numeric"),
        ("3 likes", "counter"),
        ("1.2k Views", "counter"),
        ("12 Comments | 4 Shares", "counter"),
        ("Likes: 3", "counter"),
        ("阅读 1.2万 评论 35", "counter"),
        ("点赞数：100", "counter"),
        ("35人喜欢", "counter"),
        ("Gallery", "one_word"),
        ("- Gallery:", "one_word"),
        ("相册", "one_word"),
        ("Sign in or register to comment", "pattern_at_start"),
        ("Skip to main content", "pattern_at_start"),
        ("登录 注册", "pattern_at_start"),
        ("返回首页", "pattern_at_start"),
        ("Continue reading →", "pattern_at_end"),
        ("点击查看更多", "pattern_at_end"),
        ("3 items in your cart", "pattern_anywhere"),
        ("您的购物车为空", "pattern_anywhere"),
    ],
)
def test_a_line_that_is_no_text_goes(line: str, kind: str) -> None:
    text = ENGLISH if line.isascii() else CHINESE
    assert rewrite(f"{text}\n{line}\n{text}\n") == ([f"{text}\n{text}\n"], [{kind: 1}])


@pytest.mark.parametrize(
    "line",
    [
        "Sign in to the registry with your key.",
        "Home-made jam is good.",
        "If you want to learn more",
        "想了解更多",
        "今天有3次评论会",
        "NASA and ESA plan the mission.",
        "3 + 4 = 7",
        "$ 12 for two",
        "There were 3 likes under it.",
        "```",
        "18.9 MB of text",
        "APP专享的优惠内容",
        "GET /index.html HTTP/1.1",
        "---",
        "中国科学院",
        "Register: a book of records",
    ],
)
def test_a_line_of_text_stays(line: str) -> None:
    assert rewrite(f"{line}\n{ENGLISH}") == ([f"{line}\n{ENGLISH}"], [{}])


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("  It began in spring. Read more...  ", "  It began in spring.  "),
        ("Home > News > The world today", "News > The world today"),
        ("上一篇：第三章 回到家乡", "第三章 回到家乡"),
        ("他说今天很好。 阅读全文", "他说今天很好。"),
        ("版权所有 某某有限公司", "某某有限公司"),
    ],
)
def test_the_words_of_buttons_are_taken_out_of_short_lines(line: str, kept: str) -> None:
    assert rewrite(f"{line}\n{ENGLISH}")[0] == [f"{kept}\n{ENGLISH}"]
    long = f"{ENGLISH} {ENGLISH} Read more..."
    assert rewrite(long) == ([long], [{}])


def test_no_heap_of_blank_lines_is_left_behind() -> None:
    assert rewrite(f"Menu\n\n{ENGLISH}\n\n3 likes\n\n{ENGLISH}\n\nMenu") == ([f"{ENGLISH}\n\n{ENGLISH}"], [{"one_word": 2, "counter": 1}])


def test_kept_lines_keep_their_white_space_and_line_ends() -> None:
    text = f"\t{ENGLISH}\r\n\r\n\r\n  {ENGLISH} \r\n"
    assert rewrite(text, f"{text}3 likes\r\n{text}") == ([text, text + text], [{}, {"counter": 1}])


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_only_whole_lines_of_plain_rules_go_and_all_that_changed_is_counted(texts: list[str]) -> None:
    new, edits = rewrite(*texts, max_pattern_words=0)
    for old, now, counted in zip(texts, new, edits, strict=True):
        left = old.splitlines()
        assert set(now.splitlines()) - set(left) == set()
        assert (old == now) == (counted == {})


def test_removed_share_is_that_of_the_words_and_the_rule_looks_at_it() -> None:
    texts = ["one two three four five six\nseven", "one two three", "", f"{CHINESE}\n相册"]
    made = RefinedwebLines().transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    assert made.signals["removed_share"].to_pylist() == [pytest.approx(1 / 7), 0.0, 0.0, pytest.approx(1 / 9)]
    rules = load_rule_set("refinedweb").resolve().predicates()
    assert rules == {"too_many_corrected_lines": "refinedweb_lines.removed_share > 0.05"}


@pytest.mark.slow
def test_it_conforms() -> None:
    examples = [Example(f"{ENGLISH}\n3 likes\nMenu\nHome | News\nSoon. Read more..."), Example(f"{CHINESE}\n登录 注册"), Example("")]
    conformance(RefinedwebLines, examples=examples)
