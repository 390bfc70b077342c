"""Fine-tuning and preference optimisation of a tiny model: numbers that are known beforehand, and equal runs."""

import csv
import json
import math
from collections import Counter
from pathlib import Path

import pytest
import yaml

from dataplane.conversation import Turn
from dataplane.errors import DataError, ModelMissing, ParamsError
from trainplane.align import session
from trainplane.align.adapter import merge, probe, read_run
from trainplane.align.params import DPOParams, SFTParams
from trainplane.align.preference import answer_logps, correct
from trainplane.align.sft import answer_loss, pick, tokenise
from trainplane.data.chat import ChatEncoder, Example
from trainplane.data.packed import IGNORED
from trainplane.data.preference import EncodedPair
from trainplane.errors import LedgerBroken, NotFinite, TrainingError
from trainplane.lineage.ledger import verify
from trainplane.model.build import load, weights_digest

torch = pytest.importorskip("torch")

QUESTIONS = ["What is the capital of France?", "今天天气很好。", "Who assists students?"]


def talk(name: str, question: str, answer: str, split: str = "train") -> Example:
    return Example(name, (Turn("user", question), Turn("assistant", answer)), "s", "en", split)


def test_the_choice_depends_on_ids_and_seed_alone() -> None:
    ids = [f"id{i}" for i in range(100)]
    chosen = session.sample(ids, 10, 1, name=str)
    assert session.sample(ids[::-1], 10, 1, name=str) == chosen
    assert set(session.sample(ids, 10, 2, name=str)) != set(chosen)
    assert sorted(session.sample(ids, 1000, 1, name=str)) == sorted(ids)


def test_where_an_item_does_not_fit_the_next_takes_its_place() -> None:
    ids = [f"id{i}" for i in range(100)]
    order = session.sample(ids, 100, 1, name=str)
    found, n_passed_over = session.sample_fitting(ids, 10, 1, lambda one: one.upper() if int(one[2:]) % 2 else None, name=str)
    odd = [one for one in order if int(one[2:]) % 2][:10]
    assert found == [(one, one.upper()) for one in odd]
    assert n_passed_over == order.index(odd[-1]) + 1 - 10
    assert session.sample_fitting(ids, 10, 1, lambda one: None, name=str) == ([], 100)


def test_each_epoch_sees_each_example_once() -> None:
    places = [place for step in session.schedule(SFTParams(data=["x"], max_steps=6, batch_size=5), 10) for place in step]
    assert [sorted(places[epoch * 10 : epoch * 10 + 10]) for epoch in range(3)] == [list(range(10))] * 3


def test_sources_are_mixed_by_their_shares() -> None:
    examples = [Example(f"{source}{n}", (), source, "en", "train") for source, count in (("new", 60), ("old", 30)) for n in range(count)]

    def counts(most: int, **shares: float) -> Counter[str]:
        return Counter(example.source for example in pick(examples, "train", most, 0, shares))

    assert counts(40, new=0.75, old=0.25) == {"new": 30, "old": 10}
    assert counts(1000, new=0.5, old=0.5) == {"new": 30, "old": 30}  # there are no more old ones
    assert counts(1000) == {"new": 60, "old": 30}
    with pytest.raises(ParamsError, match="no train example of other"):
        counts(10, other=1.0)
    with pytest.raises(ParamsError, match=r"sum to 1, got 0\.9"):
        SFTParams.parse({"data": ["x"], "shares": {"new": 0.9}}, where="sft")


def sizes(overlong: str) -> SFTParams:
    return SFTParams(data=["x"], max_length=32, overlong=overlong)


def test_examples_that_are_too_long_are_refused_left_out_or_cut(tokenizer) -> None:
    encoder = ChatEncoder(tokenizer)
    examples = [talk("short", "?", "yes"), talk("cut", "?", "yes " * 30), talk("long", "what " * 60, "yes")]
    with pytest.raises(DataError, match="2 of 3 train examples have more than 32 tokens"):
        tokenise(examples, encoder, sizes("refuse"), "train")
    data = tokenise(examples, encoder, sizes("cut"), "train")
    assert (data.ids, data.n_truncated, data.n_too_long, len(data.encoded[1].input_ids)) == (["short", "cut"], 1, 1, 32)
    data = tokenise(examples, encoder, sizes("leave_out"), "train")
    assert (data.ids, data.n_truncated, data.n_too_long) == (["short"], 0, 2)
    with pytest.raises(DataError, match="no train example is left of 1"):
        tokenise(examples[2:], encoder, sizes("cut"), "train")


