"""The numbers of a step: a plain PyTorch step is the oracle, and neither accumulation, ranks nor ZeRO change them."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.training.on_ranks import LAYOUTS, LENGTH, MODEL, VOCABULARY, batches, job, run
from trainplane.data.packed import IGNORED, make_batch

torch = pytest.importorskip("torch")

RANKS_TOLERANCE = 1e-6  # relative, fp32: sums of floats in another order
STEPS = 3


def spec(**params: object) -> dict:
    return {"steps": STEPS, "params": params}


@pytest.fixture(scope="module")
def plain() -> dict:
    return without_deepspeed(batches(STEPS, 8))


def without_deepspeed(data: list) -> dict:
    """The job without DeepSpeed: torch's AdamW, one backward pass, one clip."""
    from trainplane.model.build import build
    from trainplane.model.masking import block_causal_mask
    from trainplane.params import ModelParams

    torch.set_num_threads(1)
    model = build(ModelParams.model_validate(MODEL), vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=3)
    embedding = model.get_input_embeddings().weight
    decayed = [p for p in model.parameters() if p.ndim == 2 and p is not embedding]
    rest = [p for p in model.parameters() if p.ndim == 1 or p is embedding]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95), eps=1e-8
    )

    def mean_loss(batch) -> torch.Tensor:
        mask = block_causal_mask(torch.from_numpy(batch.documents))
        ids, positions = torch.from_numpy(batch.input_ids), torch.from_numpy(batch.position_ids)
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.labels).flatten(), ignore_index=IGNORED)

    losses, norms = [], []
    for batch in data:
        loss = mean_loss(batch)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    (held_out,) = batches(1, 5, seed=9)
    return {"loss": losses, "grad_norm": norms, "held_out": float(mean_loss(held_out).detach())}


def numbers(found: dict) -> list[float]:
    return [*found["loss"], *found["grad_norm"], found["held_out"]]


@pytest.mark.parametrize("micro_batch", [1, 2, 8])
def test_accumulation_changes_nothing_and_a_plain_step_says_the_same(plain: dict, micro_batch: int) -> None:
    assert numbers(job(spec(micro_batch=micro_batch))) == pytest.approx(numbers(plain), rel=RANKS_TOLERANCE)


def test_two_ranks_are_one(plain: dict, tmp_path: Path) -> None:
    assert numbers(run(tmp_path, 2, spec())) == pytest.approx(numbers(plain), rel=RANKS_TOLERANCE)


SCHEDULE = {"global_batch": 4, "batch_schedule": [{"from_step": 2, "sequences": 8}, {"from_step": 3, "sequences": 12}]}


def test_a_schedule_of_batches_is_a_plain_step_over_each() -> None:
    expected = without_deepspeed(batches(STEPS, lambda step: 4 * step))
    assert numbers(job(spec(**SCHEDULE))) == pytest.approx(numbers(expected), rel=RANKS_TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_schedule_of_batches_is_the_same_on_two_ranks(tmp_path: Path, zero: int) -> None:
    expected = without_deepspeed(batches(STEPS, lambda step: 4 * step))
    assert numbers(run(tmp_path, 2, spec(**SCHEDULE, zero_stage=zero))) == pytest.approx(numbers(expected), rel=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "params"), LAYOUTS)
def test_every_layout_gives_the_numbers_of_one_rank(plain: dict, tmp_path: Path, ranks: int, params: dict) -> None:
    assert numbers(run(tmp_path, ranks, spec(**params))) == pytest.approx(numbers(plain), rel=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "zero_stage", "pipeline"),
    [("bf16", 0, 1), ("bf16", 1, 1), ("bf16", 2, 1), ("bf16", 3, 1), ("fp16", 1, 1), ("fp16", 2, 1), ("fp16", 3, 1),
     ("bf16", 1, 2)],
)  # fmt: skip
def test_half_precision_is_near(plain: dict, tmp_path: Path, precision: str, zero_stage: int, pipeline: int) -> None:
    """8 bits of bf16's fraction, 11 of fp16's: the losses differ in the third digit at most."""
    found = run(tmp_path, 2, spec(precision=precision, zero_stage=zero_stage, parallel={"pipeline": pipeline}))
    assert found["applied"] == [True] * STEPS
    assert found["loss"] == pytest.approx(plain["loss"], rel=4e-3)
    assert found["grad_norm"] == pytest.approx(plain["grad_norm"], rel=2e-2)


