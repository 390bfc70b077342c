"""Answers judged each by itself: read strictly, both labels needed, and told apart after KTO has learnt from them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from dataplane import schema
from dataplane.conversation import Conversation, Turn, render
from dataplane.errors import DataError, SourceError
from trainplane.align.judged import check_labels, judged_metrics
from trainplane.align.params import DPOParams, SFTParams
from trainplane.align.preference import Tokenised
from trainplane.align.training_data import examples_of, judged_of
from trainplane.data.chat import ChatEncoder
from trainplane.data.judged import EncodedAnswer, Judged, encode_judged, read_judged
from trainplane.evaluate.uncertainty import superiority

torch = pytest.importorskip("torch")
ASKED = (Turn("user", "hi"), Turn("assistant", "hello"), Turn("user", "1+1?"))


def params(**more: object) -> DPOParams:
    return DPOParams(loss="kto", unpaired=True, **more)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"completion": " "}, "'completion' is empty"),
        ({"prompt": ""}, "'prompt' is empty"),
        ({"label": "yes"}, "'label' is 'yes', expected true or false"),
        ({"label": None}, "'label' is None"),
        ({"split": "test"}, "neither 'train' nor 'held_out'"),
        ({"id": "a"}, "'a' comes twice"),
    ],
)
def test_a_wrong_record_is_named(tmp_path: Path, record: dict[str, object], told: str) -> None:
    whole = {"id": "b", "prompt": "q", "completion": "c", "label": True}
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(one) for one in (whole | {"id": "a"}, whole | record)))
    with pytest.raises(SourceError, match=f"{told}.*x.jsonl:2|x.jsonl:2.*{told}"):
        read_judged(["x.jsonl"], tmp_path)


def test_files_and_lake_give_judged_answers_which_no_other_stage_takes(project: Path, put) -> None:
    texts = {
        "a": render(Conversation(ASKED, judged="2", desirable=True)),
        "b": render(Conversation((Turn("user", "1+1?"), Turn("assistant", "2")))),
    }
    put(
        "documents",
        pa.Table.from_pylist([{"doc_id": n, "source": "s", "kind": "p", "text": text} for n, text in texts.items()], schema.DOCUMENTS),
    )
    put(
        "raw", pa.Table.from_pylist([{"doc_id": n, "source": "s", "meta": '{"split": "train"}', "payload": b""} for n in texts], schema.RAW)
    )
    put("decontaminated", pa.Table.from_pylist([{"doc_id": n} for n in texts], schema.IDS))
    (project / "x.jsonl").write_text(json.dumps({"id": "f", "prompt": "q", "completion": "c", "label": False, "split": "held_out"}))
    assert judged_of(params(data=["x.jsonl"], sources=["s"]), project, "dpo") == [
        Judged("f", (Turn("user", "q"),), "c", False, "", "held_out"), Judged("a", ASKED, "2", True, "s", "train"),
    ]  # fmt: skip
    assert [one.id for one in examples_of(SFTParams(sources=["s"]), project, "sft")] == ["b"]


def test_an_answer_is_encoded_as_the_last_turn_of_its_conversation(tokenizer) -> None:
    encoder = ChatEncoder(tokenizer)
    encoded = encode_judged(Judged("a", ASKED, "2", False, "s", "train"), encoder)
    whole = encoder.encode([*ASKED, Turn("assistant", "2")]).input_ids
    assert (encoded.prompt_ids + encoded.answer_ids, encoded.desirable, encoded.longest()) == (whole, False, len(whole))
    assert encoded.prompt_ids == encoder.prompt(ASKED)


@pytest.mark.parametrize(("label", "told"), [(True, "all 2 train answers are desirable"), (False, "are undesirable")])
def test_one_label_alone_is_refused(label: bool, told: str) -> None:
    with pytest.raises(DataError, match=told):
        check_labels([EncodedAnswer([1], [2], label), EncodedAnswer([3], [2], label)], "train")
    check_labels([EncodedAnswer([1], [2], True), EncodedAnswer([3], [2], False)], "train")


def test_the_area_is_scikit_learns_and_its_interval_holds_it() -> None:
    from sklearn.metrics import roc_auc_score

    better, worse = [0.1, 0.4, 0.4, 0.9, 1.3], [0.2, 0.4, -1.0, 0.0]
    found = superiority(better, worse, seed=0, resamples=2000)
    assert found.value == pytest.approx(roc_auc_score([1] * 5 + [0] * 4, better + worse), abs=1e-12)
    assert found.low < found.value < found.high <= 1
    alike = superiority([1.0] * 4, [1.0] * 3, seed=0, resamples=50)
    assert (alike.value, alike.low, alike.high) == (0.5, 0.5, 0.5)


def test_metrics_count_labels_weights_and_answers_judged_both_ways() -> None:
    good, bad = EncodedAnswer([1], [2], True), EncodedAnswer([1], [2], False)
    data = Tokenised(["a", "b", "c", "d"], [good, bad, EncodedAnswer([1], [3], True), EncodedAnswer([1, 2], [], True)], 5)
    held_out = Tokenised(["e", "f", "g"], [good, bad, good], 0)
    told = judged_metrics(data, held_out, torch.tensor([1.0, 2.0, 3.0]).double(), params(data=["x"], undesirable_weight=2.0))
    assert (told["desirable"], told["undesirable"], told["judged_both_ways"], told["weight_ratio"]) == (3, 1, 1, 1.5)
    assert (told["answers_too_long"], told["held_out_reward_auc"]) == (5, 0.5)
    assert (told["held_out_desirable_gain_nats"], told["held_out_undesirable_gain_nats"]) == (2.0, 2.0)


@pytest.mark.slow
def test_kto_learns_from_judged_answers_of_unequal_number(project: Path, pretrained: Path) -> None:
    from trainplane.stages import dpo

    (project / "models").mkdir()
    (project / "models" / "sft").symlink_to(pretrained)
    rows = [
        {"id": f"j{i}", "prompt": f"Who is number {i}?", "completion": "公园" if i % 3 == 0 else "Paris.", "label": i % 3 != 0,
         "split": "held_out" if i >= 18 else "train"}
        for i in range(27)
    ]  # fmt: skip
    (project / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ours = {
        "data": ["x.jsonl"], "loss": "kto", "unpaired": True, "undesirable_weight": 2.0, "max_steps": 8, "batch_size": 3, "warmup_steps": 1,
        "lora_rank": 4, "learning_rate": 0.02, "max_length": 64,
    }  # fmt: skip
    (project / "params.yaml").write_text(yaml.safe_dump({"dpo": ours}))
    dpo.main()
    metrics, first = (
        json.loads(Path("metrics/dpo.json").read_text()),
        json.loads(Path("models/dpo/consumed.jsonl").read_text().splitlines()[0]),
    )
    weights = sum(1.0 if int(name[1:]) % 3 else 2.0 for name in first["ids"])
    assert metrics["first_loss"] == pytest.approx(weights / 3 / 2, abs=1e-5)
    assert (metrics["desirable"], metrics["undesirable"], metrics["weight_ratio"], metrics["alarms"]) == (12, 6, 1.0, [])
    assert metrics["held_out_reward_auc"] == 1
    assert metrics["held_out_desirable_gain_nats"] > 0.05 > metrics["held_out_undesirable_gain_nats"]
