"""Scores against what can be worked out by hand or by brute force."""

import gzip
import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dataplane import schema
from dataplane.errors import ParamsError, SourceError
from trainplane.evaluate.generation import Prompt, generate
from trainplane.evaluate.harness import Task, read_items, read_template, run_task, verdict
from trainplane.evaluate.params import EvaluateParams
from trainplane.evaluate.perplexity import Documents, document_bits, gzip_scores, score_bits, windows
from trainplane.evaluate.scores import groups, ratio
from trainplane.model.build import load

torch = pytest.importorskip("torch")

TEXTS = ["The capital of France is Paris. " * 12, "老师辅助学生学习。", "a"]
ITEM = {"id": "i", "question": "What is the capital of France?", "choices": ["Paris", "公园"], "answer": 0, "lang": "en"}


def documents(tokenizer) -> Documents:  # type: ignore[no-untyped-def]
    tokens = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    return Documents(["a", "b", "c"], TEXTS, tokens, {"source": ["x", "y", "x"], "lang": ["en", "zh", None]}, 0)


def brute_force_bits(model, tokens: list[int], eos_id: int, window: int) -> float:  # type: ignore[no-untyped-def]
    """Bits, a token at a time: context is what stands before it in its window."""
    row, bits = [eos_id, *tokens], 0.0
    for place in range(1, len(row)):
        start = (place - 1) // (window - 1) * (window - 1)
        with torch.no_grad():
            logps = model(input_ids=torch.tensor([row[start:place]]), use_cache=False).logits[0, -1].double().log_softmax(-1)
        bits -= float(logps[row[place]]) / math.log(2)
    return bits


def test_bits_are_those_of_scoring_a_token_at_a_time(pretrained: Path, tokenizer) -> None:
    model, held_out = load(pretrained).eval(), documents(tokenizer)
    assert len(held_out.tokens[0]) > model.config.max_position_embeddings == 64
    expected = [brute_force_bits(model, tokens, 0, 64) for tokens in held_out.tokens]
    for batch_tokens in (1, 256):
        assert document_bits(model, held_out.tokens, 0, batch_tokens) == pytest.approx(expected, rel=1e-5)


@given(tokens=st.lists(st.integers(1, 9), max_size=60), length=st.integers(2, 20))
def test_windows_score_each_token_once_with_one_token_of_context(tokens: list[int], length: int) -> None:
    parts = windows(tokens, 0, length)
    assert [token for part in parts for token in part[1:]] == tokens
    assert [part for part in parts if len(part) > length] == []
    assert [part[0] for part in parts] == [0, *(part[-1] for part in parts[:-1])]


def test_a_uniform_model_needs_the_logarithm_of_its_vocabulary(pretrained: Path, tokenizer) -> None:
    model = load(pretrained)
    with torch.no_grad():
        model.model.norm.weight.zero_()
    tokens = documents(tokenizer).tokens
    assert document_bits(model, tokens, 0, 256) == pytest.approx([len(row) * math.log2(len(tokenizer)) for row in tokens])


def test_groups_divide_all_bits_by_all_bytes(tokenizer) -> None:
    scores = {score.group: score for score in score_bits(documents(tokenizer), [100.0, 50.0, 9.0])}
    sizes = [len(text.encode()) for text in TEXTS]
    assert sizes == [384, 27, 1]
    assert {group: (score.value, score.n) for group, score in scores.items()} == {
        "all": (pytest.approx(159 / 412), 3),
        "source=x": (pytest.approx(109 / 385), 2),
        "source=y": (pytest.approx(50 / 27), 1),
        "lang=en": (pytest.approx(100 / 384), 1),
        "lang=zh": (pytest.approx(50 / 27), 1),
    }
    assert math.isnan(scores["lang=zh"].standard_error)


def test_gzip_compresses_each_document_alone(tokenizer) -> None:
    overall = gzip_scores(documents(tokenizer))[0]
    compressed = sum(len(gzip.compress(text.encode(), compresslevel=9)) for text in TEXTS)
    assert (overall.stage, overall.task, overall.group) == ("gzip", "gzip", "all")
    assert overall.value == pytest.approx(8 * compressed / 412)


def test_the_standard_error_of_a_ratio_is_that_of_a_mean_where_all_weigh_alike() -> None:
    values = [1.0, 2.0, 4.0, 9.0]
    value, error = ratio(values, [1.0] * 4)
    spread = sum((x - 4) ** 2 for x in values) / 3
    assert (value, error) == (4.0, pytest.approx(math.sqrt(spread / 4)))
    assert ratio([3.0, 6.0], [1.0, 2.0]) == (3.0, 0.0)


def test_groups_name_nothing_where_nothing_is_known() -> None:
    assert groups({"lang": [None, "zh", ""]}) == {"all": [0, 1, 2], "lang=zh": [1]}


