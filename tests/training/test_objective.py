"""What is predicted: shorter pieces lose no token, hidden tokens follow from (seed, step, sequence), z-loss is its formula."""

import numpy as np
import pytest

from tests.training.on_ranks import LENGTH, batches, job
from trainplane.data.packed import IGNORED, PADDING, make_batch

torch = pytest.importorskip("torch")

MASK, VOCABULARY = 1, 1000


def wide(n: int = 40, length: int = 128):  # type: ignore[no-untyped-def]
    ids = np.random.default_rng(0).integers(2, VOCABULARY, (n, length))
    return make_batch(np.arange(n), ids, [[{"seq_start": 0, "length": 50}, {"seq_start": 50, "length": 70}]] * n)


def masked(seed: int = 0):  # type: ignore[no-untyped-def]
    from trainplane.model.objective import Objective

    return Objective("masked", 0.15, seed, MASK, VOCABULARY)


def test_pieces_keep_every_token_and_label_and_begin_their_positions_anew() -> None:
    (batch,) = batches(1, 3)
    pieces = batch.pieces(4)
    assert (pieces.input_ids.shape, pieces.n_pieces) == ((3 * LENGTH // 4, 4), LENGTH // 4)
    np.testing.assert_array_equal(pieces.input_ids.ravel(), batch.input_ids.ravel())
    np.testing.assert_array_equal(pieces.labels.ravel(), batch.labels.ravel())
    whole = pieces.whole()
    np.testing.assert_array_equal((whole.seq_ids, whole.documents.ravel()[:3]), (batch.seq_ids, batch.documents.ravel()[:3]))
    for row, documents in zip(pieces.position_ids, pieces.documents, strict=True):
        expected = [int((documents[:i] == documents[i]).sum()) if documents[i] != PADDING else 0 for i in range(4)]
        assert row.tolist() == expected
    with pytest.raises(ValueError, match="pieces of 5"):
        batch.pieces(5)


def test_the_length_schedule_is_a_function_of_the_step() -> None:
    from trainplane.params import PretrainParams

    params = PretrainParams.parse({"length_schedule": [{"from_step": 1, "length": 8}, {"from_step": 4, "length": 32}]}, where="pretrain")
    assert [params.length_of_step(step, 64) for step in (1, 3, 4, 9)] == [8, 8, 32, 32]
    assert PretrainParams().length_of_step(7, 64) == 64


def test_shorter_sequences_train_on_the_same_tokens() -> None:
    spec = {"steps": 2, "params": {"length_schedule": [{"from_step": 1, "length": 4}, {"from_step": 2, "length": LENGTH}]}}
    found = job(spec)
    assert [len(losses) for losses in found["losses"]] == [8, 8]
    for loss, losses, batch in zip(found["loss"], found["losses"], batches(2, 8), strict=True):
        assert loss == pytest.approx(np.average(losses, weights=batch.label_counts()), rel=1e-6)


def test_masking_has_berts_shares_and_predicts_only_chosen_tokens() -> None:
    batch, shown = wide(400), masked().shown(wide(400), 3)
    chosen, real = shown.labels != IGNORED, batch.documents != PADDING
    np.testing.assert_array_equal(shown.labels[chosen], batch.input_ids[chosen])
    np.testing.assert_array_equal(shown.input_ids[~chosen], batch.input_ids[~chosen])
    assert not (chosen & ~real).any()
    hidden, kept = shown.input_ids[chosen] == MASK, shown.input_ids[chosen] == batch.input_ids[chosen]
    shares = [chosen[real].mean(), hidden.mean(), kept.mean(), (~hidden & ~kept).mean()]
    assert shares == pytest.approx([0.15, 0.8, 0.1, 0.1], abs=0.012)


def test_masking_follows_from_seed_step_and_sequence_alone() -> None:
    whole = masked().shown(wide(), 3)
    backwards = masked().shown(wide().part(slice(None, None, -1)), 3)
    np.testing.assert_array_equal(whole.input_ids, backwards.input_ids[::-1])
    for other in (masked().shown(wide(), 4), masked(1).shown(wide(), 3)):
        assert (other.input_ids != whole.input_ids).any()


def test_the_held_out_loss_of_a_masked_model_is_that_of_hidden_tokens() -> None:
    from tests.training.test_models import BERT, built
    from trainplane.params import PretrainParams
    from trainplane.pretrain.engine import Engine
    from trainplane.pretrain.held_out import HeldOut

    model = built({"config": BERT}, "masked")
    params = PretrainParams(objective="masked", mask_share=0.4, global_batch=2, micro_batch=2, threads=1)
    engine, held_out = Engine(model, params), HeldOut.of([list(range(5, 14)), list(range(30, 41)), [7, 8, 9]], LENGTH, 0, 1)
    loss, _ = held_out.losses(engine)
    shown = engine.objective.shown(held_out.batch, 0)
    expected, model = [], model.eval()
    for row in range(3):
        real = shown.documents[row] != PADDING
        ids, labels = (torch.from_numpy(of[row, real][None]) for of in (shown.input_ids, shown.labels))
        with torch.no_grad():
            scores_TV = model(input_ids=ids).logits[0].log_softmax(-1)
        expected += [-float(scores_TV[at, label]) for at, label in enumerate(labels[0]) if label != IGNORED]
    assert 3 < len(expected) < 20
    assert loss == pytest.approx(float(np.mean(expected)), rel=1e-5)
    assert held_out.losses(engine)[0] == loss


def test_z_loss_is_its_formula() -> None:
    from trainplane.model.objective import Objective

    logits = torch.randn(3, LENGTH, 64, generator=torch.Generator().manual_seed(0))

    class Fixed:
        def __call__(self, **_: object) -> "Fixed":
            return self

    Fixed.logits = logits  # type: ignore[attr-defined]
    (batch,) = batches(1, 3)
    losses, penalty, _ = Objective("causal").losses(Fixed(), batch, "cpu", 0.5)
    predicted = torch.from_numpy(batch.labels) != IGNORED
    z = logits.exp().sum(-1).log()
    torch.testing.assert_close(penalty, 0.5 * (z[predicted] ** 2).sum())
    chosen = logits.gather(-1, torch.from_numpy(batch.labels).clamp(min=0)[..., None])[..., 0]
    torch.testing.assert_close(losses[predicted], (z - chosen)[predicted], atol=1e-5, rtol=1e-5)
    assert float(losses[~predicted].abs().max()) == 0
