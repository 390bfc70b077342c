"""Addresses against a block list: domains above the host, beginnings of paths, and the same answer as a plain search."""

from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import DataError, ModelMissing
from dataplane.kernels.url_blocklist import KEYS, BlockList, compile_list


def write(folder: Path, **categories: dict[str, list[str]]) -> Path:
    for category, lists in categories.items():
        (folder / category).mkdir(parents=True, exist_ok=True)
        for name, entries in lists.items():
            (folder / category / name).write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return folder


def categories(block_list: BlockList, *urls: str | None) -> list[list[str]]:
    bounds, found = block_list.lookup(pa.array(urls, pa.string()))
    return [[block_list.categories[i] for i in found[bounds[row] : bounds[row + 1]]] for row in range(len(urls))]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write(
        tmp_path / "ut1",
        adult={"domains": ["bad.example", "both.example", "# no entry", ""], "urls": ["host.example/sex", "www.site.example/a/b/"]},
        gambling={"domains": ["both.example", "Casino.Example", "1.2.3.4"]},
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://bad.example", ["adult"]),
        ("https://www.bad.example/page?x=1", ["adult"]),
        ("https://a.b.BAD.example:8080/", ["adult"]),
        ("http://user:word@bad.example./x", ["adult"]),
        ("bad.example/x", ["adult"]),
        ("//bad.example", []),  # no scheme: read as a path
        ("http://notbad.example", []),
        ("http://bad.example.org", []),
        ("http://example", []),
        ("http://other.example/?to=http://bad.example", []),
        ("http://both.example", ["adult", "gambling"]),
        ("http://casino.example#bad", ["gambling"]),
        ("http://1.2.3.4/x", ["gambling"]),
        ("http://host.example/sex", ["adult"]),
        ("http://host.example/sex/more.html", ["adult"]),
        ("http://host.example/sex?page=2", ["adult"]),
        ("http://host.example/sex#top", ["adult"]),
        ("http://host.example/sextant", []),
        ("http://host.example/", []),
        ("http://site.example/a/b/c", ["adult"]),
        ("http://site.example/a/", []),
        ("", []),
        (None, []),
        ("http://", []),
        ("http://" + "a." * 5000 + "bad.example", []),
    ],
)
def test_an_address_is_in_the_categories_of_its_host_and_path(lists: Path, url: str | None, expected: list[str]) -> None:
    assert categories(compile_list(lists), url) == [expected]


LABELS = st.sampled_from(["a", "b", "www", "com"])
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


@given(st.lists(HOSTS, min_size=1, max_size=5), st.lists(HOSTS, max_size=5))
def test_domains_are_found_as_by_a_plain_search(tmp_path_factory: pytest.TempPathFactory, blocked: list[str], hosts: list[str]) -> None:
    block_list = compile_list(write(tmp_path_factory.mktemp("lists"), bad={"domains": blocked}))
    entries = {stripped(domain) for domain in blocked}
    expected = [["bad"] if any(suffix in entries for suffix in suffixes(stripped(host))) else [] for host in hosts]
    assert categories(block_list, *(f"http://{host}/p" for host in hosts)) == expected


def stripped(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "").removeprefix("www.")


def suffixes(host: str) -> list[str]:
    labels = host.split(".")
    return [".".join(labels[i:]) for i in range(len(labels))]


def test_a_compiled_list_is_mapped_and_answers_the_same(lists: Path, tmp_path: Path) -> None:
    compile_list(lists).save(tmp_path / "compiled")
    loaded = BlockList.load(tmp_path / "compiled")
    assert isinstance(loaded.keys, np.memmap)
    assert categories(loaded, "http://x.bad.example/", "http://fine.example") == [["adult"], []]


def test_a_list_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 categories"):
        compile_list(tmp_path)
    with pytest.raises(DataError, match="no entry"):
        compile_list(write(tmp_path / "empty", adult={"domains": ["# nothing"]}))
    with pytest.raises(ModelMissing, match="compile-blocklist"):
        BlockList.load(tmp_path / "absent")
    compile_list(write(tmp_path / "full", adult={"domains": ["a.example", "b.example"]})).save(tmp_path / "damaged")
    np.save(tmp_path / "damaged" / KEYS, np.array([2, 1], np.uint64))
    with pytest.raises(ModelMissing, match="not sorted"):
        BlockList.load(tmp_path / "damaged")
