"""Bytes to text: the right charset by mark, validity, declaration and detection; never an exception."""

import codecs
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.sources.decode import decode, python_name

CHINESE = "春江水暖鸭先知，竹外桃花三两枝。" * 8
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 5
FRENCH = "L'été dernier, « nous » avons mangé des crêpes à la crème – c’était très bon. " * 5
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 4


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
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


@pytest.mark.parametrize(
    ("payload", "text", "replaced"),
    [
        (CHINESE.encode()[:-1], CHINESE[:-1] + "\ufffd", 1),
        (CHINESE.encode()[1:], "\ufffd\ufffd" + CHINESE[1:], 2),
        (CHINESE.encode() + b"\xe9 x", CHINESE + "\ufffd x", 1),
        (FRENCH.encode() + b"\xe9 x", FRENCH + "\ufffd x", 1),
    ],
)
@pytest.mark.parametrize("label", [None, "utf-8", "gbk", "windows-1252"])
def test_utf8_with_a_stray_byte_or_a_cut_end_is_no_mojibake(payload: bytes, text: str, replaced: int, label: str | None) -> None:
    found = decode(payload, "text/plain", label)
    assert (found.text, found.charset, found.replaced) == (text, "utf-8", replaced)


@pytest.mark.parametrize("declared", [None, "utf-16", "utf-16-be", "utf-32"])
def test_a_page_of_single_bytes_is_not_read_as_utf_16_whatever_it_says(declared: str | None) -> None:
    page = f"<meta charset=utf-16><p>{FRENCH}</p>".encode("cp1252")
    for payload in (page, page + b" "):
        assert decode(payload, "text/html", declared).text[:22] == "<meta charset=utf-16><"


def test_utf_16_without_a_mark_is_read_as_declared() -> None:
    text = CHINESE + "\n" + FRENCH
    assert decode(text.encode("utf-16-le"), "text/plain", "utf-16le").text == text


@pytest.mark.parametrize(("encoding", "label"), [("iso2022_jp", "iso-2022-jp"), ("hz", "hz-gb-2312")])
@pytest.mark.parametrize("declared", [True, False])
def test_charsets_of_seven_bits_are_seen_although_they_are_valid_utf8(encoding: str, label: str, declared: bool) -> None:
    text = JAPANESE if encoding == "iso2022_jp" else CHINESE
    assert decode(text.encode(encoding), "text/plain", label if declared else None).text == text


def test_what_only_looks_like_an_escape_is_utf8() -> None:
    text = "a home ~{ dir ~} and \x1b[0m code $(x)"
    found = decode(text.encode(), "text/plain", None)
    assert (found.text, found.how) == (text, "utf8")


@pytest.mark.parametrize("label", ["rot13", "utf-7", "idna", "punycode", "x" * 10_000, "\0", "é", "", None])
def test_what_is_no_charset_of_documents_has_no_name(label: str | None) -> None:
    assert python_name(label) is None


def test_mars_is_read_from_every_unicode_encoding_as_from_utf8(shared_data: Path) -> None:
    """The article in 18 languages: UTF-8 against UTF-16, Latin-1 against its own conversion to UTF-8."""
    with tarfile.open(shared_data / "encoding/wikipedia_mars/wikipedia_mars.tar.xz") as archive:
        members = {member.name.rpartition("/")[2]: archive.extractfile(member) for member in archive if member.isfile()}
        texts = {name: decode(file.read(), "text/plain", None).text for name, file in members.items() if file}
    languages = sorted(name.partition(".")[0] for name in texts if name.endswith(".utf16.txt"))
    assert len(languages) == 18
    assert [name for name in languages if texts[f"{name}.utf16.txt"].strip() != texts[f"{name}.utf8.txt"].strip()] == []
    assert [name for name in ("german", "portuguese") if texts[f"{name}.latin1.txt"] != texts[f"{name}.utflatin8.txt"]] == []


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        ("chinese", "gb18030"), ("japanese", "cp932"), ("japanese", "euc_jp"), ("korean", "cp949"), ("russian", "koi8-r"),
        ("greek", "cp1253"), ("arabic", "cp1256"), ("thai", "cp874"), ("french", "cp1252"), ("vietnamese", "cp1258"),
    ],
)  # fmt: skip
def test_mars_in_the_charsets_of_its_languages_is_read_as_declared(shared_data: Path, language: str, encoding: str) -> None:
    with tarfile.open(shared_data / "encoding/wikipedia_mars/wikipedia_mars.tar.xz") as archive:
        file = archive.extractfile(f"wikipedia_mars/{language}.utf8.txt")
        payload = (file.read() if file else b"").decode("utf-8-sig").encode(encoding, "ignore")
    assert len(payload) > 10_000
    found = decode(payload, "text/plain", encoding)
    assert (found.text, found.how) == (payload.decode(encoding), "declared")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("label", [None, "utf-8"])
def test_undeclared_french_is_read_as_the_web_wrote_it(encoding: str, label: str | None) -> None:
    text = FRENCH.encode(encoding, "ignore").decode(encoding)
    assert decode(text.encode(encoding), None, label).text == text


@pytest.mark.parametrize(("text", "encoding"), [(RUSSIAN, "koi8-r"), (RUSSIAN, "cp1251"), (CHINESE, "gb18030"), (JAPANESE, "cp932")])
def test_latin_1_that_a_server_declares_of_anything_is_not_believed(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding), "text/plain", "iso-8859-1")
    assert (found.text, found.how) == (text, "detected")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", [FRENCH, RUSSIAN, CHINESE + "\n"])
def test_wide_charsets_without_a_mark_are_seen_by_their_nuls(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), None, None).text == text


@pytest.mark.parametrize("text", ["hello\0world, " * 20 + CHINESE, "hello\0world, " * 20, "hell\0world" * 20, "plainnn\0" * 20])
def test_a_few_nuls_in_utf8_do_not_make_it_utf_16(text: str) -> None:
    assert decode(text.encode(), None, None).text == text
