"""The operator url_blocklist: categories of a document's address, the rule, and what it says where there is no list."""

from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.url_blocklist import UrlBlocklist
from dataplane.errors import ModelMissing, ParamsError
from dataplane.kernels.url_blocklist import compile_list
from dataplane.testing import Example, conformance


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    for category, domain in (("adult", "bad.example"), ("press", "paper.example")):
        (tmp_path / "ut1" / category).mkdir(parents=True)
        (tmp_path / "ut1" / category / "domains").write_text(f"{domain}\n")
    return tmp_path / "ut1"


def signals(path: Path) -> list[list[str]]:
    operator = UrlBlocklist({"path": str(path)})
    operator.open()
    urls = pa.array(["http://www.bad.example/x", None, "http://paper.example", "http://fine.example"])
    return operator.annotate(pa.record_batch({"url": urls}))["categories"].to_pylist()


def test_a_folder_and_what_was_compiled_of_it_give_the_same(lists: Path, tmp_path: Path) -> None:
    compile_list(lists).save(tmp_path / "compiled")
    assert signals(lists) == signals(tmp_path / "compiled") == [["adult"], [], ["press"], []]


def test_the_rule_takes_all_categories_or_those_named() -> None:
    assert UrlBlocklist().rules() == {"blocked_url": "len(url_blocklist.categories) > 0"}
    named = UrlBlocklist({"block": ["adult", "gambling"]}).rules()
    assert named == {"blocked_url": "list_has_any(url_blocklist.categories, ['adult', 'gambling'])"}


@pytest.mark.parametrize("block", [[], ["adult"]])
def test_it_conforms(lists: Path, block: list[str]) -> None:
    examples = [
        Example("a", {"blocked_url"}, {"url": "http://bad.example/"}),
        Example("b", columns={"url": "http://x.example"}),
        Example("c"),
    ]
    conformance(UrlBlocklist, examples=examples, params={"path": str(lists), "block": block})


def test_a_list_that_is_not_there_is_named_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="UT1"):
        UrlBlocklist().files()
    with pytest.raises(ModelMissing, match="no block list"):
        UrlBlocklist({"path": str(tmp_path)}).open()
