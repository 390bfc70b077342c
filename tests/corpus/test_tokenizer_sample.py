"""The text that a tokenizer is trained on: the start of the mixture, or shares of its own within a budget."""

import pyarrow as pa
import pytest

from dataplane.corpus.tokenizer_sample import SampleParams, start, weighted
from dataplane.errors import ParamsError


def params(**values: object) -> SampleParams:
    return SampleParams.parse(values, where="tokenizer.sample")


def documents() -> pa.Table:
    """200 documents of code, 100 of text in English and 40 in Chinese, 1,000 bytes each."""
    kinds = ["code"] * 200 + ["text"] * 140
    languages = [None] * 200 + ["en"] * 100 + ["zh"] * 40
    n = len(kinds)
    columns = {
        "doc_id": [f"{i:032x}" for i in range(n)], "source": ["s"] * n, "kind": kinds, "n_bytes": [1000] * n, "language__lang": languages,
    }  # fmt: skip
    return pa.table(columns)


def test_the_start_of_the_mixture_is_taken_within_its_bytes() -> None:
    mixture = pa.table({"doc_id": ["c", "a", "b", "a"], "position": [2, 0, 1, 3]})
    sizes = pa.table({"doc_id": ["a", "b", "c"], "n_bytes": [10, 20, 30]})
    taken = [start(mixture, sizes, n).to_pylist() for n in (5, 35, 60, 1000)]
    assert taken == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "a"]]


@pytest.mark.parametrize(
    ("by", "asked", "counts"),
    [
        ("kind", {"targets": {"code": 1, "text": 3}}, {"code": 20, "text": 60}),
        ("language.lang", {"targets": {"zh": 1}, "rest": 1}, {"zh": 40, "en": 13, "": 27}),
        ("CASE WHEN kind = 'code' THEN 'code' ELSE language.lang END", {"temperature": 1e9}, {"code": 27, "en": 27, "zh": 27}),
        ("kind", {"replay": {"code": 0.25}}, {"code": 20, "text": 60}),
    ],
)
def test_groups_get_the_bytes_asked_for(by: str, asked: dict[str, object], counts: dict[str, int]) -> None:
    found = weighted(documents(), params(by=by, **asked), 80_000)
    assert {group.name: round(group.taken / 1000) for group in found.plan.groups} == counts
    assert abs(found.plan.total - 80_000) <= 1000
    assert found.plan.largest_gap < 0.01


def test_a_small_group_is_repeated_as_often_as_allowed_and_is_told_to_run_short() -> None:
    found = weighted(documents(), params(by="language.lang", targets={"zh": 9, "en": 1}, rest=0, max_epochs=2), 200_000)
    assert {group.name: (group.taken, group.short) for group in found.plan.groups} == {
        "": (0.0, False), "en": (20_000.0, False), "zh": (80_000.0, True),
    }  # fmt: skip


def test_no_more_is_taken_than_there_is_and_the_order_of_the_documents_does_not_matter() -> None:
    table = documents()
    whole = weighted(table, params(by="kind"), 10**9).table.column("doc_id").to_pylist()
    assert sorted(whole) == table.column("doc_id").to_pylist()
    asked = params(by="kind", targets={"code": 1, "text": 1})
    turned = table.take(list(range(len(table)))[::-1])
    assert weighted(table, asked, 50_000).table == weighted(turned, asked, 50_000).table


def test_faults_name_the_params_of_the_tokenizer() -> None:
    with pytest.raises(ParamsError, match=r"tokenizer\.sample\.targets: target 'tekst' is no kind .*did you mean 'text'"):
        weighted(documents(), params(by="kind", targets={"tekst": 1}), 1000)
    with pytest.raises(ParamsError, match=r"tokenizer\.sample\.by: 'kinds'"):
        weighted(documents(), params(by="kinds"), 1000)
    with pytest.raises(ParamsError, match="need `by`"):
        params(targets={"zh": 1})
