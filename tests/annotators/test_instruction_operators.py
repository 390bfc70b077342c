"""Signals of instruction data: lengths, distinct-n and distances against brute force, difficulty against the model's own losses."""

import json
import random
from collections import Counter
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.annotators.instruction_difficulty import InstructionDifficulty
from dataplane.annotators.instruction_novelty import InstructionNovelty
from dataplane.annotators.instruction_signals import InstructionSignals
from dataplane.annotators.instruction_text import exchange, words
from dataplane.cli import main
from dataplane.conversation import MIME, Conversation, Turn, render
from dataplane.errors import ModelMissing
from dataplane.kernels.instruction_pool import MOST, PLACES, Pool, vector
from dataplane.operator import Operator
from dataplane.testing import Example, batch_of, conformance

TALK = Conversation((
    Turn("system", "Be brief."), Turn("user", "Name a colour."), Turn("assistant", "Red."), Turn("user", "Once more, 请用中文！"),
    Turn("assistant", "红色, 红色 and red"),
))  # fmt: skip
PAIR = Conversation((Turn("user", "1+1?"),), "It is 2.", "It is 3.")
PLAIN = "No conversation at all."


def asked(question: str, answer: str = "Yes.") -> str:
    return render(Conversation((Turn("user", question), Turn("assistant", answer))))


def annotated(operator: Operator, texts: list[str], ids: list[str] | None = None) -> list[dict]:
    batch = batch_of(operator, [Example(text) for text in texts])
    if ids:
        batch = batch.set_column(batch.schema.get_field_index("doc_id"), "doc_id", pa.array(ids))
    operator.open()
    return pa.table(operator.annotate(batch)).to_pylist()


def test_the_last_answer_is_measured_and_of_a_comparison_the_chosen_one() -> None:
    found = exchange(render(TALK))
    assert found is not None
    assert (found.instruction(), found.answer, found.n_turns) == (
        "Be brief.\nName a colour.\nRed.\nOnce more, 请用中文！", "红色, 红色 and red", 5,
    )  # fmt: skip
    compared = exchange(render(PAIR))
    assert compared is not None
    assert (compared.instruction(), compared.answer, compared.n_turns) == ("1+1?", "It is 2.", 2)
    assert [exchange(text) for text in (PLAIN, "", None)] == [None] * 3


def test_lengths_and_distinct_grams_of_english_and_chinese() -> None:
    talk, pair, plain = annotated(InstructionSignals(), [render(TALK), render(PAIR), PLAIN])
    # Answer: 红 色 红 色 and red; asked: 2 + 3 + 1 + 2 + 4 words. Pairs: 红色 色红 红色 色and "and red".
    assert talk == {"turns": 5, "instruction_words": 12, "answer_words": 6, "distinct_1": 4 / 6, "distinct_2": 4 / 5}
    assert pair == {"turns": 2, "instruction_words": 2, "answer_words": 3, "distinct_1": 1.0, "distinct_2": 1.0}
    assert set(plain.values()) == {None}
    (short,) = annotated(InstructionSignals(), [asked("Why?")])
    assert (short["answer_words"], short["distinct_1"], short["distinct_2"]) == (1, 1.0, None)


def test_the_rules_of_the_signals_follow_their_limits() -> None:
    assert InstructionSignals().rules() == {}
    limits = {"min_instruction_words": 3, "min_answer_words": 2, "max_answer_words": 9, "min_distinct_2": 0.5}
    conformance(
        InstructionSignals,
        examples=[
            Example(asked("What is the time?", "It is noon.")), Example(PLAIN),
            Example(asked("What is the time?", "ha ha ha ha ha ha"), {"repetitive_answer"}),
            Example(asked("Hm?", "Yes."), {"short_instruction", "short_answer"}),
            Example(asked("What is the time?", "一二三四五六七八九十"), {"long_answer"}),
        ],
        params=limits,
    )  # fmt: skip


def sentences(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    vocabulary = "write explain compare a the poem story list bees trains bread 写 一 首 诗 关于 春天 列出 原因".split()
    return [" ".join(draw.choices(vocabulary, k=draw.randint(3, 12))) for _ in range(n)]


def exact_distance(first: str, second: str) -> float:
    """Cosine distance over the words and pairs themselves, nothing hashed."""
    a, b = (Counter(tokens) + Counter(pairwise(tokens)) for tokens in (words(first), words(second)))
    dot = sum(count * b[gram] for gram, count in a.items())
    return 1 - dot / sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))


def pool_of(texts: dict[str, str], path: Path) -> None:
    ids = sorted(texts)
    Pool(tuple(ids), np.stack([vector(words(texts[name])) for name in ids])).save(path)


@pytest.mark.parametrize("among", ["others", "earlier"])
def test_the_distance_is_that_of_the_nearest_other_instruction(tmp_path: Path, among: str) -> None:
    texts = {f"{i:04x}": sentence for i, sentence in enumerate(sentences(60, 1))}
    texts["0010"] = texts["0001"]  # the same words under another id
    path = tmp_path / "pool.npz"
    pool_of(texts, path)
    found = annotated(InstructionNovelty({"pool": str(path), "among": among}), [asked(text) for text in texts.values()], list(texts))
    for name, row in zip(texts, found, strict=True):
        others = [other for other in sorted(texts) if other < name or (among == "others" and other > name)]
        if not others:
            assert row == {"distance": 1.0, "nearest": None}
            continue
        assert row["distance"] == pytest.approx(min(exact_distance(texts[name], texts[other]) for other in others), abs=0.1)
        assert exact_distance(texts[name], texts[row["nearest"]]) == pytest.approx(row["distance"], abs=0.1)
    twins = [row for name, row in zip(texts, found, strict=True) if name in ("0001", "0010")]
    assert [row["nearest"] for row in twins if row["distance"] == 0] == (["0010", "0001"] if among == "others" else ["0001"])


