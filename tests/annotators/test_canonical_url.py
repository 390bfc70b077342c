"""Addresses in one spelling: what makes no difference is gone, what does stays, and what is no address is null."""

from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.annotators.canonical_url import CanonicalUrl
from dataplane.testing import Example, conformance

SAFE = st.text("abcXYZ019-._~", min_size=1, max_size=6)
QUERIES = st.lists(st.tuples(SAFE, SAFE), max_size=5)


def signals(*urls: str | None, **params: object) -> list[dict[str, str | None]]:
    operator = CanonicalUrl(params)
    operator.open()
    return pa.record_batch(operator.annotate(pa.record_batch({"url": pa.array(urls, pa.string())}))).to_pylist()


def canonical(*urls: str | None, **params: object) -> list[str | None]:
    return [row["url"] for row in signals(*urls, **params)]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        # RFC 3986, 6.2.2 and 6.2.3: case, percent-encoding, dot segments, default port, empty path.
        ("HTTPS://Example.COM/", "https://example.com/"),
        ("https://example.com/%7efoo/%2fbar", "https://example.com/~foo/%2Fbar"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com:443", "https://example.com/"),
        ("https://example.com:8080/x", "https://example.com:8080/x"),
        ("http://www.example.com:80/x", "https://example.com/x"),
        ("http://example.com:443/x", "https://example.com/x"),
        ("example.com/x", "https://example.com/x"),
        ("//example.com/x", "https://example.com/x"),
        ("https://user:word@example.com./x", "https://example.com/x"),
        ("https://example.com/x?b=2&a=1&utm_source=news&FBCLID=9#part", "https://example.com/x?a=1&b=2"),
        ("https://example.com/x;jsessionid=0A1B?a=", "https://example.com/x?a="),
        ("https://example.com/x?&&a=1&", "https://example.com/x?a=1"),
        ("https://example.com/#!/page/1", "https://example.com/#!/page/1"),
        ("https://例子.中国/路径?q=中文", "https://xn--fsqu00a.xn--fiqs8s/%E8%B7%AF%E5%BE%84?q=%E4%B8%AD%E6%96%87"),
        ("https://xn--fsqu00a.xn--fiqs8s/%e8%b7%af%e5%be%84", "https://xn--fsqu00a.xn--fiqs8s/%E8%B7%AF%E5%BE%84"),
        ("http://[::1]:80/a", "https://[::1]/a"),
        ("ftp://example.com:21/a", "ftp://example.com/a"),
        # What can be another page.
        ("https://example.com/A/", "https://example.com/A/"),
        ("https://example.com//a", "https://example.com//a"),
        ("https://www.com/", "https://www.com/"),
    ],
)
def test_an_address_is_written_in_one_way(url: str, expected: str) -> None:
    assert canonical(url, expected) == [expected, expected]


@pytest.mark.parametrize(
    "url",
    [None, "", "/path", "mailto:a@example.com", "http://[bad", "http://exa mple.com", "http://example.com:99999/", "https://", "x" * 5000],
)
def test_what_is_no_address_is_null(url: str | None) -> None:
    assert signals(url) == [{"url": None, "host": None, "domain": None}]


@pytest.mark.parametrize(
    ("url", "host", "domain"),
    [
        ("http://www.news.example.co.uk/x", "news.example.co.uk", "example.co.uk"),
        ("http://mine.blogspot.com/x", "mine.blogspot.com", "mine.blogspot.com"),
        ("http://www.gov.cn/x", "www.gov.cn", "www.gov.cn"),
        ("http://192.168.0.1/x", "192.168.0.1", None),
        ("http://localhost/x", "localhost", None),
    ],
)
def test_the_domain_is_what_lies_below_the_public_suffix(url: str, host: str, domain: str | None) -> None:
    assert [(row["host"], row["domain"]) for row in signals(url)] == [(host, domain)]


def test_what_makes_no_difference_can_be_chosen() -> None:
    url = "http://www.example.com/x?utm_source=a&ref=b"
    assert canonical(url, same_scheme=False, drop_www=False, drop_query=["ref"]) == ["http://www.example.com/x?utm_source=a"]


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_a_canonical_address_of_anything_is_its_own(urls: list[str]) -> None:
    once = canonical(*urls, *(f"http://{url}" for url in urls))
    assert canonical(*once) == once


@given(path=SAFE.filter(lambda path: path.strip(".")), query=QUERIES)
def test_path_and_query_say_the_same_as_before(path: str, query: list[tuple[str, str]]) -> None:
    url = f"https://example.com/{path}?{'&'.join(f'{name}={value}' for name, value in query)}"
    (made,) = canonical(url, drop_query=[])
    assert urlsplit(made).path == f"/{path}"
    assert parse_qsl(urlsplit(made).query) == sorted(query)


@pytest.mark.slow
def test_it_conforms() -> None:
    conformance(
        CanonicalUrl,
        examples=[Example("a", columns={"url": "HTTP://www.Example.com/?b&a"}), Example("b"), Example("c", columns={"url": "no"})],
    )
