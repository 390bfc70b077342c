"""Pairs of segments: their own or another document's, from one sequence alone; the loss is that of transformers' head on each by itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataplane.errors import ParamsError
from tests.training.on_ranks import LENGTH, VOCABULARY, batches, job, run
from tests.training.test_models import BERT, LLAMA, built
from trainplane.data.packed import IGNORED, PADDING, Batch, make_batch
from trainplane.data.pairs import NEXT, OTHER, paired

torch = pytest.importorskip("torch")

SPANS = [(0, 6), (6, 10), (10, 13)]  # where documents begin and have ended, of 16 tokens


def rows(n: int, spans: list[tuple[int, int]] = SPANS) -> Batch:
    """Sequences in which every token is another one: a token tells where it is from."""
    ids = np.arange(100, 100 + LENGTH)[None] + 100 * np.arange(n)[:, None]
    return make_batch(np.arange(n), ids, [[{"seq_start": start, "length": end - start} for start, end in spans]] * n)


def test_a_second_segment_is_its_own_or_the_beginning_of_another_documents() -> None:
    before, after = rows(200), paired(rows(200), 0, 1)
    assert after.segments is not None
    assert after.pairs is not None
    sources = set()
    for row in range(200):
        cuts = [start + int((after.segments[row, start:end] == 0).sum()) for start, end in SPANS]
        for number, ((start, end), cut) in enumerate(zip(SPANS, cuts, strict=True)):
            assert start < cut < end
            assert after.segments[row, start:end].tolist() == [0] * (cut - start) + [1] * (end - cut)
            assert after.input_ids[row, start:cut].tolist() == before.input_ids[row, start:cut].tolist()
            assert after.pairs[row, start + 1 : end].tolist() == [IGNORED] * (end - start - 1)
            shown = after.input_ids[row, cut:end][after.documents[row, cut:end] != PADDING].tolist()
            if after.pairs[row, start] == NEXT:
                assert shown == before.input_ids[row, cut:end].tolist()
                continue
            assert after.pairs[row, start] == OTHER
            (other,) = (i for i, (first, last) in enumerate(SPANS) if first <= shown[0] - before.input_ids[row, 0] < last)
            theirs = before.input_ids[row, cuts[other] : SPANS[other][1]].tolist()
            assert shown == theirs[: end - cut]
            sources.add((number, other))
    assert sources == {(i, j) for i in range(3) for j in range(3) if i != j}
    asked = after.pairs[after.pairs != IGNORED]
    assert (after.n_pairs(), float((asked == OTHER).mean())) == (600, pytest.approx(0.5, abs=0.06))


def test_documents_of_one_token_and_those_alone_are_no_pairs() -> None:
    for spans, expected in (([(0, 16)], 0), ([(0, 15), (15, 16)], 0), ([(0, 8), (8, 9), (9, 16)], 2), ([], 0)):
        found = paired(rows(3, spans), 0, 1)
        assert found.n_pairs() == 3 * expected
        if not expected:
            np.testing.assert_array_equal(found.input_ids, rows(3, spans).input_ids)


def test_pairs_follow_from_seed_step_and_sequence_alone() -> None:
    whole, backwards = paired(rows(40), 0, 3), paired(rows(40).part(slice(None, None, -1)), 0, 3)
    np.testing.assert_array_equal(whole.input_ids, backwards.input_ids[::-1])
    np.testing.assert_array_equal(whole.pairs, backwards.pairs[::-1])
    for other in (paired(rows(40), 0, 4), paired(rows(40), 1, 3)):
        assert (other.pairs != whole.pairs).any()


def test_the_token_that_a_pair_is_told_by_is_not_hidden() -> None:
    from trainplane.model.objective import Objective

    shown = Objective("masked", 0.5, 0, 1, 1000, next_sentence=True).shown(rows(50), 1)
    starts = [start for start, _ in SPANS]
    assert (shown.labels[:, starts] == IGNORED).all()
    assert (shown.labels != IGNORED).mean() > 0.2
    shifted = paired(rows(50), 0, 1)
    np.testing.assert_array_equal(shown.labels[shown.labels != IGNORED], shifted.input_ids[shown.labels != IGNORED])


def test_the_loss_is_that_of_transformers_on_each_document_alone() -> None:
    from transformers import AutoConfig, AutoModelForPreTraining

    from trainplane.model.objective import Objective

    model = built({"config": BERT}, "pairs").eval()
    values = {name: value for name, value in model.config.to_dict().items() if name != "model_type"}
    plain = AutoModelForPreTraining.from_config(AutoConfig.for_model("bert", **values), attn_implementation="eager").eval()
    plain.load_state_dict(model.state_dict())
    objective = Objective("masked", 0.3, 0, 1, VOCABULARY, next_sentence=True)
    (batch,) = batches(1, 6)
    shown = objective.shown(batch, 2)
    tokens, pairs = [], []
    with torch.no_grad():
        losses, _, pair_loss = objective.losses(model, shown, "cpu")
        for row, number in [(i, j) for i in range(6) for j in range(int(shown.documents[i].max()) + 1)]:
            here = shown.documents[row] == number
            ids, segments, labels = (torch.from_numpy(of[row, here][None]) for of in (shown.input_ids, shown.segments, shown.labels))
            # Places of a document that is cut short stay those of its first tokens.
            told = plain(input_ids=ids, token_type_ids=segments)
            flat = torch.nn.functional.cross_entropy(told.prediction_logits[0], labels[0], ignore_index=IGNORED, reduction="sum")
            tokens.append(float(flat))
            label = int(shown.pairs[row, here][0])
            if label != IGNORED:
                pairs.append(-float(told.seq_relationship_logits[0].log_softmax(-1)[label]))
    assert len(pairs) == shown.n_pairs() > 3
    assert float(pair_loss) == pytest.approx(sum(pairs), rel=1e-5)
    assert float(losses.sum()) == pytest.approx(sum(tokens), rel=1e-5)


CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.02}
SPEC: dict[str, Any] = {"steps": 3, "model": {"config": BERT | CALM}}
PARAMS = {"objective": "masked", "next_sentence": True, "mask_share": 0.4}


def numbers(found: dict[str, Any]) -> list[float]:
    return [*found["loss"], *found["pair_loss"], *found["grad_norm"], found["held_out"]]


def test_accumulation_changes_nothing_and_the_gradient_is_of_both_means() -> None:
    one, eight = (job(SPEC | {"params": PARAMS | {"micro_batch": size}}) for size in (1, 8))
    assert numbers(one) == pytest.approx(numbers(eight), rel=2e-6)
    assert one["pair_loss"][0] == pytest.approx(np.log(2), abs=0.05)
    without = job(SPEC | {"params": PARAMS | {"next_sentence": False}})
    assert without["pair_loss"] == [None] * 3
    assert one["grad_norm"][0] != pytest.approx(without["grad_norm"][0], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("zero", [0, 2, 3])
def test_two_ranks_are_one(tmp_path: Path, zero: int) -> None:
    alone = job(SPEC | {"params": PARAMS})
    assert numbers(run(tmp_path, 2, SPEC | {"params": PARAMS | {"zero_stage": zero}})) == pytest.approx(numbers(alone), rel=5e-6)


def test_a_saved_model_answers_for_each_place_again(tmp_path: Path) -> None:
    from trainplane.model.build import load, save_model

    model = built({"config": BERT}, "pairs").eval()
    save_model(model, tmp_path)
    ids = torch.arange(2, 12)[None]
    with torch.no_grad():
        before, after = (of(input_ids=ids).seq_relationship_logits for of in (model, load(tmp_path, "pairs").eval()))
    assert before.shape == (1, 10, 2)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-6)


def test_a_model_without_a_head_for_pairs_is_named() -> None:
    with pytest.raises(ParamsError, match="has no head for pairs"):
        built({"config": LLAMA | {"model_type": "roberta"}}, "pairs")
