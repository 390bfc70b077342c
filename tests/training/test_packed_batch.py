"""Packed sequences: labels, positions and masks by document; packed loss = unpacked loss."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from trainplane.data.packed import IGNORED, PADDING, Packed, make_batch
from trainplane.model.masking import block_causal_mask

torch = pytest.importorskip("torch")

EOS, PAD = 0, 1
DOCUMENTS = [[5, 6, 7, EOS], [8, EOS], [9, 10, 11, 12, 13, EOS], [14, EOS]]
LENGTH = 16


def sequence() -> tuple[list[int], list[dict]]:
    ids = [token for document in DOCUMENTS for token in document]
    spans, at = [], 0
    for document in DOCUMENTS:
        spans.append({"seq_start": at, "length": len(document)})
        at += len(document)
    return ids + [PAD] * (LENGTH - len(ids)), spans


def test_labels_are_the_next_token_of_the_same_document() -> None:
    ids, spans = sequence()
    batch = make_batch(np.array([0]), np.array([ids]), [spans])
    expected = [6, 7, EOS, IGNORED, EOS, IGNORED, 10, 11, 12, 13, EOS, IGNORED, EOS, IGNORED, IGNORED, IGNORED]
    assert batch.labels.tolist() == [expected]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5, 0, 1, 0, 0]]
    assert batch.documents.tolist() == [[0] * 4 + [1] * 2 + [2] * 6 + [3] * 2 + [PADDING] * 2]
    assert batch.n_labels() == sum(len(document) - 1 for document in DOCUMENTS)


def batch_by_definition(ids: np.ndarray, spans: list[list[dict]]) -> list[np.ndarray]:
    """documents, position_ids and labels, span by span."""
    documents, positions, labels = np.full_like(ids, PADDING), np.zeros_like(ids), np.full_like(ids, IGNORED)
    for row, row_spans in enumerate(spans):
        for number, span in enumerate(row_spans):
            start, stop = span["seq_start"], span["seq_start"] + span["length"]
            documents[row, start:stop] = number
            positions[row, start:stop] = np.arange(stop - start)
            labels[row, start : stop - 1] = ids[row, start + 1 : stop]
    return [documents, positions, labels]


def test_batches_of_any_spans_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        n, width = rng.integers(1, 5), rng.integers(1, 20)
        ids, spans = rng.integers(0, 99, (n, width)), []
        for _ in range(n):
            edges = [0, *np.unique(rng.integers(1, width + 1, rng.integers(0, 5))).tolist()]
            spans.append([{"seq_start": a, "length": b - a} for a, b in itertools.pairwise(edges)])
        batch = make_batch(np.arange(n), ids, spans)
        found = [batch.documents, batch.position_ids, batch.labels]
        assert [array.tolist() for array in found] == [array.tolist() for array in batch_by_definition(ids, spans)]


def test_the_mask_is_that_of_the_definition() -> None:
    documents = torch.tensor([[0, 0, 1, 1, 1, PADDING, PADDING]])
    mask = block_causal_mask(documents)[0, 0]
    d = documents[0].tolist()
    expected = [[(i == j) or (j <= i and d[i] == d[j] and d[i] >= 0) for j in range(7)] for i in range(7)]
    assert mask.tolist() == expected


@pytest.fixture(scope="module")
def model():
    from trainplane.model.build import build
    from trainplane.params import ModelParams

    params = ModelParams(hidden_size=32, n_layers=2, n_heads=4, n_kv_heads=2, intermediate_size=64)
    return build(params, vocab_size=64, sequence_length=LENGTH, eos_id=EOS, pad_id=PAD, seed=0).eval()


def logits(model, batch):
    documents = torch.from_numpy(batch.documents)
    with torch.no_grad():
        return model(
            input_ids=torch.from_numpy(batch.input_ids),
            attention_mask=block_causal_mask(documents),
            position_ids=torch.from_numpy(batch.position_ids),
            use_cache=False,
        ).logits


@pytest.mark.slow
def test_packed_logits_are_those_of_each_document_alone(model) -> None:
    ids, spans = sequence()
    packed = logits(model, make_batch(np.array([0]), np.array([ids]), [spans]))[0]
    for span, document in zip(spans, DOCUMENTS, strict=True):
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([document])).logits[0]
        torch.testing.assert_close(packed[span["seq_start"] : span["seq_start"] + span["length"]], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_document_does_not_feel_its_neighbours(model) -> None:
    ids, spans = sequence()
    other = [*ids]
    other[0:4] = [40, 41, 42, EOS]
    one = logits(model, make_batch(np.array([0]), np.array([ids]), [spans]))[0]
    two = logits(model, make_batch(np.array([0]), np.array([other]), [spans]))[0]
    assert torch.equal(one[4:], two[4:])
    assert not torch.equal(one[:4], two[:4])


@pytest.mark.slow
def test_the_initial_loss_is_that_of_guessing(model) -> None:
    ids = np.random.default_rng(0).integers(0, 64, (8, LENGTH))
    batch = make_batch(np.arange(8), ids, [[{"seq_start": 0, "length": LENGTH}]] * 8)
    loss = torch.nn.functional.cross_entropy(
        logits(model, batch).flatten(0, 1), torch.from_numpy(batch.labels).flatten(), ignore_index=IGNORED
    )
    assert float(loss) == pytest.approx(math.log(64), abs=0.1)


def test_sequences_are_read_by_their_id(put) -> None:
    n, length = 50, 8
    span = {"seq_start": 0, "doc_start": 0, "length": length}
    rows = [
        {"seq_id": i, "n_tokens": length, "input_ids": [i] * length, "spans": [span | {"doc_id": f"{i:032x}"}]} for i in range(n)
    ]  # fmt: skip
    packed = Packed(put("packed", pa.Table.from_pylist(rows, schema=schema.packed(length))))
    batch = packed.batch(np.array([7, 3, 49]))
    assert (packed.n_sequences, packed.sequence_length) == (n, length)
    assert batch.input_ids[:, 0].tolist() == [7, 3, 49]
    assert batch.token_hash() != packed.batch(np.array([3, 7, 49])).token_hash()