@pytest.mark.slow
def test_stages_of_a_model_with_an_output_matrix_of_its_own_give_the_numbers_of_one_rank(tmp_path: Path) -> None:
    untied = {"steps": STEPS, "model": {"tie_embeddings": False, "n_layers": 3}}
    found = run(tmp_path, 2, untied | {"params": {"parallel": {"pipeline": 2}, "z_loss": 1e-3, "clip": 0.1}})
    assert numbers(found) == pytest.approx(numbers(job(untied | {"params": {"z_loss": 1e-3, "clip": 0.1}})), rel=5e-6)


@pytest.mark.slow
def test_schedules_of_batches_and_lengths_are_the_same_in_a_pipeline(tmp_path: Path) -> None:
    both = spec(**SCHEDULE, length_schedule=[{"from_step": 1, "length": 8}, {"from_step": 3, "length": 16}])
    both["params"] |= {"micro_batch": 2}
    piped = {**both, "params": both["params"] | {"parallel": {"pipeline": 2}}}
    assert numbers(run(tmp_path, 2, piped)) == pytest.approx(numbers(job(both)), rel=5e-6)


@pytest.mark.slow
def test_fp16_leaves_out_a_step_that_overflows_and_lowers_its_scale(tmp_path: Path) -> None:
    found = run(tmp_path, 1, {"steps": 12, "params": {"precision": "fp16", "zero_stage": 1, "initial_scale_power": 24}})
    assert (found["applied"][0], found["applied"][-2:]) == (False, [True, True])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["muon", "lamb"])
def test_optimizers_of_whole_matrices_learn_and_two_ranks_are_one(tmp_path: Path, optimizer: str) -> None:
    how = {"steps": 12, "one_batch": True, "params": {"optimizer": optimizer, "learning_rate": 0.01}}
    alone, together = job(how), run(tmp_path, 2, how)
    assert together["loss"] == pytest.approx(alone["loss"], rel=1e-4)  # Muon's own products are in bf16
    assert alone["loss"][-1] < alone["loss"][0] - 0.5


def test_the_mean_is_over_tokens_not_over_rows_or_batches() -> None:
    """Sums 2 and 90 over 1 and 9 tokens are 92/10, not the mean of 2 and 10."""
    found = job(spec(micro_batch=1))
    for loss, losses, batch in zip(found["loss"], found["losses"], batches(STEPS, 8), strict=True):
        assert loss == pytest.approx(np.average(losses, weights=batch.label_counts()), rel=1e-9)
    assert np.average([2 / 1, 90 / 9], weights=[1, 9]) == pytest.approx(9.2)


def test_norms_and_embeddings_do_not_decay() -> None:
    """With no gradient to speak of, decay alone moves the weights: by rate x decay, and only matrices."""
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.optimizer import groups

    model = build(ModelParams.model_validate(MODEL), vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=3)
    found = {group["name"]: group for group in groups(model, PretrainParams(weight_decay=0.3))}
    assert {name: group["weight_decay"] for name, group in found.items()} == {"matrices": 0.3, "embeddings": 0.0, "vectors": 0.0}
    names = {id(p): name for name, p in model.named_parameters()}
    assert [names[id(p)] for p in found["embeddings"]["params"]] == ["model.embed_tokens.weight"]
    assert {names[id(p)].rsplit(".", 2)[-2] for p in found["vectors"]["params"]} == {"input_layernorm", "post_attention_layernorm", "norm"}
    assert sum(len(group["params"]) for group in found.values()) == len(list(model.parameters()))


