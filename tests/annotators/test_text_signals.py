"""The annotator's contract: columns, types, params and what they change."""

import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.text_signals import TextSignals, published_stop_words
from dataplane.errors import EnvironmentFault, ParamsError
from dataplane.kernels.text_signals import STOP_WORDS
from dataplane.registry import operator_class
from dataplane.testing import Example, conformance

ROOT = Path(__file__).parents[2]
TEXTS = ["well-known, isn't it?", "的", ""]


def annotate(**params: str) -> dict[str, pa.Array]:
    return dict(TextSignals(params).annotate(pa.record_batch({"text": pa.array(TEXTS, pa.large_string())})))


def test_it_is_registered_under_its_name() -> None:
    assert operator_class("text_signals") is TextSignals


def test_columns_and_types_are_those_it_declares() -> None:
    assert {name: column.type for name, column in annotate().items()} == dict(TextSignals.writes)
    assert {len(column) for column in annotate().values()} == {len(TEXTS)}


def test_the_word_rule_changes_the_words() -> None:
    assert annotate()["n_words"].to_pylist() == [5, 1, 0]  # well known is n't it
    assert annotate(words="paper")["n_words"].to_pylist() == [3, 1, 0]
    assert TextSignals({"words": "paper"}).op_id != TextSignals({}).op_id


def test_an_unknown_word_rule_is_refused() -> None:
    with pytest.raises(ParamsError, match="'reference', 'paper' or 'exact'"):
        TextSignals({"words": "spaces"})


def annotate_text(text: str, **params: str) -> dict[str, object]:
    operator = TextSignals(params)
    operator.open()
    return {name: column[0].as_py() for name, column in operator.annotate(pa.record_batch({"text": pa.array([text])})).items()}


def test_chinese_words_are_characters_or_those_of_a_dictionary() -> None:
    text = "我来到北京清华大学，使用 Python。"
    assert annotate_text(text)["n_tokens"] == 14
    assert annotate_text(text, cjk="segment")["n_tokens"] == 8  # 我 来到 北京 清华大学 ， 使用 Python 。
    assert annotate_text(text, cjk="segment", words="paper")["n_tokens"] == 7  # the full stop belongs to the word


def test_exact_words_are_those_of_the_tokenizer_of_the_language() -> None:
    text = "L'élève n'a pas fini."
    assert annotate_text(text, words="exact")["n_tokens"] == 5
    assert annotate_text(text, words="exact", tokenizer_language="fr")["n_tokens"] == 7


def test_a_language_without_a_tokenizer_is_told() -> None:
    with pytest.raises(EnvironmentFault, match="words of 'qq' cannot be told"):
        annotate_text("a", words="exact", tokenizer_language="qq")


def test_a_missing_dictionary_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(EnvironmentFault, match=r"rjieba is not installed\n  fix: pip install 'terraplane\[segmentation\]'"):
        annotate_text("的", cjk="segment")


def test_stop_words_are_those_of_the_language_of_the_document() -> None:
    operator = TextSignals({"stop_words": {"de": ["der", "und"], "fr": ["le", "et", "de"]}})
    assert set(operator.reads) == {"text", "language__lang"}
    texts, langs = ["der Hund und der Hut", "le chat et le sac", "the cat and der hat", "der Hund und"], ["de", "fr", "en", None]
    found = operator.annotate(pa.record_batch({"text": pa.array(texts), "language__lang": pa.array(langs)}))
    assert found["stop_words"].to_pylist() == [2, 2, 0, 0]
    assert found["stop_word_share"].to_pylist() == [0.6, 0.6, 0.0, 0.0]


def test_stop_words_of_a_publication_are_named_and_their_lists_are_part_of_the_identity() -> None:
    lists = published_stop_words("fineweb2")
    named, spelled = TextSignals({"stop_words": "fineweb2"}), TextSignals({"stop_words": lists})
    assert named.op_id == spelled.op_id
    assert named.op_id != TextSignals({"stop_words": lists | {"hu": lists["hu"][:-1]}}).op_id
    assert tuple(lists["en"]) == STOP_WORDS
    assert {lang: len(words) for lang, words in lists.items()} == {
        "ar": 19, "da": 20, "de": 15, "el": 21, "en": 8, "fa": 11, "fr": 18, "hi": 11, "hu": 14, "it": 18, "ro": 14, "ru": 22, "sv": 12,
        "zh": 22,
    }  # fmt: skip
    assert [lang for lang, words in lists.items() if len(set(words)) < len(words)] == []


CUT_IN_TWO = {"de": 1, "fr": 2, "it": 1}  # im, as if it were I'm; l' and d': docs/parity.md


@pytest.mark.parametrize("lang", sorted(published_stop_words("fineweb2")))
def test_published_stop_words_are_met_but_for_those_that_the_english_tokenizer_cuts_in_two(lang: str) -> None:
    words = published_stop_words("fineweb2")[lang]
    batch = pa.record_batch({"text": pa.array([" ".join(words), " ".join(words)]), "language__lang": pa.array([lang, "xx"])})
    for rule, unmet in (("paper", 0), ("reference", CUT_IN_TWO.get(lang, 0))):
        found = TextSignals({"stop_words": "fineweb2", "words": rule}).annotate(batch)["stop_words"]
        assert found.to_pylist() == [len(words) - unmet, 0]


def test_stop_words_by_language_keep_to_the_contract() -> None:
    texts = [
        ("der Hund und der Hut von Anna", "de"),
        ("le chat et le sac de la fille", "fr"),
        ("这是一条河，人们在这里生活了很久。", "zh"),
        ("Hat", ""),
    ]
    examples = [Example(text, columns={"language__lang": lang or None}) for text, lang in texts]
    conformance(TextSignals, examples=examples, params={"stop_words": "fineweb2"})


def test_an_unknown_name_of_stop_words_is_refused() -> None:
    with pytest.raises(ParamsError, match="no lists of stop words are called 'finweb2', did you mean 'fineweb2'"):
        TextSignals({"stop_words": "finweb2"})


def test_more_stop_words_than_are_counted_are_refused() -> None:
    with pytest.raises(ParamsError, match="de has 63 words, at most 62 are counted"):
        TextSignals({"stop_words": {"de": [f"w{i}" for i in range(63)]}})


def test_the_signals_of_the_tables_in_the_docs_are_there() -> None:
    rows = re.findall(r"^\| `(?:rps|ccnet|minhash)\w+`.*?\| (.*?) \|$", (ROOT / "docs" / "parity.md").read_text(encoding="utf-8"), re.M)
    named = {name for row in rows for name in re.findall(r"`text_signals\.(\w+)`", row)}
    assert len(rows) >= 40
    assert named - set(TextSignals.writes) == set()
