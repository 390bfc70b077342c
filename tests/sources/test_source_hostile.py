"""Hostile files: their faults are few, their neighbours are read, and what is read is found again."""

import gzip
import io
import json
import random
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from test_source_formats import FORMATS, WRAPPINGS, put, read

from dataplane.errors import SourceError
from dataplane.sources.decode import decode
from dataplane.sources.files import expand, parse_specs
from dataplane.sources.locator import read_payload

N_MUTATIONS = 150


def errors(faults: list[dict]) -> list[str]:
    return [fault["error"] for fault in faults]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_raise_nothing_and_what_is_read_is_found_again(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    built = [(name + suffix, wrap(name, data)) for name, data, _ in (make() for make in FORMATS) for suffix, (wrap, _) in WRAPPINGS.items()]
    for i in range(N_MUTATIONS):
        name, data = random_.choice(built)
        damaged = bytearray(data[: random_.randrange(len(data)) if random_.random() < 0.3 else len(data)])
        for _ in range(random_.choice([0, 1, 3, 30]) if damaged else 0):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        root = tmp_path / str(i)
        put(root, name, bytes(damaged))
        raw, _, specs = read(root)
        for row in raw[:3]:
            assert read_payload(root, row, specs) == row["payload"]


def test_a_cut_zstd_file_is_told_from_a_whole_one(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": str(i)}).encode() + b"\n" for i in range(50_000))
    frames = zstandard.compress(rows) + zstandard.compress(rows[:1000])
    put(tmp_path, "a.jsonl.zst", frames[: len(zstandard.compress(rows)) // 2])
    raw, faults, _ = read(tmp_path)
    assert [row["payload"] for row in raw] == [str(i).encode() for i in range(len(raw))]
    assert (0 < len(raw) < 50_000, errors(faults)) == (True, ["EOFError"])


def test_layers_of_compression_share_one_bound(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(4):
            archive.writestr(f"{i}.txt.gz", gzip.compress(b"0" * (40 << 20)))
    put(tmp_path, "a.zip", sink.getvalue())
    raw, faults, _ = read(tmp_path)
    assert (len(raw), errors(faults)) == (1, ["SourceError"] * 3)


def test_a_second_member_of_one_name_is_put_aside(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for data in (b'{"text": "a"}\n', b'{"text": "long"}\n{"text": "b"}\n'):
            info = tarfile.TarInfo("x.jsonl")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    put(tmp_path, "a.tar", sink.getvalue())
    raw, faults, _ = read(tmp_path)
    assert ([row["payload"] for row in raw], errors(faults)) == ([b"a"], ["DoubledMember"])


def test_a_member_whose_name_is_no_text_is_put_aside(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        for name in ("caf\xe9.txt", "plain.txt"):
            info = tarfile.TarInfo(name)
            info.size = 2
            archive.addfile(info, io.BytesIO(b"ab"))
    put(tmp_path, "a.tar", sink.getvalue())
    raw, faults, _ = read(tmp_path)
    assert ([row["member"] for row in raw], errors(faults)) == (["plain.txt"], ["BadName"])


def test_an_empty_stream_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl.gz", gzip.compress(b""))
    _, faults, _ = read(tmp_path)
    assert errors(faults) == ["NoRecords"]


def test_faults_of_a_file_that_is_no_json_lines_are_few(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", b"not json\n" * 100_000)
    put(tmp_path, "b.jsonl", b"short\nbinary \0\n" + b"\0\n" * 100_000)
    _, faults, _ = read(tmp_path)
    assert errors(faults) == ["NotJson"] * 100 + ["NotJsonLines", "NotJson", "Binary", "NotJsonLines"]


def test_a_line_one_byte_too_long_costs_no_other(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", b'{"text": "abcdefgh"}\n{"text": "b"}\n')
    raw, faults, _ = read(tmp_path, options={"max_bytes": 20})
    assert ([row["payload"] for row in raw], errors(faults)) == ([b"b"], ["TooLarge"])


def test_numbers_that_json_does_not_have_stay_out_of_meta(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", b'{"text": "a", "x": NaN, "y": 1e999, "z": 1.5}\n')
    (row,), _, _ = read(tmp_path)
    assert json.loads(row["meta"]) == {"z": 1.5}


def test_a_parquet_row_that_is_no_utf8_costs_itself_alone(tmp_path: Path) -> None:
    text = pa.array([b"one", b"\xff\xfe", b"three"]).view(pa.string())
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": text, "when": pa.array([1, 2, 3], pa.timestamp("ns"))}), sink)
    put(tmp_path, "a.parquet", sink.getvalue())
    raw, faults, specs = read(tmp_path)
    assert ([(row["row"], row["payload"]) for row in raw], errors(faults)) == ([(0, b"one"), (2, b"three")], ["BadRow"])
    assert [read_payload(tmp_path, row, specs) for row in raw] == [b"one", b"three"]


def test_pages_of_a_dump_have_addresses_and_the_last_revision_counts(tmp_path: Path) -> None:
    page = "<page><title>A b/ü</title><ns>0</ns><id>1</id><revision><text>old</text></revision><revision><text>new</text></revision></page>"
    dump = f"<mediawiki><siteinfo><base>https://w.test/wiki/Main_Page</base></siteinfo>{page}</mediawiki>"
    put(tmp_path, "a.xml", dump.encode())
    (row,), _, _ = read(tmp_path)
    assert (row["url"], row["payload"]) == ("https://w.test/wiki/A_b/%C3%BC", b"new")


def test_two_files_of_one_key_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "one/x.txt", b"a")
    put(tmp_path, "two/x.txt", b"b")
    values = [{"name": "a", "kind": "k", "paths": ["data/one/*", "data/two/*"]}]
    with pytest.raises(SourceError, match="state `root`"):
        expand(parse_specs(values), tmp_path)
    assert [file.key for file in expand(parse_specs([{**values[0], "root": "data"}]), tmp_path)] == ["one/x.txt", "two/x.txt"]


@pytest.mark.parametrize("label", ["undefined", "idna", "punycode", "unicode_escape", "utf-7"])
def test_codecs_that_are_no_charsets_are_not_used(label: str) -> None:
    assert decode(b"abc\xff\xfe\xa4", None, label).how != "declared"


@pytest.mark.parametrize(("encoding", "label"), [("iso2022_jp", "iso-2022-jp"), ("hz", "hz-gb-2312")])
def test_charsets_of_seven_bits_are_not_taken_for_ascii(encoding: str, label: str) -> None:
    text = "春江水暖" * 20
    assert decode(text.encode(encoding), "text/plain", label).text == text
