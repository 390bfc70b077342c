"""Filters of datatrove as an operator: the decisions are those of the filter, and what cannot be one is refused with its fix."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.annotators.datatrove import Datatrove
from dataplane.errors import EnvironmentFault, ParamsError
from dataplane.testing import Example, conformance

pytest.importorskip("datatrove", reason="datatrove is not installed: pip install 'terraplane[datatrove]'")

from datatrove.data import Document
from datatrove.pipeline import filters
from datatrove.pipeline.filters.base_filter import BaseFilter

ENGLISH = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep with the others that have come. "
SPLITTERS = ["GopherQualityFilter", "GopherRepetitionFilter", "FineWebQualityFilter", "C4QualityFilter"]  # they load spaCy
FILTERS = ["C4ParagraphFilter", "RegexFilter", *(pytest.param(name, marks=pytest.mark.slow) for name in SPLITTERS)]
ARGUMENTS: dict[str, dict[str, Any]] = {"RegexFilter": {"regex_exp": "lazy"}}


def documents() -> Iterator[str]:
    """Texts that between them reach most of the rules."""
    words = ENGLISH.split()
    for repeats in (1, 2, 5, 40):
        yield ENGLISH * repeats
        yield "\n".join([ENGLISH, *words] * repeats)
        yield "\n".join([ENGLISH * 3] * repeats)
    yield "\n".join(" ".join(words[i:] + words[:i]) + f" {i}." for i in range(len(words)))
    yield from ("", "\n", "# # # #", "- a\n" * 60, "wait... " * 80, "{lorem ipsum}", "中文。" * 60, "x" * 3000)


class OnAddress(BaseFilter):
    """A filter of somebody else, in batches of two: drops documents of one site, and says in which batch."""

    def __init__(self, site: str) -> None:
        super().__init__(batch_size=2)
        self.site = site

    def filter(self, doc: Document) -> bool:
        raise NotImplementedError

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        return [(False, f"one of {len(batch)}") if self.site in doc.metadata.get("url", "") else True for doc in batch]


def batch(texts: list[str], urls: list[str | None]) -> pa.RecordBatch:
    operator = Datatrove()
    columns = {"text": texts, "url": urls, "doc_id": [f"{i:032x}" for i in range(len(texts))]}
    other = ["test"] * len(texts)
    return pa.record_batch({name: pa.array(columns.get(name, other), kind) for name, kind in operator.reads.items()})


def reasons(texts: list[str], urls: list[str | None], *filters: Mapping[str, Any]) -> list[list[str]]:
    operator = Datatrove({"filters": list(filters)})
    operator.open()
    found: list[list[str]] = operator.annotate(batch(texts, urls))["reasons"].to_pylist()
    return found


def asked_directly(name: str, texts: list[str]) -> list[list[str]]:
    """What the filter itself says of the documents."""
    made = getattr(filters, name)(**ARGUMENTS.get(name, {}))
    answers = [made.filter(Document(text, "")) for text in texts]
    pairs = [answer if isinstance(answer, tuple) else (answer, None) for answer in answers]
    return [[] if kept else [f"{name}: {reason}" if reason else name] for kept, reason in pairs]


@pytest.mark.parametrize("name", FILTERS)
def test_the_decisions_are_those_of_the_filter(name: str) -> None:
    texts = list(documents())
    expected = asked_directly(name, texts)
    assert [] in expected
    assert len(set(map(tuple, expected))) > 1  # some are kept, some are dropped
    assert reasons(texts, [None] * len(texts), {"filter": name, "arguments": ARGUMENTS.get(name, {})}) == expected


def test_a_filter_of_somebody_else_gets_the_address_and_batches_of_its_size() -> None:
    use = {"filter": f"{__name__}.OnAddress", "arguments": {"site": "bad.example"}}
    urls = ["http://bad.example/", None, "http://fine.example/", "http://bad.example/2", "http://bad.example/3"]
    assert reasons([ENGLISH] * 5, urls, use) == [["OnAddress: one of 2"], [], [], ["OnAddress: one of 2"], ["OnAddress: one of 1"]]


@pytest.mark.slow
def test_several_filters_each_see_the_whole_document() -> None:
    text = ENGLISH * 3 + "\nno stop here\n" + "word " * 40  # C4 would leave one line of it
    both = [
        {"filter": "C4QualityFilter", "arguments": {"min_num_sentences": 1}},
        {"filter": "RegexFilter", "arguments": {"regex_exp": "no stop"}},
    ]
    assert reasons([text, ENGLISH], [None, None], *both) == [["RegexFilter"], []]


@pytest.mark.slow
def test_arguments_reach_the_filter() -> None:
    use = {"filter": "datatrove.pipeline.filters.GopherQualityFilter", "arguments": {"min_doc_words": 5}}
    assert reasons([ENGLISH], [None], use) == [[]]
    assert reasons([ENGLISH], [None], {"filter": "GopherQualityFilter"}) == [["GopherQualityFilter: gopher_short_doc"]]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ({"filter": "GopherQuality"}, "there is no filter 'GopherQuality'"),
        ({"filter": "no_such_package.Filter"}, "there is no filter 'no_such_package.Filter'"),
        ({"filter": "pathlib.Path"}, "'pathlib.Path' is no filter of datatrove"),
        ({"filter": "datatrove.pipeline.filters.base_filter.BaseFilter"}, "is no filter of datatrove"),
        ({"filter": "datatrove.pipeline.filters.base_filter.get_filter_result"}, "is no filter of datatrove"),
        ({"filter": "GopherQualityFilter", "arguments": {"min_words": 5}}, "unexpected keyword argument 'min_words'"),
        ({"filter": "SamplerFilter", "arguments": {"seed": 1}}, "it draws at random"),
        ({"filter": "C4BadWordsFilter", "arguments": {"keep_fraction": 0.5}}, "it draws at random"),
    ],
)
def test_what_is_no_filter_is_refused(use: dict[str, Any], said: str) -> None:
    with pytest.raises(ParamsError, match=said):
        Datatrove({"filters": [use]}).open()


def test_no_filter_is_a_fault_of_the_params() -> None:
    with pytest.raises(ParamsError, match="no filter is named"):
        Datatrove().open()


def test_without_datatrove_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "datatrove"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datatrove", None)
    with pytest.raises(EnvironmentFault, match=r"pip install 'terraplane\[datatrove\]'"):
        Datatrove({"filters": [{"filter": "GopherQualityFilter"}]}).open()


def test_another_release_of_a_filter_is_another_operator() -> None:
    operator = Datatrove({"filters": [{"filter": "GopherQualityFilter"}, {"filter": "C4QualityFilter"}, {"filter": "C4ParagraphFilter"}]})
    assert [path.name for path in operator.files()] == ["c4_filters.py", "gopher_quality_filter.py"]


@pytest.mark.slow
def test_it_conforms() -> None:
    params = {"filters": [{"filter": "GopherQualityFilter"}, {"filter": "RegexFilter", "arguments": {"regex_exp": "pills"}}]}
    conformance(Datatrove, examples=[Example(ENGLISH * 9), Example("short", {"dropped_by_datatrove"})], params=params)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITTERS)
def test_the_decisions_are_those_of_the_filter_on_real_documents(name: str, shared_data: Path) -> None:
    path = shared_data / "quality" / "dclm_human" / "majority_minus_agreement.jsonl"
    texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert reasons(texts, [None] * len(texts), {"filter": name}) == asked_directly(name, texts)