def test_products_of_the_largest_vectors_are_exact() -> None:
    assert PLACES * MOST**2 < 2**24
    big = np.full((1, PLACES), MOST, np.int8)
    distance, names = Pool(("a",), big).nearest(big, ["b"], earlier=False)
    assert (distance.tolist(), names) == ([0.0], ["a"])
    assert np.abs(vector(["x"] * 1000)).max() == MOST


def test_the_novelty_conforms_and_a_damaged_pool_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pool.npz"
    pool_of({"f": "write a poem about bees", "g": "列出三个原因"}, path)
    params = {"pool": str(path), "min_distance": 0.2}
    examples = [
        Example(asked("Write a poem about bees!"), {"too_near"}), Example(asked("列出三个原因。"), {"too_near"}), Example(asked("?!")),
        Example(asked("How do trains brake?")), Example(PLAIN),
    ]  # fmt: skip
    conformance(InstructionNovelty, examples=examples, params=params)
    path.write_bytes(b"no pool")
    with pytest.raises(ModelMissing, match=r"pool\.npz cannot be read"):
        InstructionNovelty(params).open()
    with pytest.raises(ModelMissing, match="fit-instruction-pool"):
        InstructionNovelty({"pool": str(tmp_path / "none.npz")}).files()


@pytest.mark.usefixtures("project")
def test_the_command_collects_the_instructions_of_raw(put) -> None:  # type: ignore[no-untyped-def]
    texts = {f"{i:032x}": asked(question) for i, question in enumerate(["Name a colour.", "说一种颜色。", "?!"])}
    rows = [
        {"doc_id": name, "source": "talks", "kind": "instruct", "mime": MIME, "charset": "utf-8", "payload": text.encode()}
        for name, text in [*texts.items(), ("f" * 32, PLAIN)]
    ]  # fmt: skip
    put("raw", pa.Table.from_pylist(rows, schema=schema.RAW))
    done = CliRunner().invoke(main, ["fit-instruction-pool", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == [{"instructions": 2, "out": "models/instruction_pool.npz"}]
    (near,) = annotated(InstructionNovelty(), [asked("Name a colour!")], ["e" * 32])
    assert near == {"distance": 0.0, "nearest": f"{0:032x}"}
    refused = CliRunner().invoke(main, ["fit-instruction-pool", "--source", "none"])
    assert (refused.exit_code, "raw holds no conversation" in refused.output) == (1, True)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights, and a tokenizer with a chat template."""
    pytest.importorskip("torch")
    from tests.training.conftest import make_pretrained, make_tokenizer

    folder = tmp_path_factory.mktemp("causal")
    return make_pretrained(folder / "model", make_tokenizer(folder / "tokenizer"))


def own_loss(folder: Path, turns: list[Turn], answer: str) -> float:
    """transformers' own mean loss of the answer, the prompt masked."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False) if turns else [first]
    ids = tokenizer(answer, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([[*prompt, *ids]]), labels=torch.tensor([[-100] * len(prompt) + ids]))
    return float(out.loss)


def test_the_difficulty_is_the_quotient_of_the_models_own_losses(causal: Path) -> None:
    talks = [[Turn("user", "What is the capital?")], [Turn("user", "好吗？"), Turn("assistant", "好"), Turn("user", "天气？")]]
    answers = ["Paris.", "今天天气很好"]
    texts = [render(Conversation((*talk, Turn("assistant", answer)))) for talk, answer in zip(talks, answers, strict=True)]
    operator = InstructionDifficulty({"model": str(causal), "causal": {"device": "cpu"}})
    found = annotated(operator, [*texts, PLAIN])
    for talk, answer, row in zip(talks, answers, found, strict=False):
        assert row["answer_loss"] == pytest.approx(own_loss(causal, talk, answer), abs=1e-4)
        assert row["alone_loss"] == pytest.approx(own_loss(causal, [], answer), abs=1e-4)
        assert row["ifd"] == pytest.approx(row["answer_loss"] / row["alone_loss"])
    assert set(found[2].values()) == {None}


def test_long_answers_are_cut_and_long_questions_lose_their_beginning(causal: Path) -> None:
    operator = InstructionDifficulty({"model": str(causal), "causal": {"device": "cpu", "window": 32}})
    operator.open()
    answer = "Paris. " * 40
    long, cut = annotated(operator, [asked("Why? " * 60, answer), asked("Why?", answer)])
    assert (long["answer_tokens"], cut["answer_tokens"]) == (31, 31)
    assert long["answer_loss"] == cut["answer_loss"]  # one token of the question is left, the prompt's last


def test_the_difficulty_conforms(causal: Path) -> None:
    params = {"model": str(causal), "min_ifd": 0.999, "max_ifd": 1.0, "causal": {"device": "cpu", "max_tokens": 32}}
    operator = InstructionDifficulty(params)
    texts = [asked(question, "Paris is it.") for question in sentences(8, 2)]
    reasons = [{"too_easy"} if row["ifd"] < 0.999 else {"misleading"} if row["ifd"] > 1 else set() for row in annotated(operator, texts)]
    assert {"too_easy"} in reasons
    assert {"misleading"} in reasons
    conformance(InstructionDifficulty, examples=[*map(Example, texts, reasons), Example(PLAIN)], params=params)