def test_the_answer_loss_weighs_each_token_once_and_ignores_padding(pretrained: Path, tokenizer) -> None:
    encoder, model = ChatEncoder(tokenizer), load(pretrained).eval()
    encoded = [
        encoder.encode(talk("", question, answer).messages) for question, answer in zip(QUESTIONS, ["Paris", "好", "x" * 20], strict=True)
    ]
    nats, n = 0.0, 0
    for one in encoded:  # one by one, no padding, plain log-softmax
        with torch.no_grad():
            logps = model(input_ids=torch.tensor([one.input_ids]), use_cache=False).logits[0].double().log_softmax(-1)
        for place, label in enumerate(one.labels):
            if label != IGNORED:
                nats, n = nats - float(logps[place - 1, label]), n + 1
    assert answer_loss(model, encoded, 1, 2) == pytest.approx(nats / n, abs=1e-5)


def test_the_log_probability_of_an_answer_does_not_depend_on_its_batch(pretrained: Path) -> None:
    model = load(pretrained)
    pairs = [EncodedPair([5, 6, 7], [8, 9], [10]), EncodedPair([9], [11, 12, 13, 14, 15], [16, 17])]
    together, alone = answer_logps(model, pairs, 1, 4), torch.cat([answer_logps(model, [pair], 1, 1) for pair in pairs])
    assert torch.allclose(together, alone, atol=1e-5)
    model.eval()
    with torch.no_grad():
        logps = model(input_ids=torch.tensor([[5, 6, 7, 8, 9]]), use_cache=False).logits[0].double().log_softmax(-1)
    assert float(together[0, 0]) == pytest.approx(float(logps[2, 8] + logps[3, 9]), abs=1e-5)


def test_accuracy_with_a_reference_compares_gains() -> None:
    reference = torch.tensor([[-9.0, -1.0], [-1.0, -9.0]])
    after = torch.tensor([[-8.0, -1.0], [-3.0, -9.0]])
    assert (correct(after), correct(after, reference)) == ([0.0, 1.0], [1.0, 0.0])


@pytest.mark.parametrize("log", [{"loss": math.nan, "grad_norm": 1.0}, {"loss": 1.0, "grad_norm": math.inf}])
def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path, log: dict) -> None:
    book = session.Book(tmp_path / "l", ["a"], [[0]], "sft", {"loss": "loss"})
    book.see({"input_ids": torch.tensor([[1]])})
    with pytest.raises(NotFinite, match="step 1"):
        book.close(log | {"learning_rate": 1.0})


def test_the_ledger_depends_on_ids_and_tokens(tmp_path: Path) -> None:
    def head(ids: list[str], tokens: list[int]) -> str:
        book = session.Book(tmp_path / "l", ids, [[0, 1]], "sft", {"loss": "loss"})
        book.see({"input_ids": torch.tensor([tokens])})
        book.close({"loss": 1.0, "grad_norm": 1.0, "learning_rate": 1.0})
        return book.head()

    assert len({head(["a", "b"], [1, 2]), head(["a", "c"], [1, 2]), head(["a", "b"], [1, 3])}) == 3
    assert head(["a", "b"], [1, 2]) == head(["a", "b"], [1, 2])


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="dvc repro sft"):
        read_run(tmp_path / "sft", "dpo")


def adapted(pretrained: Path):  # type: ignore[no-untyped-def]
    from peft import get_peft_model

    from trainplane.align.adapter import lora_config

    with session.quiet():  # peft asks transformers by a name that it deprecated
        model = get_peft_model(load(pretrained), lora_config(SFTParams(data=["x"], lora_rank=2)))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return model


def test_the_merged_model_says_what_base_and_adapter_say(pretrained: Path) -> None:
    model = adapted(pretrained)
    merged, delta = merge(model, pretrained)
    assert 0 < delta <= 1e-4
    assert float((probe(merged) - probe(model)).abs().max()) == delta
    assert float((probe(merged) - probe(load(pretrained))).abs().max()) > 0.01


def test_a_merge_that_changes_the_model_is_refused(pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from peft import PeftModel

    model = adapted(pretrained)
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda self: self.unload(), raising=False)
    with pytest.raises(TrainingError, match="merging the adapter"):
        merge(model, pretrained)


