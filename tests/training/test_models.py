"""Models of any architecture: packed = unpacked or refused, extended vocabularies, masked models, checkpoints that are trained on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataplane.errors import ParamsError
from tests.training.on_ranks import LENGTH, VOCABULARY, batches, job
from trainplane.params import ModelParams

torch = pytest.importorskip("torch")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "initializer_range": 0.3}
LLAMA = SIZES | {"model_type": "llama", "num_key_value_heads": 2, "max_position_embeddings": LENGTH}
QWEN3 = LLAMA | {"model_type": "qwen3", "head_dim": 8}
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LENGTH, "initializer_range": 0.3}
BERT = SIZES | {"model_type": "bert", "max_position_embeddings": LENGTH}
MAMBA = {"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "initializer_range": 0.3}


def built(config: Any, objective: str = "causal", vocab_size: int = VOCABULARY) -> Any:
    from trainplane.model.build import build

    params = ModelParams.parse(config, where="model")
    return build(params, vocab_size=vocab_size, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=1, objective=objective)


@pytest.mark.parametrize(
    ("config", "objective"), [(LLAMA, "causal"), (QWEN3, "causal"), (GPT2, "causal"), (BERT, "masked"), (BERT, "pairs")],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else value,
)  # fmt: skip
def test_packed_logits_are_those_of_each_document_alone(config: dict, objective: str) -> None:
    from trainplane.model.build import check_packing

    assert check_packing(built({"config": config}, objective), objective) < 1e-4


def test_a_mask_that_a_model_ignores_is_found() -> None:
    """The check can fail: the same model, with its mask dropped."""
    from trainplane.model.build import check_packing

    model = built({"config": LLAMA})
    forward = model.forward
    model.forward = lambda **inputs: forward(**inputs | {"attention_mask": None})
    assert check_packing(model) < 1e-4  # position_ids that restart are enough for transformers where there is no cache
    model.forward = lambda **inputs: forward(**inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])})
    with pytest.raises(ParamsError, match="LlamaForCausalLM"):
        check_packing(model)


def test_a_config_may_be_a_file_and_the_tokenizers_size_wins(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"vocab_size": 9, "architectures": ["X"], "transformers_version": "0"}))
    for place in (tmp_path, tmp_path / "config.json"):
        model = built({"config": str(place)})
        assert (type(model).__name__, model.config.vocab_size, model.config.eos_token_id) == ("LlamaForCausalLM", VOCABULARY, 0)


@pytest.mark.parametrize(
    ("config", "objective", "message"),
    [
        ({"model_type": "lama"}, "causal", "unknown model_type 'lama', did you mean"),
        (LLAMA, "masked", "llama cannot be built for the masked objective"),
        (MAMBA, "causal", "mamba cannot be built for the causal objective"),  # no attention, so no mask keeps documents apart
        ("nowhere.json", "causal", "no config of a model"),
    ],
)
def test_what_is_no_model_is_named(config: Any, objective: str, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        built({"config": config}, objective)


def test_config_and_checkpoint_exclude_each_other() -> None:
    with pytest.raises(ParamsError, match="give one of them"):
        ModelParams.parse({"config": LLAMA, "checkpoint": "x"}, where="model")


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_begin_at_the_mean_and_old_logits_stay(tied: bool, tmp_path: Path) -> None:
    from trainplane.model.build import save_model

    old = built({"config": LLAMA | {"tie_word_embeddings": tied}})
    save_model(old, tmp_path)
    new = built({"checkpoint": str(tmp_path)}, vocab_size=VOCABULARY + 5)
    for layer, before in (
        (new.get_input_embeddings(), old.get_input_embeddings()),
        (new.get_output_embeddings(), old.get_output_embeddings()),
    ):
        torch.testing.assert_close(layer.weight[:VOCABULARY], before.weight)
        torch.testing.assert_close(layer.weight[VOCABULARY:], before.weight.mean(dim=0).expand(5, -1))
    ids = torch.arange(2, 12)[None]
    torch.testing.assert_close(new(input_ids=ids).logits[..., :VOCABULARY], old(input_ids=ids).logits)
    assert new.config.vocab_size == VOCABULARY + 5


def test_a_masked_model_learns_from_the_same_batches() -> None:
    spec = {"steps": 30, "one_batch": True, "model": {"config": BERT | {"initializer_range": 0.02, "hidden_dropout_prob": 0.0}}}
    found = job(spec | {"params": {"objective": "masked", "learning_rate": 0.01, "mask_share": 0.5, "clip": 0.0}})
    assert found["loss"][0] == pytest.approx(np.log(VOCABULARY), abs=0.3)
    assert np.mean(found["loss"][-5:]) < found["loss"][0] - 0.2


def test_the_masked_loss_is_that_of_transformers() -> None:
    """Over hidden tokens alone, in one document without padding, where no mask of ours is needed."""
    from trainplane.data.packed import make_batch
    from trainplane.model.objective import Objective

    model, ids = built({"config": BERT}, "masked").eval(), batches(1, 4)[0].input_ids
    shown = Objective("masked", 0.3, 0, 1, VOCABULARY).shown(make_batch(np.arange(4), ids, [[{"seq_start": 0, "length": LENGTH}]] * 4), 1)
    with torch.no_grad():
        ours, *_ = Objective("masked").losses(model, shown, "cpu")
        theirs = model(input_ids=torch.from_numpy(shown.input_ids), labels=torch.from_numpy(shown.labels)).loss
    assert float(ours.sum() / shown.n_labels()) == pytest.approx(float(theirs), rel=1e-5)