def test_the_greedy_text_is_the_likeliest_token_again_and_again(pretrained: Path, tokenizer) -> None:
    model, ids = load(pretrained).eval(), [10, 11, 12]
    text = generate(model, tokenizer, Prompt("", ids), max_new_tokens=5, stop_ids=[0], temperature=None, seed=1)
    row = list(ids)
    for _ in range(5):
        with torch.no_grad():
            row.append(int(model(input_ids=torch.tensor([row]), use_cache=False).logits[0, -1].argmax()))
    assert text == tokenizer.decode(row[3:], skip_special_tokens=True)


def test_drawn_texts_repeat_with_their_seed_alone(pretrained: Path, tokenizer) -> None:
    model = load(pretrained)
    texts = [
        generate(model, tokenizer, Prompt("", [10] * 200), max_new_tokens=20, stop_ids=[0], temperature=0.8, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": ["a"]}, "two or more"),
        ({"choices": ["a", ""]}, "two or more"),
        ({"answer": 2}, "place of a choice"),
        ({"answer": True}, "place of a choice"),
        ({"question": None}, "should be a text"),
    ],
)
def test_a_wrong_item_is_named_with_its_line(tmp_path: Path, change: dict, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(ITEM) + "\n" + json.dumps(ITEM | {"id": "j"} | change) + "\n")
    with pytest.raises(SourceError, match=message) as caught:
        read_items(["x.jsonl"], tmp_path)
    assert caught.value.where.endswith("x.jsonl:2")


def test_an_unknown_task_is_refused_with_a_hint() -> None:
    with pytest.raises(ParamsError, match="terraplane_choice"):
        read_template("terraplane_choise")


def test_the_verdict_counts_items_and_owns_up_to_what_was_not_checked() -> None:
    items = [{"id": name, "file": file} for name, file in (("a", "x"), ("b", "x"), ("c", "y"))]
    assert verdict(items, {"a", "c", "z"}, {"x", "y"}) == "2 of 3 items seen in the raw corpus and dropped"
    assert verdict(items, {"z"}, {"x", "y", "w"}) == "clean"
    assert verdict(items, {"a"}, {"x"}) == "1 of 3 items seen in the raw corpus and dropped; 1 of 3 unchecked"
    assert verdict(items, set(), {"x"}) == "clean; 1 of 3 unchecked"
    assert verdict(items, set(), {"w"}) == "unchecked"


def choice_logps(model, tokenizer, question: str, choices: list[str]) -> list[float]:  # type: ignore[no-untyped-def]
    found = []
    for choice in choices:
        context = tokenizer.encode(question, add_special_tokens=False)
        whole = tokenizer.encode(f"{question}\n{choice}", add_special_tokens=False)
        with torch.no_grad():
            logps = model(input_ids=torch.tensor([whole]), use_cache=False).logits[0].double().log_softmax(-1)
        found.append(sum(float(logps[place - 1, whole[place]]) for place in range(len(context), len(whole))))
    return found


@pytest.mark.slow
def test_the_harness_picks_the_likeliest_choice(pretrained: Path, tokenizer) -> None:
    model = load(pretrained).eval()
    items = [
        ITEM
        | {"id": str(i), "question": question, "choices": ["Paris", "公园", "morning"], "answer": i % 3, "lang": "en" if i % 2 else "zh"}
        for i, question in enumerate(["What is it?", "老师辅助学生学习。", "Who?", "今天", "The capital", "France is"])
    ]
    picked = []
    for item in items:
        logps = choice_logps(model, tokenizer, item["question"], item["choices"])
        picked.append(float(logps.index(max(logps)) == item["answer"]))
    task = Task("terraplane_choice", read_template("terraplane_choice"), items, "clean")
    scores = {(s.metric, s.group): s for s in run_task(model, tokenizer, task, chat=False, batch_size=4)}
    mean = sum(picked) / 6
    assert scores["acc", "all"].value == pytest.approx(mean)
    assert scores["acc", "all"].standard_error == pytest.approx(math.sqrt(mean * (1 - mean) / 5))
    assert scores["acc", "lang=en"].value == pytest.approx(sum(picked[1::2]) / 3)
    chat = run_task(model, tokenizer, task, chat=True, batch_size=4)[0]
    assert (chat.n, chat.task_version) == (6, "1")
    assert chat.template_hash != scores["acc", "all"].template_hash


