"""Lines as C4 removes them: as datatrove does where it is asked for what was published, and as Chinese needs them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.testing import Example, conformance
from dataplane.transforms.c4_lines import C4Lines

WORDS = st.sampled_from([
    "the", "cat", "sat", "javascript", "JavaScript,", "terms of use", "Cookie Policy", "[1]", "[12]",
    "[edit]", "[citation needed]", "x[3].",
    "end.", "end?", "end!", 'end"', "end'", "end...", "end…", "é.", "y" * 1001, "{", "lorem ipsum", "", "\t",
])  # fmt: skip
TEXTS = st.lists(st.tuples(st.lists(WORDS, max_size=6), st.sampled_from(["\n", "\n\n", "\r\n", "\x0b", "\u2028", "\x85", " \n "]))).map(
    lambda lines: "".join(" ".join(words) + end for words, end in lines)
)


def rewrite(*texts: str, **params: object) -> tuple[list[str], list[dict[str, int]]]:
    """New texts, and the edits of each that were made."""
    made = C4Lines(params).transform(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    edits = [{kind: n[row].as_py() for kind, n in made.edits.items() if n[row].as_py()} for row in range(len(texts))]
    return made.text.to_pylist(), edits


@pytest.mark.parametrize("terminal", [True, False])
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_published_marks_give_what_datatrove_gives(texts: list[str], terminal: bool) -> None:
    filters = pytest.importorskip("datatrove.pipeline.filters", reason="datatrove is not installed (extra `datatrove`)")
    from datatrove.data import Document

    peer = filters.C4QualityFilter(
        filter_no_terminal_punct=terminal, min_num_sentences=-1, filter_lorem_ipsum=False, filter_curly_bracket=False
    )
    documents = [Document(text=text, id="") for text in texts]
    assert [document.text for document in documents if peer.filter(document) is not True] == []
    assert rewrite(*texts, marks="published", terminal_punctuation=terminal)[0] == [document.text for document in documents]


def test_each_removed_line_counts_for_its_first_rule() -> None:
    text = "A first sentence stands here.\n\nno stop here at all\nToo short.\nIt wants JavaScript, they say.\nSee our privacy policy.\n"
    assert rewrite(text + "  And [1] the last one [edit] stays.  \n" + "x" * 1001 + " is long.\nIt ends so...") == (
        ["A first sentence stands here.\nAnd  the last one  stays."],
        [
            {"blank": 1, "long_word": 1, "no_terminal_punctuation": 2, "too_few_words": 1, "javascript": 1, "policy": 1, "citation": 2}
            | {"white_space": 1}
        ],
    )


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("今天天气很好。", True),
        ("他说：“今天天气很好。”", True),
        ("你想去公园吗？", True),
        ("他没有再说下去……", True),
        ("好。", False),  # two words
        ("今天天气很好", False),
        ("请阅读本站的隐私政策。", False),
        ("本站使用Cookie，请您同意。", False),
        ("您的浏览器需要启用JavaScript。", False),
        ("字" * 1500 + "。", True),  # no word of 1,501 characters
        ("He said “we go home.”", True),
        ("and so it goes…", False),
        ("यह एक वाक्य है।", True),
        ("هل هذا سؤال؟", True),
    ],
)
def test_a_line_of_any_script_is_judged_by_its_own_marks(line: str, stays: bool) -> None:
    assert rewrite(line)[0] == [line if stays else ""]


def test_as_fineweb_uses_it_lines_need_no_end_mark() -> None:
    text = "A heading of some words\nand a line...\nTwo words"
    assert rewrite(text, terminal_punctuation=False) == (["A heading of some words\nand a line..."], [{"too_few_words": 1}])


def test_blank_lines_can_part_what_stays() -> None:
    text = "One sentence stands here.\n\nMenu\n\nAnother one stands here.\n\n\nA third one follows.\n\nMenu\n"
    expected = "One sentence stands here.\n\nAnother one stands here.\n\n\nA third one follows."
    assert rewrite(text, keep_blank_lines=True)[0] == [expected]


def test_a_document_that_loses_nothing_is_left_as_it_is() -> None:
    text = "A sentence of five words.\nAnd then another one follows."
    assert rewrite(text, text + "\n", text.replace("\n", "\r\n")) == ([text] * 3, [{}, {"white_space": 1}, {"white_space": 1}])


def test_removed_share_is_that_of_the_words() -> None:
    batch = pa.record_batch({"text": pa.array(["One two three.\nfour", "", "你好吗。\n好"], pa.large_string())})
    assert C4Lines().transform(batch).signals["removed_share"].to_pylist() == [0.25, 0.0, pytest.approx(1 / 5)]


@pytest.mark.slow
def test_it_conforms() -> None:
    examples = [Example("A sentence stands here [1].\nMenu\n\nIt wants JavaScript, they say."), Example("今天天气很好。"), Example("")]
    conformance(C4Lines, examples=examples)
