from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator as FastArchiveIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator

from dataplane.errors import EnvironmentFault, ParamsError
from dataplane.sample import write
from dataplane.sample.files import File, Keep, Provider
from dataplane.sample.write import KINDS, PROVIDERS, ROOT, SampleParams, sources_params, write_sample

WRITE = """
import sys
from pathlib import Path
from dataplane.sample.write import SampleParams, write_sample
write_sample(Path(sys.argv[1]), params=SampleParams(fraction=float(sys.argv[2])))
"""


def contents(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


@pytest.mark.slow
def test_two_writes_are_the_same_bytes(sample: Path, tmp_path: Path, small_params: SampleParams) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Shanghai", "LC_ALL": "C", "COLUMNS": "132"}
    command = [sys.executable, "-c", WRITE, str(tmp_path / "again"), str(small_params.fraction)]
    subprocess.run(command, check=True, env=environment, timeout=120)
    assert contents(tmp_path / "again") == contents(sample)


def test_the_manifest_lists_every_file_with_its_digest(sample: Path) -> None:
    manifest = json.loads((sample / "MANIFEST.json").read_text())
    listed = {
        f"{name}/{file['path']}": file["sha256"]
        for group in ("sources", "examples")
        for name, entry in manifest[group].items()
        for file in entry["files"]
    }
    found = contents(sample)
    del found["MANIFEST.json"]
    assert listed == found


def test_counts_add_up(counts_and_folder: tuple[dict[str, Any], Path]) -> None:
    counts, folder = counts_and_folder
    for key in ("records", "files", "bytes"):
        assert counts["total"][key] == sum(source[key] for source in counts["sources"].values())
    assert list(counts["sources"]) == [provider.source for provider in PROVIDERS]
    assert all(source["records"] > 0 for source in counts["sources"].values())
    assert counts["examples"]["instruct"]["records"] == sum(path.read_bytes().count(b"\n") for path in (folder / "instruct").iterdir())


def test_every_file_of_a_source_is_read_by_that_source_alone(sample: Path) -> None:
    project = sample.parent.parent
    read_by: dict[str, list[str]] = {}
    for source in sources_params():
        for glob in source["paths"]:
            for path in project.glob(glob):
                read_by.setdefault(path.relative_to(project / ROOT).as_posix(), []).append(source["name"])
    expected = {path: [path.split("/")[0]] for path in contents(sample) if path.split("/")[0] in {each.source for each in PROVIDERS}}
    del expected["readmes/licenses.jsonl"]
    assert read_by == expected


def test_every_source_says_its_kind_and_licence() -> None:
    licenses = {source["name"]: source["license"] for source in sources_params()}
    assert all(licenses.values())
    assert (licenses["reviews_zh"], licenses["news_zh"]) == ("unknown", "unknown")
    assert licenses["parallel"] == "CC-BY-SA-4.0"
    assert tuple(sorted({source["kind"] for source in sources_params()})) == KINDS


def test_a_smaller_choice_of_kinds_writes_only_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "EXAMPLES", {})
    params = SampleParams.parse({"fraction": 0.05, "kinds": ["books", "fortunes"]}, where="sample")
    counts = write_sample(tmp_path / "sample", params=params)
    assert list(counts["sources"]) == ["bible_kjv", "bible_asv", "fortunes"]
    assert [source["name"] for source in sources_params(params)] == ["bible_kjv", "bible_asv", "fortunes"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kinds": ["book"]}, "did you mean 'books'"),
        ({"kinds": []}, "kinds"),
        ({"fraction": 0}, "fraction"),
        ({"fraction": 1.5}, "fraction"),
        ({"fractoin": 1}, "did you mean 'fraction'"),
    ],
)
def test_wrong_params_are_explained(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        SampleParams.parse(values, where="sample")


def test_every_param_is_described() -> None:
    assert [name for name, field in SampleParams.model_fields.items() if not field.description] == []


def test_a_failed_write_leaves_the_old_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(keep: Keep) -> Iterator[File]:
        yield File("first.txt", b"new", 1)
        raise EnvironmentFault("stopped in the middle")

    directory = tmp_path / "sample"
    directory.mkdir()
    (directory / "old.txt").write_bytes(b"old")
    monkeypatch.setattr(write, "PROVIDERS", (Provider("fortunes", "fortunes", "*.txt", "MIT", broken),))
    params = SampleParams.parse({"fraction": 0.01}, where="sample")
    with pytest.raises(EnvironmentFault):
        write_sample(directory, params=params)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {"old.txt": b"old"}


def test_a_write_replaces_the_old_sample_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "sample"
    (directory / "stale").mkdir(parents=True)
    (tmp_path / "sample.partial" / "left").mkdir(parents=True)
    monkeypatch.setattr(write, "EXAMPLES", {})
    write_sample(directory, params=SampleParams.parse({"fraction": 0.01, "kinds": ["fortunes"]}, where="sample"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sample"]
    assert sorted(path.name for path in directory.iterdir()) == ["MANIFEST.json", "fortunes"]


def test_both_warc_readers_see_the_same_pages(sample: Path) -> None:
    data = (sample / "web" / "pages.warc.gz").read_bytes()
    expected = [
        (record.headers["WARC-Target-URI"], record.reader.read())
        for record in FastArchiveIterator(io.BytesIO(data), record_types=WarcRecordType.response, verify_digests=True)
    ]
    read = [
        (record.rec_headers.get_header("WARC-Target-URI"), record.content_stream().read())
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise")
        if record.rec_type == "response"
    ]
    assert read == expected
    assert len(read) == json.loads((sample / "MANIFEST.json").read_text())["sources"]["web"]["files"][0]["records"] > 0


def test_pages_name_neither_this_machine_nor_an_address_in_memory(sample: Path) -> None:
    pages = gzip.decompress((sample / "web" / "pages.warc.gz").read_bytes()).decode()
    assert re.findall(r"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9a-fA-F]+", pages) == []
    assert '<div class="navbar"' in pages
    named = [place for place in (sys.prefix, sys.base_prefix, sys.executable, os.fspath(Path.home()) + "/") if place not in ("/usr", "//")]
    assert [place for place in named if place in pages] == []


def test_no_written_file_names_this_checkout(sample: Path) -> None:
    checkout = os.fspath(Path(__file__).parents[2]).encode()
    plain = [path for path in sample.rglob("*") if path.suffix in (".md", ".txt", ".json", ".jsonl")]
    assert len(plain) > 20
    assert [path for path in plain if checkout in path.read_bytes()] == []
