"""What supervised fine-tuning trains, packs, accumulates, merges and saves: equal losses, and models that say what they said."""

import json
from pathlib import Path

import pytest

from dataplane.errors import EnvironmentFault, ModelMissing, ParamsError
from trainplane.align import base, session
from trainplane.align.adapter import check_starts_at_base, load_adapted, merge, probe, save_adapter
from trainplane.align.base import base_of, merge_base_of
from trainplane.align.methods import MAX_START_DELTA, adapter_config
from trainplane.align.params import SFTParams
from trainplane.align.sft import Tokenised, answer_loss, make_trainer, train
from trainplane.data.answer_batch import first_fit, packed, padded
from trainplane.data.chat import Encoded
from trainplane.data.packed import IGNORED
from trainplane.errors import TrainingError
from trainplane.model.build import load, weights_digest

torch = pytest.importorskip("torch")

METHODS = ["full", "lora", "dora", "qlora", "ia3", "prompt", "prefix"]


def encoded(prompt: int, answer: int, first: int) -> Encoded:
    """An example with so many tokens of each, all different."""
    ids = [6 + (first + 3 * place) % 300 for place in range(prompt + answer)]
    return Encoded(ids, [IGNORED] * prompt + ids[prompt:])


EXAMPLES = [encoded(3, 9, 0), encoded(5, 2, 50), encoded(1, 1, 90), encoded(4, 14, 130), encoded(2, 6, 7), encoded(8, 3, 40)]


def sft(**more: object) -> SFTParams:
    return SFTParams.parse({"data": ["x"], "batch_size": 6, "max_steps": 1, "max_length": 32, "lora_rank": 2} | more, where="sft")


def trained(pretrained: Path, tokenizer, tmp_path: Path, **more: object):  # type: ignore[no-untyped-def]
    """A model after some steps, with the losses and gradient norms that the trainer logged."""
    params = sft(**({"max_steps": 3, "learning_rate": 0.01, "warmup_steps": 0} | more))
    with session.quiet():
        session.prepare_torch(0, 1)
        trainer = make_trainer(base_of(params.method, pretrained), tokenizer, EXAMPLES * params.max_steps, params, tmp_path)
        book = session.Book(tmp_path / "ledger", [str(n) for n in range(6)], [list(range(6))] * params.max_steps, "sft", {"loss": "loss"})
        logs: list[dict[str, float]] = []
        session.run(trainer, book, lambda step, log: logs.append(log))
    return trainer.model, [(log["loss"], log["grad_norm"]) for log in logs]


def test_a_packed_step_has_the_losses_and_gradients_of_an_unpacked_one(pretrained: Path, tokenizer, tmp_path: Path) -> None:
    _, plain = trained(pretrained, tokenizer, tmp_path)
    _, together = trained(pretrained, tokenizer, tmp_path, pack=True)
    assert together == [pytest.approx(step, rel=1e-5) for step in plain]


def test_examples_in_one_row_do_not_feel_each_other(pretrained: Path) -> None:
    model = load(pretrained).eval()
    batch = packed(EXAMPLES, 1, 32)
    batch.pop("labels")
    with torch.no_grad():
        logits = model(**batch, use_cache=False).logits
        row = first_fit([len(one.input_ids) for one in EXAMPLES], 32)[0]
        alone = torch.cat([model(input_ids=torch.tensor([EXAMPLES[place].input_ids]), use_cache=False).logits[0] for place in row])
    assert float((logits[0, : len(alone)] - alone).abs().max()) <= 1e-5


def test_attention_that_takes_the_mask_another_way_is_refused(pretrained: Path, tokenizer, tmp_path: Path) -> None:
    """eager attention adds the mask's trues and falses as numbers, so that examples would leak into each other."""
    model = load(pretrained)
    model.set_attn_implementation("eager")
    data = Tokenised(["a"], EXAMPLES[:1], 0, 0)
    with pytest.raises(ParamsError, match="change each other's logits"):
        train(model, tokenizer, data, sft(pack=True), tmp_path)


def test_rows_are_filled_and_labels_lie_within_examples() -> None:
    assert first_fit([12, 7, 2, 18, 8, 11], 32) == [[3, 0, 2], [5, 4, 1]]
    with pytest.raises(ValueError, match="12 tokens does not fit"):
        first_fit([12], 11)
    batch, plain = packed(EXAMPLES, 1, 32), padded(EXAMPLES, 1)
    assert sorted(batch["labels"][batch["labels"] != IGNORED].tolist()) == sorted(plain["labels"][plain["labels"] != IGNORED].tolist())
    leaking = [Encoded([6, 7], [6, 7]), Encoded([8, 9], [8, 9])]
    assert packed(leaking, 1, 4)["labels"].tolist() == [[IGNORED, 7, IGNORED, 9]]


