"""Bad input is a quarantine row or a message with its fix; the other files are read all the same."""

import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import yaml
import zstandard
from test_source_formats import put, read

from dataplane.errors import DataError, ParamsError, PluginError, SourceError
from dataplane.sources.files import expand, parse_specs
from dataplane.stages import ingest

GOOD = b'{"text": "good"}\n'


def outcome(tmp_path: Path, name: str, data: bytes, **spec: object) -> tuple[list[bytes], list[str]]:
    """Payloads and errors of one bad file beside a good one, whose record must be there."""
    put(tmp_path, "aaa.jsonl", GOOD)
    put(tmp_path, name, data)
    put(tmp_path, "zzz.jsonl", GOOD)
    raw, faults, _ = read(tmp_path, **spec)
    payloads = [row["payload"] for row in raw]
    assert payloads[0] == payloads[-1] == b"good"
    return payloads[1:-1], [fault["error"] for fault in faults]


@pytest.mark.parametrize(
    ("name", "data", "errors"),
    [
        ("m.jsonl", b"", ["Empty"]),
        ("m.jsonl.gz", b"", ["Empty"]),
        ("m.jsonl", b"\x7fELF\0\0\0\n" * 1000, ["Binary"]),
        ("m.jsonl", b"[1, 2]\n", ["NotAnObject"]),
        ("m.jsonl", b'{"txt": "a"}\n', ["NoText"]),
        ("m.jsonl", b'{"text": 5}\n', ["NoText"]),
        ("m.jsonl", b'{"text": "cut', ["NotJson"]),
        ("m.jsonl", b"\xff\xfe\xfd\n", ["NotJson"]),
        ("m.jsonl", b"[" * 100_000 + b"\n", ["NotJson"]),
        ("m.parquet", b"PAR1 nothing", ["NotParquet"]),
        ("m.xml", b"<rss></rss>", ["NotADump"]),
        ("m.zip", b"PK\x03\x04 broken", ["BadZipFile"]),
        ("m.tar", b"no tar at all" * 100, ["ReadError"]),
        ("m.jsonl.zst", b"not zstd", ["ZstdError"]),
        ("m.jsonl.xz", b"not xz", ["LZMAError"]),
        ("m.jsonl.bz2", b"not bzip2", ["OSError"]),
        ("m.jsonl.gz", b"not gzip", ["BadGzipFile"]),
        ("m.unknown", b"abc", ["UnknownFormat"]),
        ("m.py", b"x\0y", ["Binary"]),
    ],
)
def test_a_bad_file_is_put_aside_with_its_reason(tmp_path: Path, name: str, data: bytes, errors: list[str]) -> None:
    assert outcome(tmp_path, name, data) == ([], errors)


