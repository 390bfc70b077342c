"""Packed sequences: every token once, no needless cut, spans that lead back, one order for one seed."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dataplane import schema
from dataplane.corpus.borders import token_kinds
from dataplane.corpus.packing import NONE, Packing, PackParams, Vocabulary, pack
from dataplane.corpus.token_file import in_memory, mapped
from dataplane.errors import DataError
from dataplane.kernels import packing as kernel

EOS, PAD, BOS = 0, 1, 2
VOCABULARY = Vocabulary(PAD, EOS)


def tokens_table(lengths: list[int]) -> pa.Table:
    """Documents whose tokens tell which document and which place they are: 1000 * (document + 1) + place."""
    ids = [[1000 * (i + 1) + place for place in range(n)] for i, n in enumerate(lengths)]
    columns = [[f"{i:032x}" for i in range(len(lengths))], lengths, [1] * len(lengths), ids]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema.TOKENS, strict=True)], schema=schema.TOKENS)


def mixture_of(rows: list[int]) -> pa.Table:
    return pa.table({"doc_id": pa.array([f"{i:032x}" for i in rows], pa.string())})


def params(**values: object) -> PackParams:
    return PackParams.parse(values, where="pack")


def rows_of(mixture: pa.Table, tokens: pa.Table, **values: object) -> list[dict[str, object]]:
    return [row for batch in pack(mixture, in_memory(tokens), VOCABULARY, params(**values)) for row in batch.to_pylist()]


CASES = st.lists(st.integers(0, 60), min_size=1, max_size=12).flatmap(
    lambda lengths: st.tuples(st.just(lengths), st.lists(st.integers(0, len(lengths) - 1), max_size=30), st.integers(2, 25))
)


@given(CASES, st.sampled_from(["best_fit_decreasing", "first_fit", "concatenate"]))
@settings(deadline=None)
def test_every_token_and_every_eos_of_every_occurrence_is_packed_once(case: tuple[list[int], list[int], int], algorithm: str) -> None:
    lengths, mixed, size = case
    rows = rows_of(mixture_of(mixed), tokens_table(lengths), sequence_length=size, algorithm=algorithm)
    found: list[int] = []
    for row in rows:
        assert len(row["input_ids"]) == size
        at = 0
        for span in row["spans"]:
            document = int(span["doc_id"], 16)
            whole = [1000 * (document + 1) + place for place in range(lengths[document])] + [EOS]
            assert span["seq_start"] == at
            at += span["length"]
            assert row["input_ids"][span["seq_start"] : at] == whole[span["doc_start"] : span["doc_start"] + span["length"]]
        assert row["n_tokens"] == at
        assert row["input_ids"][at:] == [PAD] * (size - at)
        found += row["input_ids"][:at]
    expected = [t for d in mixed for t in [*(1000 * (d + 1) + place for place in range(lengths[d])), EOS]]
    assert sorted(found) == sorted(expected)
    assert [row["seq_id"] for row in rows] == list(range(len(rows)))


@given(CASES)
@settings(deadline=None)
def test_no_document_is_cut_that_fits_and_a_cut_one_gives_full_sequences(case: tuple[list[int], list[int], int]) -> None:
    lengths, mixed, size = case
    rows = rows_of(mixture_of(mixed), tokens_table(lengths), sequence_length=size)
    spans = sorted((s["doc_id"], s["doc_start"], s["length"]) for row in rows for s in row["spans"])
    pieces = [(f"{d:032x}", at, min(size, lengths[d] + 1 - at)) for d in mixed for at in range(0, lengths[d] + 1, size)]
    assert spans == sorted(pieces)


def test_batches_have_the_schema_and_metrics_add_up() -> None:
    lengths = [3, 0, 9, 25, 4]
    packing = Packing(mixture_of([0, 1, 2, 3, 4, 0]), in_memory(tokens_table(lengths)), VOCABULARY, params(sequence_length=10))
    batches = list(packing.batches())
    assert [batch.schema for batch in batches] == [schema.packed(10)]
    # pieces 10 10 6 | 10 | 5 4 4 1: 10, 10, 10, 6+4, 5+4+1
    assert packing.metrics == {
        "documents": 6,
        "empty": 0,
        "tokens": 50,
        "sequences": 5,
        "padding": 0,
        "padding_share": 0.0,
        "cut_documents": 1,
        "cut_share": 1 / 6,
        "cut_though_they_fit": 0,
        "documents_per_sequence": 8 / 5,
        "memory_bytes": packing.memory_bytes,
    }


def test_the_seed_changes_the_order_of_sequences_and_nothing_else() -> None:
    lengths = np.random.default_rng(0).integers(0, 60, 300).tolist()
    mixture, tokens = mixture_of(list(range(300))), tokens_table(lengths)
    first, again, other = (rows_of(mixture, tokens, sequence_length=64, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert [row["input_ids"] for row in first] != [row["input_ids"] for row in other]
    assert sorted(row["input_ids"] for row in first) == sorted(row["input_ids"] for row in other)


def test_chunked_and_sliced_tokens_pack_the_same() -> None:
    tokens, mixture = tokens_table([5, 7, 9, 3]), mixture_of([3, 1, 2, 1])
    expected = rows_of(mixture, tokens, sequence_length=16)
    parts = pa.concat_tables([tokens.slice(2), tokens.slice(0, 2)])
    assert rows_of(mixture, parts, sequence_length=16) == expected
    assert rows_of(mixture, tokens.slice(1), sequence_length=16) == expected


def test_an_empty_mixture_gives_no_sequence() -> None:
    packing = Packing(mixture_of([]), in_memory(tokens_table([3])), VOCABULARY, params())
    assert (list(packing.batches()), packing.metrics["sequences"], packing.metrics["padding_share"]) == ([], 0, 0.0)


def test_a_document_without_tokens_is_named() -> None:
    with pytest.raises(DataError, match=f"1 of 2 documents of the mixture have no tokens: {7:032x}"):
        pack(mixture_of([0, 7]), in_memory(tokens_table([1])), VOCABULARY, params())


def span_tokens(rows: list[dict[str, object]]) -> list[tuple[str, int, list[int]]]:
    """Document, first token and tokens of each span, by document."""
    return sorted(
        (s["doc_id"], s["doc_start"], row["input_ids"][s["seq_start"] : s["seq_start"] + s["length"]]) for row in rows for s in row["spans"]
    )


@given(CASES)
@settings(deadline=None)
def test_concatenation_is_the_stream_cut_every_so_many_tokens(case: tuple[list[int], list[int], int]) -> None:
    lengths, mixed, size = case
    stream = [t for d in mixed for t in [*(1000 * (d + 1) + place for place in range(lengths[d])), EOS]]
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    rows = rows_of(mixture_of(mixed), tokens_table(lengths), sequence_length=size, algorithm="concatenate")
    assert sorted(row["input_ids"][: row["n_tokens"]] for row in rows) == sorted(chunks)
    assert sum(size - row["n_tokens"] for row in rows) == -len(stream) % size


def test_bos_and_eos_stand_around_each_document_by_rule() -> None:
    tokens, mixture = in_memory(tokens_table([2, 0, 5])), mixture_of([0, 1, 2])
    bodies = [[1000, 1001], [], [3000, 3001, 3002, 3003, 3004]]
    for bos, eos in ((NONE, NONE), (BOS, NONE), (NONE, EOS), (BOS, EOS)):
        wanted = [[bos] * (bos >= 0) + body + [eos] * (eos >= 0) for body in bodies]
        packing = Packing(mixture, tokens, Vocabulary(PAD, eos, bos), params(sequence_length=4))
        found: dict[str, list[int]] = {}
        for doc_id, start, ids in span_tokens([row for batch in packing.batches() for row in batch.to_pylist()]):
            assert start == len(found.setdefault(doc_id, []))
            found[doc_id] += ids
        assert found == {f"{i:032x}": ids for i, ids in enumerate(wanted) if ids}
        assert packing.metrics["empty"] == sum(not ids for ids in wanted)


def test_tokens_in_a_mapped_file_pack_as_those_in_memory(tmp_path: Path) -> None:
    tokens, mixture = tokens_table([5, 0, 9, 30]), mixture_of([3, 1, 2, 1])
    there = mapped(tokens.to_batches(max_chunksize=1), tmp_path, 1 << 20)
    assert list(tmp_path.iterdir()) == []
    batches = [list(pack(mixture, given, VOCABULARY, params(sequence_length=16))) for given in (there, in_memory(tokens))]
    assert batches[0] == batches[1]
    assert list(pack(mixture_of([]), mapped([], tmp_path, 1 << 20), VOCABULARY, params())) == []


@pytest.mark.parametrize("values", [{}, {"algorithm": "concatenate"}, {"cut_at": "sentence"}])
def test_ids_of_a_small_vocabulary_take_two_bytes_and_are_the_same(tmp_path: Path, values: dict[str, object]) -> None:
    tokens, mixture, kinds = tokens_table([5, 0, 9, 30]), mixture_of([3, 1, 2, 1]), np.zeros(1 << 17, np.uint8)
    kinds[4007] = kernel.FULL_STOP
    packings = [
        Packing(
            mixture, mapped(tokens.to_batches(), tmp_path, size), Vocabulary(PAD, EOS, BOS, kinds), params(sequence_length=16, **values)
        )
        for size in (1 << 16, (1 << 16) + 1)
    ]
    assert [packing.schema.field("input_ids").type for packing in packings] == [pa.list_(pa.uint16(), 16), pa.list_(pa.int32(), 16)]
    small, large = ([row for batch in packing.batches() for row in batch.to_pylist()] for packing in packings)
    assert small == large


@pytest.mark.parametrize("size", [1008, 65_536, 70_000])
def test_an_id_behind_the_vocabulary_is_not_cut_to_two_bytes(tmp_path: Path, size: int) -> None:
    ids = [[1, size - 1], [size]]
    columns = [["0" * 32, "1" * 32], [2, 1], [1, 1], ids]
    tokens = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema.TOKENS, strict=True)], schema=schema.TOKENS)
    assert mapped(tokens.slice(0, 1).to_batches(), tmp_path, size).values.tolist() == ids[0]
    with pytest.raises(DataError, match=f"tokens go from {size} to {size}, and the vocabulary from 0 to {size - 1}"):
        mapped(tokens.slice(1).to_batches(), tmp_path, size)


STOP, FULL_STOP, LINE, WORD, SPACED = 10, 11, 12, 13, 14
KINDS = np.zeros(20, np.uint8)
KINDS[[STOP, FULL_STOP, LINE, SPACED]] = kernel.STOP, kernel.FULL_STOP, kernel.LINE_BREAK, kernel.SPACE


def may_be_cut(body: list[int], at: int, level: str) -> bool:
    """By the definition: behind a line break; at sentences, behind a full stop, or a stop before a space."""
    if body[at - 1] == LINE:
        return True
    return level == "sentence" and (body[at - 1] == FULL_STOP or (body[at - 1] == STOP and body[at] == SPACED))


def pieces_by_definition(body: list[int], lead: int, size: int, cut_at: str) -> list[int]:
    """First token of each piece."""
    length, start, starts = lead + len(body) + 1, 0, []
    while start < length:
        starts.append(start)
        stop = min(length, start + size)
        for level in ["paragraph", "sentence"] if cut_at == "paragraph" else ["sentence"]:
            half = range(start + (size + 1) // 2, min(stop, lead + len(body) - 1) + 1)
            borders = [at for at in half if at > lead and may_be_cut(body, at - lead, level)] if stop < length else []
            if borders:
                # Where nothing but EOS would be left for the next piece, the piece is full.
                stop = max(borders) if max(borders) < min(stop, lead + len(body) - 1) else stop
                break
        start = stop
    return starts


@given(st.lists(st.sampled_from([STOP, FULL_STOP, LINE, WORD, SPACED]), max_size=60), st.integers(2, 12), st.booleans(), st.data())
@settings(deadline=None)
def test_long_documents_are_cut_at_the_last_border_of_each_piece(body: list[int], size: int, bos: bool, data: st.DataObject) -> None:
    cut_at = data.draw(st.sampled_from(["sentence", "paragraph"]))
    table = pa.table(
        [pa.array(c, f.type) for c, f in zip([["a" * 32], [len(body)], [1], [body]], schema.TOKENS, strict=True)], schema=schema.TOKENS
    )
    vocabulary = Vocabulary(PAD, EOS, BOS if bos else NONE, KINDS)
    packing = Packing(pa.table({"doc_id": ["a" * 32]}), in_memory(table), vocabulary, params(sequence_length=size, cut_at=cut_at))
    spans = span_tokens([row for batch in packing.batches() for row in batch.to_pylist()])
    assert [t for _, _, ids in spans for t in ids] == [BOS] * bos + body + [EOS]
    expected = pieces_by_definition(body, int(bos), size, cut_at) if len(body) + 1 + bos > size else [0]
    assert [start for _, start, _ in spans] == expected


def test_tokens_are_told_by_what_they_end() -> None:
    vocabulary = Tokenizer(models.BPE())
    vocabulary.pre_tokenizer, vocabulary.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    vocabulary.train_from_iterator(["the end. 完。 yes\n\n"] * 9, trainer)
    kinds = token_kinds(vocabulary)
    told = {
        text: int(kinds[vocabulary.token_to_id(token)]) for text, token in (("the", "the"), (" yes", "Ġyes"), (".", "."), ("\n\n", "ĊĊ"))
    }
    assert told == {"the": 0, " yes": kernel.SPACE, ".": kernel.STOP, "\n\n": kernel.LINE_BREAK | kernel.SPACE}
    assert {vocabulary.decode([i]) for i in range(len(kinds)) if kinds[i] & kernel.FULL_STOP} >= {"。"}


def test_a_vocabulary_that_lacks_a_token_is_named() -> None:
    vocabulary = Vocabulary(PAD, EOS, NONE, KINDS)
    with pytest.raises(DataError, match="token 1002 is not in the vocabulary"):
        Packing(mixture_of([0]), in_memory(tokens_table([3])), vocabulary, params(cut_at="sentence"))