def test_the_end_of_an_answer_is_learnt_even_where_padding_is_the_same_token() -> None:
    end = 2
    batch = padded([Encoded([5, 7, end], [IGNORED, 7, end]), Encoded([5, 7, 8, 9, end], [IGNORED, 7, 8, 9, end])], end)
    assert batch["labels"].tolist() == [[IGNORED, 7, end, IGNORED, IGNORED], [IGNORED, 7, 8, 9, end]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5]


@pytest.mark.parametrize("micro", [3, 2, 1])
def test_accumulation_changes_no_loss_and_no_gradient(pretrained: Path, tokenizer, tmp_path: Path, micro: int) -> None:
    """The micro-batches have unequal numbers of answer tokens, so that a mean of means would differ."""
    _, whole = trained(pretrained, tokenizer, tmp_path)
    _, parts = trained(pretrained, tokenizer, tmp_path, micro_batch=micro)
    assert parts == [pytest.approx(step, rel=1e-5) for step in whole]
    assert whole[0][0] == pytest.approx(answer_loss(load(pretrained), EXAMPLES, 1, 2), abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_each_method_learns_and_its_saved_form_says_the_same(pretrained: Path, tokenizer, tmp_path: Path, method: str) -> None:
    params = sft(method=method)
    model, steps = trained(pretrained, tokenizer, tmp_path, method=method, max_steps=4, learning_rate=0.02)
    assert steps[-1][0] < steps[0][0] - 0.01
    with session.quiet():
        if params.merges():
            merged, delta = merge(model, pretrained, method)
            assert (delta, float((probe(merged) - probe(model)).abs().max())) == (pytest.approx(0, abs=1e-5), delta)
            assert float((probe(merged) - probe(load(pretrained))).abs().max()) > 0.01
            assert {tensor.dtype for tensor in merged.state_dict().values()} == {torch.float32}
        if method != "full":
            save_adapter(model, tmp_path / "adapter", base_digest=weights_digest(load(pretrained)), method=method)
            again = load_adapted(pretrained, tmp_path / "adapter")
            assert float((probe(again) - probe(model)).abs().max()) <= 1e-5


@pytest.mark.parametrize("method", MAX_START_DELTA)
def test_an_adapter_that_was_just_put_on_changes_nothing(pretrained: Path, method: str) -> None:
    from peft import get_peft_model

    with session.quiet():
        start = probe(model := base_of(method, pretrained))
        check_starts_at_base(get_peft_model(model, adapter_config(sft(method=method))), start, allowed=MAX_START_DELTA[method])
        wrapped = get_peft_model(load(pretrained), adapter_config(sft(method="prompt")))
    with pytest.raises(TrainingError, match="fresh adapter changes logits"):
        check_starts_at_base(wrapped, probe(load(pretrained)))


def test_qlora_is_merged_onto_the_numbers_that_it_was_trained_on(pretrained: Path) -> None:
    with session.quiet():
        quantised, dequantised = base_of("qlora", pretrained), merge_base_of("qlora", pretrained)
    assert float((probe(quantised) - probe(dequantised)).abs().max()) <= 1e-5
    assert float((probe(dequantised) - probe(load(pretrained))).abs().max()) > 0.05


def test_qlora_without_its_package_is_refused(pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFault, match="bitsandbytes"):
        base_of("qlora", pretrained)


def test_an_adapter_is_refused_on_another_base(pretrained: Path, tokenizer, tmp_path: Path) -> None:
    model, _ = trained(pretrained, tokenizer, tmp_path, max_steps=1)
    save_adapter(model, tmp_path / "adapter", base_digest="0" * 32, method="lora")
    with pytest.raises(TrainingError, match="trained on a base with digest 0000"):
        load_adapted(pretrained, tmp_path / "adapter")
    (tmp_path / "adapter" / "base.json").write_text(json.dumps({"digest": 1}))
    with pytest.raises(ModelMissing, match=r"base\.json"):
        load_adapted(pretrained, tmp_path / "adapter")


def test_a_folder_with_an_adapter_alone_is_told_from_a_model(tmp_path: Path) -> None:
    (tmp_path / "sft" / "adapter").mkdir(parents=True)
    with pytest.raises(ModelMissing, match="an adapter that cannot be merged") as caught:
        load(tmp_path / "sft")
    assert "load_adapted" in caught.value.fix


@pytest.mark.parametrize(
    ("params", "told"), [({"method": "prompt", "pack": True}, "set pack: false"), ({"micro_batch": 4}, "multiple of micro_batch")]
)
def test_params_that_do_not_go_together_are_refused(params: dict[str, object], told: str) -> None:
    with pytest.raises(ParamsError, match=told):
        sft(**params)