def test_records_before_the_cut_of_a_truncated_gzip_are_kept(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": f"{i} {'x' * 200}"}).encode() + b"\n" for i in range(5000))
    whole = gzip.compress(rows)
    payloads, errors = outcome(tmp_path, "m.jsonl.gz", whole[: len(whole) // 2])
    assert 1000 < len(payloads) < 5000
    assert payloads == [f"{i} {'x' * 200}".encode() for i in range(len(payloads))]
    assert errors == ["EOFError"]


def test_a_truncated_dump_gives_the_pages_before_the_cut(tmp_path: Path) -> None:
    page = "<page><title>{0}</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>words {0}</text></revision></page>\n"
    dump = "<mediawiki>" + "".join(page.format(i) for i in range(50))
    payloads, errors = outcome(tmp_path, "m.xml", dump.encode()[:-60])
    assert payloads == [f"words {i}".encode() for i in range(49)]
    assert errors == ["Truncated"]


def test_entities_of_a_hostile_dump_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    page = "<page><title>t</title><ns>0</ns><id>1</id><revision><id>1</id><text>&b;</text></revision></page>"
    payloads, errors = outcome(tmp_path, "m.xml", (bomb + "<mediawiki>" + page).encode())
    assert (payloads, errors) == ([], ["BadPage"])


def test_a_line_of_50_mb_is_read_and_one_over_the_limit_is_put_aside(tmp_path: Path) -> None:
    line = json.dumps({"text": "y" * 50_000_000}).encode()
    started = time.process_time()
    payloads, errors = outcome(tmp_path, "m.jsonl", line + b"\n" + GOOD)
    assert ([len(payload) for payload in payloads], errors) == ([50_000_000, 4], [])
    assert time.process_time() - started < 20
    raw, faults, _ = read(tmp_path, options={"max_bytes": 1000})
    assert ([row["payload"] for row in raw], [fault["error"] for fault in faults]) == ([b"good"] * 3, ["TooLarge"])


def test_a_decompression_bomb_is_stopped(tmp_path: Path) -> None:
    payloads, errors = outcome(tmp_path, "m.txt.zst", zstandard.compress(b"0" * (200 << 20)))
    assert (payloads, errors) == ([], ["SourceError"])


def test_a_bomb_split_over_members_is_stopped_too(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for i in range(4):
            archive.writestr(f"{i}.txt.zst", zstandard.compress(b"0" * (30 << 20)))
    payloads, errors = outcome(tmp_path, "m.zip", sink.getvalue())
    assert len(payloads) < 4
    assert errors
    assert set(errors) == {"SourceError"}


def test_records_before_the_cut_of_a_truncated_zstd_are_kept(tmp_path: Path) -> None:
    rows = [f"{i} {hashlib.sha256(str(i).encode()).hexdigest() * 4}" for i in range(5000)]
    whole = zstandard.compress("".join(json.dumps({"text": row}) + "\n" for row in rows).encode())
    payloads, errors = outcome(tmp_path, "m.jsonl.zst", whole[: len(whole) * 2 // 3])
    assert 100 < len(payloads) < 5000
    assert [payload.decode() for payload in payloads] == rows[: len(payloads)]
    assert errors == ["EOFError"]


def test_the_second_of_two_members_of_one_name_is_put_aside(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for data in (b"first", b"second"):
            info = tarfile.TarInfo("a.txt")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert outcome(tmp_path, "m.tar", sink.getvalue()) == ([b"first"], ["DoubledMember"])


def test_a_file_whose_name_is_not_utf8_is_put_aside(tmp_path: Path) -> None:
    try:
        payloads, errors = outcome(tmp_path, os.fsdecode(b"m\xff.txt"), b"text")
    except OSError:
        pytest.skip("this file system takes no such name")
    assert (payloads, errors) == ([], ["BadName"])


def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    line = b'{"text": "a\\ud800b", "url": "u\\udfff", "k\\ud800": "v\\ud800", "id": "\\ud800"}\n'
    put(tmp_path, "m.jsonl", line)
    (row,), faults, _ = read(tmp_path, options={"id": "id"})
    assert (row["payload"].decode(), row["url"], faults) == ("a\ufffdb", "u\ufffd", [])
    assert json.loads(row["meta"]) == {"k\ufffd": "v\ufffd", "id": "\ufffd"}


def test_a_doubled_id_is_put_aside(tmp_path: Path) -> None:
    put(tmp_path, "m.jsonl", b'{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n')
    raw, faults, _ = read(tmp_path, options={"id": "id"})
    assert [row["payload"] for row in raw] == [b"a"]
    assert [(fault["error"], fault["doc_id"]) for fault in faults] == [("DoubledId", raw[0]["doc_id"])]


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    put(tmp_path, "m.zip", b"")
    with zipfile.ZipFile(tmp_path / "data" / "m.zip", "w") as archive:
        archive.writestr("secret.txt", "hidden")
    data = bytearray((tmp_path / "data" / "m.zip").read_bytes())
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        at = data.find(mark) + (6 if mark == b"PK\x03\x04" else 8)
        data[at] |= 1
    payloads, errors = outcome(tmp_path, "m.zip", bytes(data))
    assert (payloads, errors) == ([], ["Encrypted"])


def test_messages_never_carry_the_text(tmp_path: Path) -> None:
    put(tmp_path, "m.jsonl", b'my secret is 12345\n{"text": ["my secret"]}\n')
    _, faults, _ = read(tmp_path)
    assert len(faults) == 2
    assert not any("secret is" in fault["message"] for fault in faults)


def specs(**change: object) -> list:
    return [{"name": "a", "kind": "k", "paths": ["data/*.jsonl"], **change}]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], ParamsError, "no source is named"),
        (specs(pathes=["x"]), ParamsError, "did you mean 'paths'"),
        (specs() + specs(), ParamsError, "named twice: a"),
        (specs(paths=["data/*.nothing"]), SourceError, "matches no file"),
        ([*specs(), {"name": "b", "kind": "k", "paths": ["data/a*"]}], SourceError, "claimed by 'a' and 'b'"),
    ],
)
def test_wrong_sources_are_explained(tmp_path: Path, values: list, error: type[Exception], message: str) -> None:
    put(tmp_path, "a.jsonl", GOOD)
    with pytest.raises(error, match=message):
        expand(parse_specs(values), tmp_path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "jsonlines"}, PluginError, "did you mean 'jsonl'"),
        ({"format": "jsonl", "options": {"txt": "body"}}, ParamsError, "did you mean 'text'"),
        ({"options": {"no_such": 1}}, PluginError, "no format takes the options"),
    ],
)
def test_wrong_formats_and_options_show_before_any_work(project: Path, change: dict, error: type[Exception], message: str) -> None:
    put(project, "a.jsonl", GOOD)
    (project / "params.yaml").write_text(yaml.safe_dump({"sources": specs(**change)}))
    with pytest.raises(error, match=message):
        ingest.main()


def test_a_run_without_a_single_record_fails_and_says_where_to_look(project: Path) -> None:
    put(project, "a.jsonl", b"nothing\n")
    (project / "params.yaml").write_text(yaml.safe_dump({"sources": specs()}))
    with pytest.raises(DataError, match="none of 1 files gave a record") as error:
        ingest.main()
    assert "FROM quarantine" in error.value.fix