def orthogonal(matrix: np.ndarray) -> np.ndarray:
    """Five steps of Newton-Schulz with the published coefficients, in double precision."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / np.linalg.norm(wide)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def test_muon_is_momentum_made_orthogonal() -> None:
    """Three steps of a matrix against the definition in numpy; a vector beside it is AdamW's. Newton-Schulz in bf16 is off by under 2 %."""
    from trainplane.pretrain.optimizer import muon

    draw = np.random.default_rng(0)
    start, gradients = draw.normal(size=(6, 4)), draw.normal(size=(3, 6, 4))
    matrix, vector, same = (torch.nn.Parameter(torch.tensor(values, dtype=torch.float32)) for values in (start, [1.0, 2.0], [1.0, 2.0]))
    both = muon(
        [{"params": [matrix], "weight_decay": 0.1, "name": "matrices"}, {"params": [vector], "weight_decay": 0.0, "name": "vectors"}],
        0.02, (0.9, 0.95), 1e-8,
    )  # fmt: skip
    adam = torch.optim.AdamW([same], lr=0.02, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    expected, momentum = start.copy(), np.zeros_like(start)
    for gradient in gradients:
        matrix.grad = torch.tensor(gradient, dtype=torch.float32)
        vector.grad, same.grad = torch.tensor([0.5, -2.0]), torch.tensor([0.5, -2.0])
        both.step()
        adam.step()
        momentum = 0.95 * momentum + 0.05 * gradient
        update = orthogonal(0.05 * gradient + 0.95 * momentum)  # Nesterov's
        expected = expected * (1 - 0.02 * 0.1) - 0.02 * 0.2 * math.sqrt(6) * update
    off = np.linalg.norm(matrix.detach().numpy() - expected) / np.linalg.norm(expected - start)
    assert off == pytest.approx(0, abs=0.02)
    assert torch.equal(vector, same)
    assert np.linalg.svd(orthogonal(start), compute_uv=False) == pytest.approx(np.ones(4), abs=0.4)


def test_an_output_matrix_of_its_own_is_no_matrix_of_muon() -> None:
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.optimizer import groups

    untied = ModelParams.model_validate(MODEL | {"tie_embeddings": False})
    model = build(untied, vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=3)
    found = {group["name"]: group for group in groups(model, PretrainParams(weight_decay=0.3))}
    assert [id(p) for p in found["head"]["params"]] == [id(model.lm_head.weight)]
    assert (found["head"]["weight_decay"], len(found["matrices"]["params"])) == (0.3, 14)


def test_lamb_moves_each_tensor_by_its_own_size() -> None:
    """One step, as the definition says: w - rate * |w| / |d| * d, with d = Adam's direction + decay * w."""
    from trainplane.pretrain.optimizer import lamb

    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    weight.grad = torch.tensor([[0.5, -2.0]])
    optimizer = lamb([{"params": [weight], "weight_decay": 0.1}], 0.01, (0.9, 0.99), 1e-6)
    optimizer.step()
    direction = np.array([1 + 0.3, -1 + 0.4])  # after one step, Adam's direction is the gradient's sign
    expected = np.array([3.0, 4.0]) - 0.01 * 5 / np.linalg.norm(direction) * direction
    np.testing.assert_allclose(weight.detach().numpy()[0], expected, rtol=1e-5)


def test_a_loss_that_is_not_finite_updates_nothing() -> None:
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.engine import Engine

    model = build(ModelParams.model_validate(MODEL), vocab_size=VOCABULARY, sequence_length=LENGTH, eos_id=0, pad_id=1, seed=3)
    engine = Engine(model, PretrainParams(global_batch=2, micro_batch=1, threads=1))
    embedding = model.get_input_embeddings().weight
    good = embedding[7].detach().clone()
    with torch.no_grad():
        embedding[7] = math.nan
    before = [p.detach().clone() for p in model.parameters()]
    batch = make_batch(np.arange(2), np.array([[2, 3, 4, 5], [2, 3, 7, 5]]), [[{"seq_start": 0, "length": 4}]] * 2)
    result = engine.step(batch, 1e-3)
    assert (math.isnan(result.loss), math.isnan(result.grad_norm), result.applied) == (True, True, False)
    assert all(torch.equal(a.nan_to_num(9), b.detach().nan_to_num(9)) for a, b in zip(before, model.parameters(), strict=True))
    with torch.no_grad():
        embedding[7] = good
    assert math.isfinite(engine.step(batch, 1e-3).grad_norm)  # no gradient of the broken step is left
