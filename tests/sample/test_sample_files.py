from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dataplane.sample import files

MEMBERS = st.dictionaries(st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.txt", fullmatch=True), st.binary(max_size=200), max_size=5)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=80)


@given(st.binary(max_size=2_000))
def test_compression_loses_nothing(data: bytes) -> None:
    unpacked = [gzip.decompress(files.gz(data)), bz2.decompress(files.bzip2(data)), lzma.decompress(files.xz(data))]
    assert [*unpacked, zstandard.ZstdDecompressor().decompress(files.zst(data))] == [data] * 4


def test_gzip_carries_no_time() -> None:
    assert files.gz(b"text")[4:8] == bytes(4)


@given(MEMBERS)
def test_archives_hold_their_members_in_order_and_nothing_of_the_machine(members: dict[str, bytes]) -> None:
    shuffled = dict(reversed(list(members.items())))
    assert (files.tar(members), files.zipped(members)) == (files.tar(shuffled), files.zipped(shuffled))
    with tarfile.open(fileobj=io.BytesIO(files.tar(members))) as archive:
        read = [(each.name, archive.extractfile(each).read(), each.mtime, each.uid, each.uname) for each in archive]
    assert read == [(path, members[path], 0, 0, "") for path in sorted(members)]
    with zipfile.ZipFile(io.BytesIO(files.zipped(members))) as archive:
        read = [(each.filename, archive.read(each), each.date_time) for each in archive.infolist()]
    assert read == [(path, members[path], files.ZIP_EPOCH) for path in sorted(members)]


@given(st.lists(st.dictionaries(TEXTS, TEXTS, max_size=3), max_size=5))
def test_json_lines_are_one_object_a_line(rows: list[dict[str, str]]) -> None:
    lines = files.jsonl(rows).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == rows


@given(TEXTS, st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_larger_fraction_keeps_what_a_smaller_one_keeps(key: str, one: float, other: float) -> None:
    smaller, larger = sorted((one, other))
    assert files.keeper(larger)(key) or not files.keeper(smaller)(key)
    assert files.keeper(1.0)(key)


def test_a_fraction_keeps_about_that_share() -> None:
    kept = sum(map(files.keeper(0.1), map(str, range(20_000))))
    # Five standard deviations of a binomial with n = 20,000 and p = 0.1.
    assert abs(kept - 2_000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5
