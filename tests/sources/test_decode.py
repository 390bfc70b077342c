"""Bytes to text: the right charset by mark, validity, declaration and detection; never an exception."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.sources.decode import decode

CHINESE = "春江水暖鸭先知，竹外桃花三两枝。" * 8
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 5
FRENCH = "L'été dernier, « nous » avons mangé des crêpes à la crème – c’était très bon. " * 5
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 4


@given(st.text())
def test_valid_utf8_is_returned_as_it_is(text: str) -> None:
    found = decode(text.encode(), "text/plain", "iso-8859-1")
    assert (found.text, found.replaced) == (text.removeprefix("\ufeff"), 0)


@given(
    st.binary(max_size=300), st.sampled_from([None, "utf-8", "gb2312", "nonsense", "rot13", "base64"]), st.sampled_from([None, "text/html"])
)
def test_nothing_raises(payload: bytes, charset: str | None, mime: str | None) -> None:
    found = decode(payload, mime, charset)
    found.text.encode()
    assert found.replaced >= 0


@pytest.mark.parametrize("name", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_decides(name: str) -> None:
    mark = codecs.BOM_UTF16_BE if name == "utf-16-be" else b""
    found = decode(mark + CHINESE.encode(name), None, "iso-8859-1")
    assert (found.text, found.how) == (CHINESE, "bom")


@pytest.mark.parametrize(
    ("text", "encoding", "label"),
    [
        (CHINESE, "gb18030", "gb2312"),
        (CHINESE, "gbk", "GBK"),
        (CHINESE.replace("鸭", "鴨").replace("竹", "竹"), "big5hkscs", None),
        (FRENCH, "cp1252", "ISO-8859-1"),
        (RUSSIAN, "cp1251", "windows-1251"),
        (JAPANESE, "cp932", "Shift_JIS"),
        (JAPANESE, "euc_jp", "euc-jp"),
    ],
)
def test_declared_labels_mean_what_they_mean_on_the_web(text: str, encoding: str, label: str | None) -> None:
    payload = text.encode(encoding, "ignore")
    found = decode(payload, "text/plain", label or encoding)
    assert (found.text, found.how, found.replaced) == (payload.decode(encoding), "declared", 0)


@pytest.mark.parametrize(
    ("text", "encoding"), [(CHINESE, "gb18030"), (JAPANESE, "cp932"), (JAPANESE, "euc_jp"), (RUSSIAN, "cp1251"), (RUSSIAN, "koi8-r")]
)
def test_charsets_are_detected_where_nothing_is_declared(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding), None, None)
    assert (found.text, found.how) == (text, "detected")


def test_a_page_declares_its_own_charset() -> None:
    page = f'<html><head><meta http-equiv="Content-Type" content="text/html; charset=gb2312"></head><body>{CHINESE[:20]}</body></html>'
    found = decode(page.encode("gb18030"), "text/html", None)
    assert (found.text, found.how) == (page, "meta")


def test_undecodable_bytes_are_counted() -> None:
    found = decode(b"plain text with \xff\xff two bad bytes", None, "utf-8")
    assert found.text.startswith("plain text with ")


def test_mars_in_many_languages_and_encodings(shared_data) -> None:
    folder = shared_data / "encoding" / "wikipedia_mars"
    files = [path for path in folder.rglob("*") if path.is_file()]
    if not files:
        pytest.skip("no files")
    assert all(decode(path.read_bytes(), "text/html", None).text for path in files)
