"""What dedup and decontaminate cut out of documents: recorded, in no table's text, and gone from what is trained on."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
import yaml
from click.testing import CliRunner

from dataplane import schema
from dataplane.cli import main
from dataplane.corpus import tokenizer
from dataplane.engine.cuts import Cuts
from dataplane.snapshot import Snapshot
from dataplane.stages import decontaminate, dedup, mix, tokenize
from dataplane.stages import tokenizer as tokenizer_stage

PASSAGE = " ".join(f"shared{i}" for i in range(60))
QUESTION = "which of the nine villages sends its grain to the mill below the old bridge in the second week of spring"


def own(name: str, n: int) -> str:
    return " ".join(f"{name}{i}" for i in range(n))


TEXTS = {
    "long": f"{own('a', 150)}\n\n{PASSAGE}\n\n{own('b', 80)}",
    "quotes": f"{own('c', 90)}\n\n{PASSAGE}\n\n{own('d', 30)}",
    "little": f"{PASSAGE} {own('e', 5)}",
    "leaks": f"{own('f', 60)}\n\n{QUESTION}\n\n{own('g', 60)}",
    "alone": own("h", 100),
}
IDS = {name: f"{i:032x}" for i, name in enumerate(TEXTS)}


def put_params(root: Path, **decontaminate_params: Any) -> None:
    (root / "items.jsonl").write_text(json.dumps({"id": "q", "question": QUESTION}))
    params = {
        "dedup": {"repeats": {"find": ["substring"], "tokens": 50}},
        "decontaminate": {
            "benchmarks": [{"name": "mill", "paths": ["items.jsonl"], "fields": ["question"], "id_field": "id"}],
            "margin": 0, **decontaminate_params,
        },
        "mix": {"held_out": {"share": 0.0, "min_per_source": 0}}, "tokenizer": {"vocab_size": 300}, "tokenize": {},
    }  # fmt: skip
    (root / "params.yaml").write_text(yaml.safe_dump(params))


@pytest.fixture
def root(put, project: Path) -> Path:  # type: ignore[no-untyped-def]
    n = len(TEXTS)
    of: dict[str, list[Any]] = {
        "doc_id": list(IDS.values()), "source": ["s"] * n, "kind": ["k"] * n, "text": list(TEXTS.values()),
        "n_bytes": [len(text) for text in TEXTS.values()],
        "text_hash": [xxhash.xxh3_128_hexdigest(text.encode()) for text in TEXTS.values()],
    }  # fmt: skip
    for table, columns in (("raw", schema.RAW), ("documents", schema.DOCUMENTS), ("selected", schema.IDS)):
        put(table, pa.table({f.name: pa.array(of.get(f.name, [None] * n), f.type) for f in columns}, schema=columns))
    return project


def rows(table: str, root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Snapshot.load(table, root).to_table().to_pylist()
    return found


def names(table: str, root: Path) -> list[str]:
    return sorted(name for name, doc_id in IDS.items() if doc_id in {row["doc_id"] for row in rows(table, root)})


def test_the_longest_document_keeps_the_passage_and_each_repeat_says_where_it_stands(root: Path) -> None:
    put_params(root)
    dedup.main()
    start = TEXTS["quotes"].index(PASSAGE)
    at = {"tokens": 60, "how": "substring", "first": IDS["long"], "first_start": TEXTS["long"].index(PASSAGE)}
    assert rows("repeats", root) == [
        {"doc_id": IDS["quotes"], "start": start, "stop": start + len(PASSAGE), **at, "effect": "cut"},
        {"doc_id": IDS["little"], "start": 0, "stop": len(PASSAGE), **at, "effect": "dropped"},
    ]
    assert names("deduplicated", root) == ["alone", "leaks", "long", "quotes"]


def test_why_tells_what_was_cut_of_a_document_and_where_it_stands_first(root: Path) -> None:
    put_params(root, action="cut")
    dedup.main()
    decontaminate.main()
    told = CliRunner().invoke(main, ["why", IDS["quotes"]]).output
    start = TEXTS["quotes"].index(PASSAGE)
    titles = re.findall(r"^(?=\S)(repeats|cut out)$\n  start +(\d+)", told, re.MULTILINE)
    assert titles == [("repeats", str(start)), ("cut out", str(start))]
    assert IDS["long"] in told


def test_what_was_cut_is_in_no_token_and_in_no_byte_of_the_mixture(root: Path) -> None:
    put_params(root, action="cut")
    for stage in (dedup, decontaminate, mix, tokenizer_stage, tokenize):
        stage.main()
    assert [(row["doc_id"], row["how"]) for row in rows("cuts", root)] == [(IDS["quotes"], "substring"), (IDS["leaks"], "mill")]
    left = {
        **TEXTS, "quotes": f"{own('c', 90)}\n\n{own('d', 30)}", "leaks": f"{own('f', 60)}\n\n{own('g', 60)}",
    }  # fmt: skip
    known = tokenizer.load(root / tokenizer.FOLDER)
    decoded = {row["doc_id"]: known.decode(row["input_ids"]) for row in rows("tokens", root)}
    assert decoded == {IDS[name]: left[name] for name in ("long", "quotes", "leaks", "alone")}
    (group,) = json.loads((root / "metrics/mix.json").read_text())["plan"]["groups"].values()
    assert group["available"] == sum(len(left[name]) for name in ("long", "quotes", "leaks", "alone"))


@pytest.mark.parametrize(("action", "kept"), [({}, 3), ({"action": "cut"}, 4), ({"action": "cut", "min_left": 1000}, 3)])
def test_a_contaminated_document_goes_or_loses_the_item(root: Path, action: dict[str, Any], kept: int) -> None:
    put_params(root, **action)
    dedup.main()
    decontaminate.main()
    assert ("leaks" in names("decontaminated", root), len(rows("decontaminated", root))) == (kept == 4, kept)


def test_a_margin_goes_with_the_item_and_ends_between_words(root: Path) -> None:
    put_params(root, action="cut", margin=10)
    dedup.main()
    decontaminate.main()
    text = TEXTS["leaks"]
    cuts = Cuts.load(Snapshot.load("cuts", root))
    (left,) = cuts.texts(pa.array([IDS["leaks"]]), pa.array([text], pa.large_string())).to_pylist()
    assert left == f"{own('f', 58)} {' '.join(f'g{i}' for i in range(3, 60))}"


def test_tokens_are_made_again_where_other_passages_are_cut_and_nowhere_else(root: Path) -> None:
    put_params(root, action="cut")
    for stage in (dedup, decontaminate, mix, tokenizer_stage, tokenize):
        stage.main()
    before = Snapshot.load("tokens", root).digest
    put_params(root, action="cut", margin=10)
    for stage in (decontaminate, mix):
        stage.main()
    tokenize.main()
    changed = {row["doc_id"]: row["n_tokens"] for row in rows("tokens", root)}
    assert Snapshot.load("tokens", root).digest != before
    put_params(root, action="cut")
    for stage in (decontaminate, mix, tokenize):
        stage.main()
    assert Snapshot.load("tokens", root).digest == before
    same = {row["doc_id"] for row in rows("tokens", root) if row["n_tokens"] == changed[row["doc_id"]]}
    assert same == {IDS[name] for name in ("long", "quotes", "alone")}