@pytest.fixture
def chat_project(project: Path, pretrained: Path) -> Path:
    """A project with a pretrained model, twelve examples and twelve pairs."""
    (project / "models").mkdir()
    (project / "models" / "pretrain").symlink_to(pretrained)
    splits = ["train"] * 9 + ["held_out"] * 3
    talks = [[{"role": "user", "content": f"{QUESTIONS[i % 3]} {i}"}, {"role": "assistant", "content": f"Paris {i}"}] for i in range(12)]
    examples = [{"id": f"e{i}", "messages": talks[i], "split": split} for i, split in enumerate(splits)]
    pairs = [
        {"id": f"p{i}", "prompt": f"{QUESTIONS[i % 3]} {i}", "chosen": "Paris.", "rejected": "公园", "split": split}
        for i, split in enumerate(splits)
    ]
    (project / "instruct.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))
    (project / "preference.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    small = {"max_steps": 6, "batch_size": 4, "warmup_steps": 1, "lora_rank": 4, "learning_rate": 0.02, "max_length": 64, "threads": 1}
    params = {"sft": {"data": ["instruct.jsonl"]} | small, "dpo": {"data": ["preference.jsonl"]} | small}
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    return project


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def curve(path: str) -> list[dict[str, float]]:
    with Path(path).open() as stream:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]


@pytest.mark.slow
def test_both_stages_learn_record_what_they_consumed_and_repeat_bit_for_bit(chat_project: Path, pretrained: Path) -> None:
    from trainplane.stages import dpo, sft

    sft.main()
    metrics, run = read("metrics/sft.json"), read("models/sft/run.json")
    assert metrics["held_out_answer_loss_after"] < metrics["held_out_answer_loss_before"] - 0.5
    assert run["parent"] == read("models/pretrain/run.json")["digest"]
    assert run["digest"] == weights_digest(load(Path("models/sft"))) == metrics["digest"] != run["parent"]
    assert [row["step"] for row in curve("plots/sft.csv")] == [1, 2, 3, 4, 5, 6]
    entries = [json.loads(line) for line in Path("models/sft/consumed.jsonl").read_text().splitlines()]
    assert [*verify(entries)][-1]["chain_hash"] == run["chain_hash"]
    assert {name for entry in entries for name in entry["ids"]} == {f"e{i}" for i in range(9)}
    entries[2]["seq_ids"][0] += 1
    with pytest.raises(LedgerBroken):
        list(verify(entries))
    sft_folder = {path.relative_to("models/sft"): path.read_bytes() for path in Path("models/sft").rglob("*") if path.is_file()}

    dpo.main()
    rows, metrics, run = curve("plots/dpo.csv"), read("metrics/dpo.json"), read("models/dpo/run.json")
    assert rows[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert rows[-1]["margin"] > 0.01 > rows[0]["margin"] == 0
    assert rows[-1]["accuracy"] == metrics["held_out_reward_accuracy"] == 1
    assert metrics["held_out_margin_nats"] > 0
    assert (run["parent"], run["digest"]) == (read("models/sft/run.json")["digest"], weights_digest(load(Path("models/dpo"))))
    assert read("models/dpo/generation_config.json")["eos_token_id"] == [0, 5]

    sft.main()
    again = {path.relative_to("models/sft"): path.read_bytes() for path in Path("models/sft").rglob("*") if path.is_file()}
    assert sorted(path for path in sft_folder if sft_folder[path] != again.get(path)) == []
    first = run["digest"]
    dpo.main()
    assert read("models/dpo/run.json")["digest"] == first


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "qlora", "prefix"])
def test_the_stage_trains_by_each_kind_of_method(chat_project: Path, pretrained: Path, method: str) -> None:
    from trainplane.stages import sft

    params = yaml.safe_load(Path("params.yaml").read_text())
    params["sft"] |= {"method": method, "micro_batch": 2, "pack": method != "prefix", "retain": ["instruct.jsonl"]}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    sft.main()
    metrics, run = read("metrics/sft.json"), read("models/sft/run.json")
    assert metrics["held_out_answer_loss_after"] < metrics["held_out_answer_loss_before"]
    assert metrics["retained_answer_loss_after"] < metrics["retained_answer_loss_before"]
    assert (run["method"], run["merged"], Path("models/sft/model.safetensors").is_file()) == (
        method,
        method != "prefix",
        method != "prefix",
    )
    base = {"digest": weights_digest(load(pretrained)), "method": method}
    assert not Path("models/sft/adapter").exists() if method == "full" else read("models/sft/adapter/base.json") == base


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "first"), [("ipo", 25.0), ("kto", 0.5), ("orpo", None), ("simpo", None)])
def test_every_loss_raises_the_likelihood_of_the_chosen_over_the_rejected(chat_project: Path, loss: str, first: float | None) -> None:
    from trainplane.stages import dpo

    (chat_project / "models" / "sft").symlink_to((chat_project / "models" / "pretrain").resolve())
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["dpo"] |= {"loss": loss, "beta": 0.1 if loss != "simpo" else 2.0}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    dpo.main()
    metrics = read("metrics/dpo.json")
    assert metrics["held_out_margin_nats"] > 0.05
    assert (metrics["loss"], metrics["alarms"], read("models/dpo/run.json")["loss"]) == (loss, [], loss)
    assert metrics["first_loss"] == pytest.approx(first if first is not None else metrics["first_loss"], abs=1e-3)


@pytest.mark.slow
def test_a_diverging_run_stops_and_leaves_the_old_model(chat_project: Path) -> None:
    from trainplane.stages import sft

    params = yaml.safe_load(Path("params.yaml").read_text())
    params["sft"] |= {"learning_rate": 1e30, "warmup_steps": 0}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    Path("models/sft").mkdir()
    with pytest.raises(NotFinite, match="lower the learning rate"):
        sft.main()
    assert list(Path("models/sft").iterdir()) == []


def test_defaults_hold() -> None:
    assert (DPOParams(data=["x"]).beta, SFTParams(data=["x"]).threads) == (0.1, 1)
