"""The dataset card: a header that huggingface_hub reads, counts that are the lake's, and no text of a document."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from huggingface_hub import DatasetCard, DatasetCardData
from huggingface_hub.repocard import metadata_load

from dataplane.errors import UsageError
from dataplane.publish.dataset_card import size_category, table
from dataplane.publish.export import Options, descriptions, export, reopen
from dataplane.publish.facts import public
from dataplane.publish.licenses import hub_licenses, license_url
from dataplane.publish.rows import Request
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import DOCUMENTS, IDS, TEXTS, ids


def body(card: str, section: str) -> str:
    """The text of a section."""
    return card.split(f"\n## {section}\n")[1].split("\n## ")[0].strip()


def rows_of(markdown: str) -> list[list[str]]:
    """Cells of the lines of a table, its head included, its rule left out."""
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def made(select: str = "decontaminated", table: str = "documents", to: str = "parquet") -> str:
    export(Request(table, select), to, Path("out"), Options(title="Small & odd: a [test]"))
    return Path("out/README.md").read_text()


def test_huggingface_hub_reads_the_header(lake: dict[str, Snapshot]) -> None:
    made()
    expected = {
        "pretty_name": "Small & odd: a [test]", "license": ["mit", "odc-by", "unknown"], "language": ["en", "zh"],
        "size_categories": ["n<1K"], "task_categories": ["text-generation"], "tags": ["terraplane"],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*"}]}],
    }  # fmt: skip
    assert metadata_load(Path("out/README.md")) == expected
    card = DatasetCard.load(Path("out/README.md"))
    assert (type(card.data), card.data.to_dict()) == (DatasetCardData, expected)
    assert card.text.startswith("\n# Small & odd: a [test]")


def test_sources_have_their_licences_what_was_read_and_what_is_here(lake: dict[str, Snapshot]) -> None:
    n = [len(TEXTS[doc_id].encode()) for doc_id in IDS]
    assert rows_of(body(made(), "Sources")) == [
        ["source", "kind", "licence", "records read", "documents here", "bytes of text here"],
        ["books", "books", "ODC-By-1.0", "1", "1", str(n[4])],
        ["news", "news", "unknown", "1", "1", str(n[1])],
        ["web", "web", "MIT", "4", "3", str(n[0] + n[2] + n[3])],
        ["all", "", "", "", "5", str(sum(n[:5]))],
    ]


@pytest.mark.parametrize(("table_name", "select"), [("documents", "mixture"), ("tokens", "mixture"), ("packed", "all")])
def test_a_document_that_the_rows_repeat_is_counted_once(lake: dict[str, Snapshot], table_name: str, select: str) -> None:
    documents = {"documents": 4, "tokens": 4, "packed": 3}[table_name]  # the sequences hold the first three of the mixture
    assert rows_of(body(made(select, table_name), "Sources"))[-1][4] == str(documents)


def test_languages_are_shares_of_bytes(lake: dict[str, Snapshot]) -> None:
    n = dict(zip(IDS, DOCUMENTS["n_bytes"].to_pylist(), strict=True))
    total = sum(n[doc_id] for doc_id in IDS[:5])
    english, chinese = (n[IDS[0]] + n[IDS[2]] + n[IDS[4]]) / total, n[IDS[1]] / total
    assert rows_of(body(made(), "Languages"))[1:3] == [["en", f"{english:.1%}"], ["zh", f"{chinese:.1%}"]]


def test_the_funnel_the_reasons_the_replacements_and_the_benchmarks_are_the_lakes(lake: dict[str, Snapshot]) -> None:
    card = made()
    assert rows_of(body(card, "What was dropped")) == [
        ["stage", "in", "kept", "dropped", "quarantined"],
        ["ingest", "6", "6", "0", "0"], ["clean", "6", "6", "0", "0"], ["select", "6", "5", "1", "0"], ["dedup", "5", "5", "0", "0"],
        ["decontaminate", "5", "5", "0", "0"],
        ["stage", "reason", "documents"], ["select", "gopher_quality.too_few_words", "1"], ["select", "language.low_confidence", "1"],
    ]  # fmt: skip
    assert rows_of(body(card, "Personal data")) == [["kind", "replaced", "documents"], ["email", "5", "2"], ["phone", "1", "1"]]
    assert rows_of(body(card, "Contamination"))[1:] == [["quiz", "1", "1"], ["unseen", "0", "0"]]
    assert "paths" not in card
    assert "/home/somebody" not in card
    assert "min_words: 3" in body(card, "How it was made")
    assert [row[0] for row in rows_of(body(card, "Versions")) if row[1] == lake["documents"].digest] == ["documents (exported)"]


def test_what_was_not_done_is_said(lake: dict[str, Snapshot]) -> None:
    assert body(made("deduplicated"), "Contamination") == "Decontamination: not done for these rows."


def test_an_older_version_is_described_by_the_runs_that_made_it(lake: dict[str, Snapshot], put: Any, project: Path) -> None:
    tag = "\n".join(f"  {name}: {snapshot.digest}" for name, snapshot in lake.items())
    (project / "snapshots.yaml").write_text(f"v1:\n{tag}\n")
    before = made("selected")
    for name in ("selected", "deduplicated"):
        put(name, ids(IDS[0]))
    put("select_decisions", lake["select_decisions"].to_table().slice(0, 0))
    export(Request("documents", "selected", at="v1"), "parquet", Path("again"), Options(title="Small & odd: a [test]"))
    assert Path("again/README.md").read_text() == before
    record, rows = reopen(Path("out"))
    assert descriptions(record, rows)["README.md"] == before


def test_a_lake_without_run_records_gives_a_card_of_what_is_known(lake: dict[str, Snapshot], project: Path) -> None:
    for path in (project / "lake" / "runs").iterdir():
        path.unlink()
    card = made()
    assert [line for line in card.splitlines() if line.startswith("## ")] == ["## Sources", "## Languages", "## Versions"]
    assert [row[2:4] for row in rows_of(body(card, "Sources"))[1:4]] == [["unknown", "-"]] * 3


def test_a_version_that_is_no_longer_kept_is_left_out(lake: dict[str, Snapshot]) -> None:
    from dataplane.snapshot import open_store

    open_store().drop("edits", [lake["edits"].digest])
    assert rows_of(body(made(), "Personal data")) == []


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_no_text_of_a_document_is_in_what_is_said_of_it(lake: dict[str, Snapshot], to: str) -> None:
    made(to=to)
    said = "".join(Path("out", name).read_text() for name in ("README.md", "croissant.json", "terraplane.json"))
    words = {text[:12] for text in TEXTS.values() if text}
    assert {word for word in words if word in said} == set()


def test_formats_that_the_hub_does_not_know_have_no_card(lake: dict[str, Snapshot]) -> None:
    record = export(Request("packed"), "mds", Path("out"), Options())
    with pytest.raises(UsageError, match="mds is no format that a card describes"):
        descriptions(record, reopen(Path("out"))[1])


@pytest.mark.parametrize(
    ("rows", "name"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (48_177, "10K<n<100K"), (10**12 - 1, "100B<n<1T"), (10**12, "n>1T")]
)
def test_sizes_are_named_as_the_hub_names_them(rows: int, name: str) -> None:
    assert size_category(rows) == name


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (["MIT", "Apache-2.0"], ["apache-2.0", "mit"]),
        (["MIT OR Apache-2.0", "(GPL-3.0-or-later WITH Classpath-exception-2.0)"], ["apache-2.0", "gpl-3.0", "mit", "other"]),
        (["GFDL-1.3-or-later", "ODbL-1.0", "LGPL-2.1-only", "PDDL-1.0"], ["gfdl", "lgpl-2.1", "odbl", "pddl"]),
        (["LicenseRef-Public-Domain", "PSF-2.0"], ["other"]),
        (["unknown"], ["unknown"]),
        ([], ["unknown"]),
    ],
)
def test_spdx_expressions_become_the_hubs_identifiers(expressions: list[str], expected: list[str]) -> None:
    assert hub_licenses(expressions) == expected


def test_a_licence_that_spdx_lists_has_an_address() -> None:
    given = ["CC-BY-SA-4.0", "LicenseRef-each-its-own", "unknown", "MIT OR Apache-2.0"]
    assert [license_url(name) for name in given] == ["https://spdx.org/licenses/CC-BY-SA-4.0", *given[1:]]


def test_cells_cannot_break_out_of_a_table() -> None:
    assert table(("a",), [("x | y\n<b>*`[z](u)",)]) == "| a |\n| --- |\n| x \\| y \\<b\\>\\*\\`\\[z\\](u) |"


def test_params_lose_what_tells_of_a_machine() -> None:
    assert public({"sources": [{"name": "web", "paths": ["/home/x"], "root": "/home"}], "n": 1}) == {"sources": [{"name": "web"}], "n": 1}


def test_a_fence_in_the_params_does_not_end_the_block(lake: dict[str, Snapshot]) -> None:
    from dataplane.publish.dataset_card import _fenced

    assert _fenced("a: '```'\n") == "````yaml\na: '```'\n````"


def test_a_table_without_documents_has_a_card_too(lake: dict[str, Snapshot], put: Any) -> None:
    put("edits_by_hand", pa.record_batch({"n": [1, 2]}))
    export(Request("edits_by_hand"), "parquet", Path("out"), Options())
    assert metadata_load(Path("out/README.md"))["license"] == ["unknown"]
