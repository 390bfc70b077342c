"""Defaults derived from the size of the model: the ladder's own worked numbers."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import schema
from dataplane.errors import ParamsError
from trainplane.params import ModelParams
from trainplane.pretrain.defaults import derived, resolved, size

ALL = dict.fromkeys(("learning_rate", "global_batch", "steps", "warmup_steps", "beta2"), "auto")


@pytest.mark.parametrize(
    ("n", "rate", "batch_tokens"),
    [(10e6, 5.2e-3, 67e3), (30e6, 3.6e-3, 140e3), (108e6, 2.35e-3, 328e3), (190e6, 1.95e-3, 478e3), (1e9, 1.1e-3, 1.4e6)],
)
def test_rate_and_batch_are_the_ladders_worked_examples(n: float, rate: float, batch_tokens: float) -> None:
    found = derived(ALL | {"micro_batch": 1}, int(n), 512)
    assert found["learning_rate"] == pytest.approx(rate, rel=0.03)
    assert found["global_batch"] * 512 == pytest.approx(batch_tokens, rel=0.04)


def test_steps_are_twenty_tokens_a_parameter_and_warm_up_one() -> None:
    params = resolved(ALL | {"micro_batch": 4, "global_batch": 16}, n_parameters=1_000_000, sequence_length=100)
    assert (params.global_batch, params.steps, params.warmup_steps, params.beta2) == (16, 12_500, 625, 0.99)
    assert resolved(ALL, n_parameters=10**9, sequence_length=2048).beta2 == 0.95


def test_what_is_given_stays_and_what_cannot_be_auto_is_refused() -> None:
    assert resolved({"learning_rate": 0.5}, n_parameters=10, sequence_length=8).learning_rate == 0.5
    with pytest.raises(ParamsError, match="seed"):
        resolved({"seed": "auto"}, n_parameters=10, sequence_length=8)


@pytest.mark.parametrize("tied", [True, False])
def test_the_size_leaves_out_the_input_embedding_alone(tied: bool) -> None:
    model = ModelParams(hidden_size=32, n_layers=2, n_heads=4, n_kv_heads=2, intermediate_size=64, tie_embeddings=tied)
    layer = 32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 64 + 2 * 32
    assert size(model, 100, 16, "causal") == 2 * layer + 32 + 100 * 32


def test_the_plan_is_printed_with_the_deepspeed_config(put, project: Path, tokenizer_folder: Path) -> None:  # type: ignore[no-untyped-def]
    from trainplane.cli import main

    span = {"doc_id": "0" * 32, "seq_start": 0, "doc_start": 0, "length": 16}
    put("packed", pa.Table.from_pylist([{"seq_id": 0, "n_tokens": 16, "input_ids": [2] * 16, "spans": [span]}], schema=schema.packed(16)))
    (project / "models").mkdir()
    (project / "models/tokenizer").symlink_to(tokenizer_folder)
    (project / "params.yaml").write_text("model: {}\npretrain: {micro_batch: 2, global_batch: 8, learning_rate: auto, zero_stage: 2}\n")
    plan = json.loads(CliRunner().invoke(main, ["config", "--ranks", "2", "--json"]).output)
    assert (plan["deepspeed"]["gradient_accumulation_steps"], plan["deepspeed"]["zero_optimization"]) == (2, {"stage": 2})
    assert plan["derived"] == {"learning_rate": plan["deepspeed"]["optimizer"]["params"]["lr"]}
    refused = CliRunner().invoke(main, ["config", "--ranks", "3"])
    assert (refused.exit_code, "no multiple of micro_batch 2 x 3 ranks" in refused.output) == (2, True)
