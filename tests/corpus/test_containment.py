"""Items are found in what was trained on: by table, in what a model consumed, and by the command."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.corpus.containment import look_for
from dataplane.corpus.contamination import DecontaminateParams
from dataplane.errors import DataError, UsageError
from dataplane.snapshot import Snapshot

WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen".split()
ITEM = " ".join(WORDS)
OTHER = " ".join(reversed(WORDS))
IDS = [f"{i:032x}" for i in range(4)]
TEXTS = [f"Before. {ITEM.upper()}, after.", " ".join(WORDS[:14]), "nothing of the kind", f"{OTHER}!"]
PARAMS = DecontaminateParams(min_covered=0.5)


@pytest.fixture
def lake(put: Any, project: Path) -> Path:
    """Four documents, of which the mixture has two, and two steps over one of the mixture's sequences."""
    n = len(IDS)
    rows = {
        "doc_id": IDS, "source": ["s"] * n, "kind": ["k"] * n, "url": [None] * n, "mime": [None] * n,
        "n_bytes": [len(text) for text in TEXTS], "text_hash": [""] * n, "text": TEXTS,
    }  # fmt: skip
    put("documents", pa.table(rows, schema=schema.DOCUMENTS))
    put("mixture", pa.Table.from_pylist([{"doc_id": IDS[i], "position": k} for k, i in enumerate((1, 3))], schema=schema.MIXTURE))
    spans = [[{"doc_id": IDS[i], "seq_start": 0, "doc_start": 0, "length": 2}] for i in (1, 3)]
    packed = [{"seq_id": k, "n_tokens": 2, "input_ids": [1, 2], "spans": span} for k, span in enumerate(spans)]
    version = put("packed", pa.Table.from_pylist(packed, schema=schema.packed(2)))
    steps = [{"run_id": "r", "stage": "pretrain", "step": step, "seq_ids": [1]} for step in (1, 2)]
    put("consumed", pa.Table.from_pylist(steps, schema=schema.CONSUMED))
    put("checkpoints", pa.Table.from_pylist([{"run_id": "r", "data_digest": version.digest, "step": 2}], schema=schema.CHECKPOINTS))
    (project / "params.yaml").write_text("decontaminate: {min_covered: 0.5}\n")
    return project


def verdicts(items: dict[str, list[str]], within: str) -> dict[str, tuple[str, float, list[str]]]:
    found = look_for(items, within, PARAMS)
    return {one.item_id: (one.verdict(PARAMS), one.covered, [doc_id for doc_id, _, _ in one.documents]) for one in found}


@pytest.mark.parametrize(
    ("within", "item", "other"),
    [
        ("documents", ("contained", 1.0, IDS[:2]), ("contained", 1.0, [IDS[3]])),
        ("mixture", ("partly", 2 / 6, [IDS[1]]), ("contained", 1.0, [IDS[3]])),
        ("consumed", ("clean", 0.0, []), ("contained", 1.0, [IDS[3]])),
    ],
)
def test_items_are_found_in_the_documents_of_a_table(lake: Path, within: str, item: Any, other: Any) -> None:
    assert verdicts({"a": [ITEM], "b": [OTHER], "c": ["too short"]}, within) == {"a": item, "b": other, "c": ("too short", 0.0, [])}


def test_a_version_of_packed_that_is_gone_and_an_unknown_table_are_named(lake: Path, put: Any) -> None:
    with pytest.raises(UsageError, match=r"no table 'mixtrue'.*mixture"):
        look_for({"a": [ITEM]}, "mixtrue", PARAMS)
    put("checkpoints", pa.Table.from_pylist([{"run_id": "r", "data_digest": "0" * 32, "step": 2}], schema=schema.CHECKPOINTS))
    with pytest.raises(DataError, match="no longer there"):
        look_for({"a": [ITEM]}, "consumed", PARAMS)


def test_the_command_takes_texts_and_files(lake: Path) -> None:
    (lake / "bench.jsonl").write_text(json.dumps({"id": "q7", "q": OTHER, "a": "short"}) + "\n")
    command = ["contains", "--text", ITEM, "--file", "bench.jsonl", "--field", "q", "--field", "a", "--id-field", "id", "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == [
        {"item": "text 1", "verdict": "partly", "covered": 2 / 6, "documents": [[IDS[1], 13, 2 / 6]]},
        {"item": "q7", "verdict": "contained", "covered": 1.0, "documents": [[IDS[3], 13, 1.0]]},
    ]
    assert f"{IDS[3]} (100% of its 13-grams)" in CliRunner().invoke(main, command[:-1]).output
    assert CliRunner().invoke(main, ["contains"]).exit_code == 2
    assert CliRunner().invoke(main, ["contains", "--file", "bench.jsonl"]).exit_code == 2
    assert Snapshot.load("documents").rows == 4
