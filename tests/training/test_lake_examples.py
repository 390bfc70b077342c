"""Fine-tuning on documents of the lake: what the rules left, as the operators left it, and each example's way back to its raw record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

from dataplane import schema
from dataplane.conversation import Conversation, Turn, render
from dataplane.errors import ParamsError
from trainplane.align.params import DPOParams, SFTParams
from trainplane.align.training_data import examples_of, lake_texts, pairs_of, provenance
from trainplane.cli import main
from trainplane.data.chat import Example
from trainplane.data.overlap import check_overlap
from trainplane.data.preference import Pair
from trainplane.errors import LedgerBroken, TrainingError
from trainplane.lineage.trace_examples import trace_examples

ASK = Conversation((Turn("user", "1+1?"), Turn("assistant", "2")))
COMPARE = Conversation((Turn("user", "hi"), Turn("assistant", "hello"), Turn("user", "1+1?")), "2", "3")


@pytest.fixture
def lake(put: Callable[..., Any]) -> Callable[..., None]:
    """Writes documents, as ingest and clean would have left them; those named in `gone` came through no rules."""

    def write(texts: dict[str, str], meta: dict[str, dict[str, str]] | None = None, gone: tuple[str, ...] = ()) -> None:
        rows = [{"doc_id": name, "source": "talks", "kind": "instruct", "text": text} for name, text in texts.items()]
        put("documents", pa.Table.from_pylist(rows, schema.DOCUMENTS))
        raw = [{"doc_id": name, "source": "talks", "meta": json.dumps((meta or {}).get(name, {})), "payload": b""} for name in texts]
        put("raw", pa.Table.from_pylist(raw, schema.RAW))
        put("decontaminated", pa.Table.from_pylist([{"doc_id": name} for name in texts if name not in gone], schema.IDS))

    return write


def sft(**more: object) -> SFTParams:
    return SFTParams(sources=["talks"], **more)


def test_examples_and_pairs_are_what_came_through(lake: Callable[..., None], project: Path) -> None:
    held_out = {"split": "held_out", "lang": "en"}
    lake({"a": render(ASK), "b": render(COMPARE), "c": render(ASK)}, {"a": held_out, "b": held_out}, gone=("c",))
    turns = (Turn("user", "1+1?"), Turn("assistant", "2"))
    assert examples_of(sft(), project, "sft") == [Example("a", turns, "talks", "en", "held_out")]
    history = (Turn("user", "hi"), Turn("assistant", "hello"))
    assert pairs_of(DPOParams(sources=["talks"]), project, "dpo") == [Pair("b", "1+1?", "2", "3", "talks", "held_out", history)]


def test_files_and_lake_are_learnt_from_together(lake: Callable[..., None], project: Path) -> None:
    lake({"a": render(ASK)}, {"a": {"split": "train"}})
    line = {"id": "f", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    (project / "x.jsonl").write_text(json.dumps(line))
    params = sft(data=["x.jsonl"])
    assert [example.id for example in examples_of(params, project, "sft")] == ["f", "a"]
    assert sorted(provenance(params, project)["snapshots"]) == ["decontaminated", "documents"]


def test_where_no_split_is_told_a_hash_of_the_question_holds_some_out(lake: Callable[..., None], project: Path) -> None:
    names = [f"{number:032x}" for number in range(400)]
    texts = {name: render(Conversation((Turn("user", name), Turn("assistant", "yes")))) for name in names}
    lake(texts)
    splits = {example.id: example.split for example in examples_of(sft(held_out_share=0.25), project, "sft")}
    assert 0.18 < sum(split == "held_out" for split in splits.values()) / len(splits) < 0.32
    lake({name: texts[name] for name in names[:50]})
    assert {example.id: example.split for example in examples_of(sft(held_out_share=0.25), project, "sft")} == {
        name: splits[name] for name in names[:50]
    }


def test_all_answers_to_one_question_are_in_one_split(lake: Callable[..., None], project: Path) -> None:
    answers = [Conversation((Turn("user", "1 + 1?"), Turn("assistant", str(n)))) for n in range(20)]
    lake({f"{number}": render(answer) for number, answer in enumerate(answers)})
    assert len({example.split for example in examples_of(sft(held_out_share=0.5), project, "sft")}) == 1


def test_an_operator_that_took_the_turns_is_told(lake: Callable[..., None], project: Path) -> None:
    lake({"a": render(ASK), "b": "1+1?\n2"})
    with pytest.raises(TrainingError, match=r"1 documents are no conversations: b \(the text does not begin with a turn"):
        examples_of(sft(), project, "sft")


def test_a_source_of_which_nothing_came_through_is_told(lake: Callable[..., None], project: Path) -> None:
    lake({"a": render(ASK)}, gone=("a",))
    with pytest.raises(ParamsError, match="decontaminated holds no document of talks"):
        examples_of(sft(), project, "sft")
    with pytest.raises(ParamsError, match="nothing to learn from"):
        SFTParams.parse({}, where="sft")


def test_a_held_out_question_that_is_trained_on_is_refused() -> None:
    check_overlap([("a", "train", "What?"), ("b", "held_out", "Where?"), ("c", "train", "What?")], "sft")
    with pytest.raises(TrainingError, match="1 held-out questions are trained on too: b = a"):
        check_overlap([("a", "train", "What  is THIS？"), ("b", "held_out", "what is\nthis?")], "sft")


ALPACA = [
    {"instruction": f"Say the number {number} in words.", "input": "", "output": f"It is {word}, written to me@example{number}.com."}
    for number, word in enumerate("one two three four five six seven eight nine ten".split())
]
BENCHMARK = "The quick brown fox jumps over the lazy dog while the small cat sleeps under the old wooden table."
PARAMS = {
    "sources": [
        {"name": "alpaca", "kind": "instruct", "paths": ["alpaca.json"], "format": "chat", "options": {"layout": "alpaca"}},
        {"name": "hh", "kind": "preference", "paths": ["hh.jsonl"], "format": "chat", "options": {"layout": "hh"}},
    ],
    "clean": {"pipeline": [{"use": "encoding_repair"}, {"use": "scrub_pii"}, {"use": "text_signals"}]},
    "select": {"rules": []},
    "dedup": {},
    "decontaminate": {"benchmarks": [{"name": "b", "paths": ["b.jsonl"], "fields": ["q"], "id_field": "id"}]},
}
SMALL = {
    "max_steps": 4,
    "batch_size": 4,
    "lora_rank": 2,
    "learning_rate": 0.01,
    "max_length": 128,
    "overlong": "cut",
    "held_out_share": 0.3,
}


@pytest.mark.slow
def test_an_adapter_is_made_of_what_the_data_stages_left_and_leads_back_to_the_records(project: Path, pretrained: Path) -> None:
    from dataplane.stages import clean, decontaminate, dedup, ingest, select
    from trainplane.stages import dpo
    from trainplane.stages import sft as sft_stage

    planted = {"instruction": BENCHMARK, "input": "", "output": "Yes."}
    (project / "alpaca.json").write_text(json.dumps([*ALPACA, ALPACA[0], planted]))
    pairs = [
        {"chosen": f"\n\nHuman: {n}?\n\nAssistant: The answer is {n}.", "rejected": f"\n\nHuman: {n}?\n\nAssistant: No."} for n in range(9)
    ]
    (project / "hh.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (project / "b.jsonl").write_text(json.dumps({"id": 1, "q": BENCHMARK}))
    (project / "models").mkdir()
    (project / "models" / "pretrain").symlink_to(pretrained)
    dpo_params = {name: value for name, value in SMALL.items() if name != "overlong"} | {"sources": ["hh"]}
    (project / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"sft": SMALL | {"sources": ["alpaca"]}, "dpo": dpo_params}))
    for stage in (ingest, clean, select, dedup, decontaminate, sft_stage, dpo):
        stage.main()
    run = json.loads(Path("models/sft/run.json").read_text())
    told = CliRunner().invoke(main, ["trace", "--model", "models/sft", "--step", "2", "--json"])
    found = json.loads(told.stdout)
    trained = {name for line in Path("models/sft/consumed.jsonl").read_text().splitlines() for name in json.loads(line)["ids"]}
    held_out = [json.loads(line)["id"] for line in Path("models/sft/held_out.jsonl").read_text().splitlines()]
    texts = dict(lake_texts(sorted(trained | set(held_out)), project))
    assert len(texts) == len(ALPACA)  # without the double and the one that quotes the benchmark
    assert [text for text in texts.values() if "@example" in text or BENCHMARK in text] == []
    data = (project / "alpaca.json").read_bytes()
    assert [example["id"] for example in found["examples"]] == json.loads(Path("models/sft/consumed.jsonl").read_text().splitlines()[1])[
        "ids"
    ]
    origins = [example["origin"] for example in found["examples"]]
    records = [json.loads(data[origin["offset"] : origin["offset"] + origin["length"]]) for origin in origins]
    assert [record["instruction"] in texts[example["id"]] for record, example in zip(records, found["examples"], strict=True)] == [True] * 4
    assert (run["sources"], sorted(run["snapshots"])) == (["alpaca"], ["decontaminated", "documents"])
    assert "alpaca.json @ bytes" in CliRunner().invoke(main, ["trace", "--model", "models/dpo", "--step", "1"]).stdout.replace(
        "hh.jsonl", "alpaca.json"
    )
    lines = Path("models/sft/consumed.jsonl").read_text().splitlines()
    Path("models/sft/consumed.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(LedgerBroken, match="does not end where"):
        trace_examples(Path("models/sft"), 1)
