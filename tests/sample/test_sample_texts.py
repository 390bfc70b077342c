from __future__ import annotations

import ast
import bz2
import gzip
import inspect
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.sample import books, code, dialogue, docstrings, fortunes, maths, news, parallel, prose, reviews, rules, web
from dataplane.sample.files import keeper

HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=6)
TAG = st.sampled_from(["n", "nr", "v", "w", "t", "Vg"])


def everything(_: str) -> bool:
    return True


@given(st.lists(st.lists(st.tuples(HAN | st.just("/"), TAG), min_size=1, max_size=4), min_size=1, max_size=5))
def test_word_tags_and_compound_brackets_come_off(compounds: list[list[tuple[str, str]]]) -> None:
    tagged = []
    for compound in compounds:
        tokens = "  ".join(f"{word}/{tag}" for word, tag in compound)
        tagged.append(f"[{tokens}]nt" if len(compound) > 1 else tokens)
    assert news.untagged("  ".join(tagged)) == "".join(word for compound in compounds for word, _ in compound)


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("北京举行新年音乐会", True),
        ("挂起红灯迎新年（图片）", True),
        ("谢谢！（新华社北京１２月３１日电）", False),
        ("（新华社记者樊如钧摄）", False),
        ("今天是一九九七年的最后一天。", False),
        ("字" * (news.HEADLINE_MAX_CHARS + 1), False),
        ("", False),
    ],
)
def test_a_headline_is_short_and_ends_like_no_sentence(paragraph: str, expected: bool) -> None:
    assert news.is_headline(paragraph) is expected


def test_a_headline_after_a_body_opens_an_article() -> None:
    paragraphs = ["标题一", "副标题", "正文。", "正文。", "标题二", "（图片）", "正文。"]
    assert list(news.articles(iter(paragraphs))) == [paragraphs[:4], paragraphs[4:]]


def test_the_newspapers_articles_begin_with_a_headline_and_have_a_body() -> None:
    (file,) = news.files(everything)
    articles = [json.loads(line)["text"].split("\n")[:-1] for line in bz2.decompress(file.data).decode().split("\n")[:-1]]
    assert len(articles) == file.records == 3_182
    assert sum(len(article) for article in articles) == 19_484  # as many paragraphs as the file has lines
    assert all(news.is_headline(article[0]) for article in articles)
    assert all(any(not news.is_headline(each) for each in article) for article in articles[:-1])


def test_both_bibles_have_all_chapters() -> None:
    kjv, asv = books.chapters("kjv"), books.chapters("asv")
    assert list(kjv) == list(asv)
    assert len(kjv) == 1_189
    assert kjv["01_genesis/001"].startswith("Genesis 1\n\nIn the beginning God created the heaven and the earth.\n")


def test_dialogue_speaks_every_language_of_the_package() -> None:
    rows = list(dialogue.conversations(everything))
    assert {row["lang"] for row in rows} == set(dialogue.LANGUAGES.values())
    assert len({row["id"] for row in rows}) == len(rows)


def test_fortunes_split_into_as_many_records_as_are_counted() -> None:
    for file in fortunes.files(everything):
        assert len(file.data.decode().split(fortunes.SEPARATOR)) == file.records, file.path


def test_nearly_half_of_the_reviews_are_copies() -> None:
    texts = [text for _, text, _ in reviews.reviews()]
    assert (len(texts), len(set(texts))) == (35_123, 17_410)


def test_copies_of_a_review_are_kept_or_left_together() -> None:
    (file,) = reviews.files(keeper(0.1))
    kept = Counter(json.loads(line)["text"].strip() for line in gzip.decompress(file.data).decode().split("\n")[:-1])
    everywhere = Counter(text.strip() for _, text, _ in reviews.reviews())
    assert kept == {text: everywhere[text] for text in kept}
    assert 0.08 < len(kept) / len(everywhere) < 0.12


def test_pairs_without_a_translation_are_not_asked_about() -> None:
    left_out = {pair.english for pair in set(parallel.pairs()) - set(parallel.translated())}
    assert {english.partition("-")[0] for english in left_out} == {"placeholder", "PH"}
    assert all(pair.english[-1] in ".!?\"'" or len(pair.english) > 2 for pair in parallel.translated())


def test_maths_documents_hold_formulas() -> None:
    (file,) = maths.files(everything)
    assert file.records >= 400
    texts = [json.loads(line)["text"] for line in file.data.decode().split("\n")[:-1]]
    assert sum(".. math" in text for text in texts) > 150
    assert sum("\\" in text for text in texts) > 200


def test_rules_have_good_and_bad_code() -> None:
    pairs = [rule for rule in rules.rules() if rule.bad and rule.good]
    assert len(rules.rules()) == 977
    assert len(pairs) > 750
    assert all(rule.what and "```" not in rule.bad + rule.good for rule in pairs)


def test_docstrings_read_from_source_are_those_of_the_imported_object() -> None:
    import shutil
    import textwrap

    found = {each.key: each for each in docstrings.stdlib()}
    for module in (shutil, textwrap):
        for name, value in inspect.getmembers(module, inspect.isfunction):
            key = f"{module.__name__}.{name}"
            if key in found:
                assert found[key].text == inspect.getdoc(value), key
    assert found["shutil.copyfile"].arguments == "(src, dst, *, follow_symlinks=True)"


@pytest.mark.parametrize("source", [b"", b"\0", b"def f(:\n", "é".encode("latin-1"), b"x = 1"])
def test_sources_without_docstrings_yield_nothing(source: bytes) -> None:
    assert list(docstrings.documented(source, assigned=True)) == []


def test_docstrings_are_named_by_what_holds_them() -> None:
    source = b'"""m"""\nclass A:\n  """a"""\n  def f(self, x=1):\n    """f"""\n  def _g(self):\n    """g"""\nsin = """s"""\n'
    assert list(docstrings.documented(source, assigned=True)) == [
        ("", "", "m"),
        ("A", "", "a"),
        ("A.f", "(self, x=1)", "f"),
        ("sin", "", "s"),
    ]


def test_code_is_the_library_without_tests_and_machine_configuration() -> None:
    paths = list(code.sources())
    assert paths == sorted(paths)
    assert {"json/decoder.py", "os.py", "asyncio/tasks.py"} <= set(paths)
    assert [path for path in paths if "/test" in path or "_sysconfigdata" in path or "site-packages" in path] == []
    assert sum(map(len, code.sources().values())) < 10_000_000
    ast.parse(code.sources()["os.py"])


def test_every_readme_has_a_licence_line() -> None:
    *texts, licenses = prose.files(everything)
    assert len(texts) > 20
    assert licenses.data.count(b"\n") == len(texts)


def test_pages_are_asked_of_safe_public_modules() -> None:
    modules = web.modules()
    assert {"json", "json.decoder", "os", "email.message"} <= set(modules)
    assert not {"antigravity", "this", "turtle", "tkinter", "idlelib", "test"} & set(modules)
    assert {"for", "if", "lambda", "typesseq"} <= set(web.topics())