@pytest.fixture
def evaluation_project(project: Path, put, pretrained: Path, tokenizer) -> Path:  # type: ignore[no-untyped-def]
    held_out = documents(tokenizer)
    ids = [f"{i:032x}" for i in range(4)]
    texts = [*TEXTS, "trained on"]
    tokens = [*held_out.tokens, [5, 6]]
    table = {name: [None] * 4 for name in schema.DOCUMENTS.names} | {"doc_id": ids, "source": ["x", "y", "x", "x"], "text": texts}
    rows = pa.table(table, schema=schema.DOCUMENTS).append_column("language__lang", pa.array(["en", "zh", None, "en"]))
    put("documents", rows)
    put("held_out", pa.table({"doc_id": ids[:3], "source": ["x", "y", "x"], "kind": ["k"] * 3}, schema=schema.HELD_OUT))
    put(
        "tokens",
        pa.table(
            {"doc_id": ids, "n_tokens": [len(row) for row in tokens], "n_words": [1] * len(ids), "input_ids": tokens}, schema=schema.TOKENS
        ),
    )
    seen = {"doc_id": [ids[3]], "benchmark": ["b"], "item_id": ["i"], "n": [13], "hits": [1], "covered": [1.0]}
    put("contamination", pa.table(seen, schema=schema.CONTAMINATION))
    put("cuts", schema.CUTS.empty_table())
    (project / "models").mkdir()
    (project / "models" / "pretrain").symlink_to(pretrained)
    (project / "items.jsonl").write_text("".join(json.dumps(ITEM | {"id": name}) + "\n" for name in "ij"))
    params = {
        "models": ["pretrain"],
        "prompts": ["今天"],
        "max_new_tokens": 4,
        "tasks": [{"name": "terraplane_choice", "data": ["items.jsonl"]}],
        "written": [{"name": "qa", "data": ["qa.jsonl"], "max_new_tokens": 3}],
    }
    (project / "qa.jsonl").write_text(json.dumps({"id": "i", "question": "今天", "references": ["天气"], "lang": "zh"}) + "\n")
    (project / "params.yaml").write_text(
        yaml.safe_dump({"evaluate": params, "decontaminate": {"benchmarks": [{"name": "b", "paths": ["*.jsonl"]}]}})
    )
    return project


@pytest.mark.slow
def test_the_stage_writes_the_scores_of_held_out_documents(evaluation_project: Path, pretrained: Path, tokenizer) -> None:
    from dataplane.snapshot import Snapshot
    from trainplane.stages import evaluate

    evaluate.main()
    first = Snapshot.load("evals")
    rows = {(row["stage"], row["task"], row["group"], row["metric"]): row for row in first.to_table().to_pylist()}
    bits = document_bits(load(pretrained), documents(tokenizer).tokens, 0, 4096)
    overall = rows["pretrain", "held_out", "all", "bits_per_byte"]
    assert (overall["value"], overall["n"]) == (pytest.approx(sum(bits) / 412), 3)
    assert overall["checkpoint"] == json.loads((pretrained / "run.json").read_text())["digest"]
    assert rows["pretrain", "held_out", "lang=zh", "bits_per_byte"]["standard_error"] is None
    assert rows["pretrain", "terraplane_choice", "all", "acc"]["contamination"] == "1 of 2 items seen in the raw corpus and dropped"
    written = rows["pretrain", "qa", "lang=zh", "f1"]
    assert (written["contamination"], written["checkpoint"], written["n"]) == (
        "1 of 1 items seen in the raw corpus and dropped", overall["checkpoint"], 1,
    )  # fmt: skip
    metrics = json.loads(Path("metrics/evaluate.json").read_text())
    assert metrics["gzip"]["bits_per_byte"] == rows["gzip", "gzip", "all", "bits_per_byte"]["value"]
    assert metrics["pretrain"]["bits_per_byte"] == overall["value"]
    written = json.loads(Path("metrics/generations.json").read_text())
    assert [(one["model"], one["prompt"], one["mode"]) for one in written] == [
        ("pretrain", "今天", "greedy"),
        ("pretrain", "今天", "temperature 0.8"),
    ]

    evaluate.main()
    assert Snapshot.load("evals").digest == first.digest


def test_defaults_hold() -> None:
    assert EvaluateParams().models == ["pretrain", "sft", "dpo"]


@pytest.mark.slow
def test_the_stage_marks_the_scores_of_the_model_that_was_trained_on_an_item(evaluation_project: Path, pretrained: Path) -> None:
    import shutil

    from dataplane.snapshot import Snapshot
    from trainplane.data.jsonl import files_digest
    from trainplane.stages import evaluate

    question = "Which of the seven rivers of the northern plain carries the most water in early spring?"
    Path("items.jsonl").write_text(json.dumps(ITEM | {"question": question}) + "\n")
    planted = {"id": "x", "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "?"}], "split": "train"}
    Path("instruct.jsonl").write_text(json.dumps(planted) + "\n")
    shutil.copytree(pretrained, "models/sft")
    before = json.loads((pretrained / "run.json").read_text())
    data = {"data": ["instruct.jsonl"], "data_digest": files_digest(["instruct.jsonl"], Path())}
    Path("models/sft/run.json").write_text(json.dumps({"stage": "sft", "digest": "of sft", "parent": before["digest"]} | data))
    Path("models/sft/consumed.jsonl").write_text(json.dumps({"step": 1, "ids": ["x"]}) + "\n")
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["evaluate"] |= {"models": ["pretrain", "sft"], "written": []}
    Path("params.yaml").write_text(yaml.safe_dump(params))

    evaluate.main()
    rows = Snapshot.load("evals").to_table().to_pylist()
    seen = "1 of 1 items seen in the raw corpus and dropped"
    assert {row["stage"]: row["contamination"] for row in rows if row["metric"] == "acc" and row["group"] == "all"} == {
        "pretrain": seen,
        "sft": f"{seen}; 1 of 1 items trained on",
    }
