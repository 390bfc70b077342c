"""Decoding, classes and the fold: against Python's own, and frozen where signatures depend on them."""

import hashlib
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.kernels.unicode import (
    ALPHA,
    DIGIT,
    SPACE,
    classes,
    count_chars,
    decode,
    fold_letters,
    fold_table,
    hash_words,
    letter_hashes,
    previous,
    strip,
    text_buffers,
    words_room,
)


def code_points(octets: bytes) -> list[int]:
    data, at, found = np.frombuffer(octets, np.uint8), 0, []
    while at < len(data):
        code, at = decode(data, at, len(data))
        found.append(int(code))
    return found


def letters(text: str) -> str:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    out, starts = np.empty(len(data), np.int32), np.empty(len(data), np.bool_)
    n, _ = fold_letters(data, offsets[0], offsets[1], fold_table(), classes(), out, starts)
    return "".join(("|" if start else "") + chr(code) for code, start in zip(out[:n].tolist(), starts[:n].tolist(), strict=True))


def word_hashes(text: str) -> list[int]:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    out = np.empty(words_room(offsets), np.uint64)
    return [int(h) for h in out[: hash_words(data, offsets[0], offsets[1], fold_table(), classes(), out)]]


def word_hash(word: str) -> int:
    h = 0x9E3779B185EBCA87
    for char in word:
        h = (h ^ ord(char)) * 0x9E3779B185EBCA87 % 2**64
        h ^= h >> 32
    return h


@given(st.text(max_size=50))
def test_decoding_equals_python(text: str) -> None:
    octets = text.encode()
    assert code_points(octets) == [ord(char) for char in text]
    assert count_chars(np.frombuffer(octets, np.uint8), 0, len(octets)) == len(text)


@given(st.binary(max_size=50))
def test_damaged_bytes_read_as_replacements_and_the_rest_survives(octets: bytes) -> None:
    got = code_points(octets)
    assert len(got) <= len(octets)
    assert all(code <= 0x10FFFF for code in got)
    if got == [0xFFFD] * len(octets) and octets:
        assert all(byte >= 0x80 for byte in octets)


@given(st.text(max_size=20), st.text(st.sampled_from(" \t\n\u3000\u2028\x85"), max_size=5))
def test_stripping_equals_python(text: str, around: str) -> None:
    octets = (around + text + around).encode()
    data = np.frombuffer(octets, np.uint8)
    start, stop = strip(data, 0, len(data), classes())
    assert octets[start:stop].decode() == (around + text + around).strip()


def test_the_previous_character_is_found_from_its_end() -> None:
    data = np.frombuffer("a字𠀀".encode(), np.uint8)
    assert [previous(data, 8, 0), previous(data, 4, 0), previous(data, 1, 0)] == [4, 1, 0]


def test_classes_equal_pythons_predicates_on_every_assigned_character() -> None:
    table = classes()
    chars = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    codes = [ord(char) for char in chars]
    for bit, predicate in ((ALPHA, str.isalpha), (SPACE, str.isspace), (DIGIT, str.isdecimal)):
        want = np.array([predicate(char) for char in chars])
        np.testing.assert_array_equal((table[codes] & bit) != 0, want)


def test_the_fold_never_changes() -> None:
    """Stored signatures and letter hashes rest on this table: a new digest needs a new version of both."""
    assert hashlib.sha256(fold_table().tobytes()).hexdigest()[:32] == "d7c016b997a600011480187643b976ec"


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello, WORLD", "|hello|world"),
        ("ＨＥＬＬＯ　ｗｏｒｌｄ", "|hello|world"),
        ("naïve e\u0301tude", "|naive|etude"),
        ("你好，世界", "|你|好|世|界"),
        ("がか ガ ｶﾞ", "|か|か|カ|カ"),
        ("한국어 모두", "|한국어|모두"),
        ("x²+y_1", "|x2|y|1"),
        ("re\u00adsume zero\u200bwidth", "|resume|zerowidth"),
        ("🙂!?", ""),
    ],
)
def test_folding_keeps_letters_alone(text: str, folded: str) -> None:
    assert letters(text) == folded


@settings(deadline=None)
@given(st.text(max_size=60))
def test_words_are_hashed_as_documented(text: str) -> None:
    want = [word_hash(word) for word in letters(text).split("|")[1:]]
    assert word_hashes(text) == want


@given(st.text(max_size=40))
def test_folding_in_pieces_equals_folding_at_once(text: str) -> None:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    pieces, at = "", int(offsets[0])
    while at < offsets[1]:
        out, starts = np.empty(3, np.int32), np.empty(3, np.bool_)
        n, at = fold_letters(data, at, offsets[1], fold_table(), classes(), out, starts)
        pieces += "".join(map(chr, out[:n].tolist()))
    assert pieces == letters(text).replace("|", "")


def test_letter_hashes_see_letters_and_else_bytes() -> None:
    hashes = letter_hashes(pa.array(["A b-C", "abc", "ABD", "!!", "??", "", None], pa.large_string()))
    keys = [tuple(row) for row in hashes.tolist()]
    assert keys[0] == keys[1]
    assert keys[5] == keys[6]
    assert len(set(keys)) == 5
