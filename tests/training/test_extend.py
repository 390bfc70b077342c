"""A vocabulary that grows: old ids stay, new tokens start at the mean of their pieces."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.corpus.tokenizer import TokenizerParams, extend_vocabulary, save, train
from dataplane.errors import ParamsError
from trainplane.model.extend import extend, mean_rows
from trainplane.tokenizer import load_tokenizer

torch = pytest.importorskip("torch")

TERMS = ["photosynthesis", "光合作用"]
TEXTS = ["the river carried the grain of nine villages to the mill, 磨坊"] * 20


def tiny(vocab_size: int, tied: bool) -> Any:
    from trainplane.model.build import build
    from trainplane.params import ModelParams

    params = ModelParams(hidden_size=32, n_layers=1, n_heads=2, n_kv_heads=2, intermediate_size=32, tie_embeddings=tied)
    return build(params, vocab_size=vocab_size, sequence_length=16, eos_id=0, pad_id=1, seed=0).eval()


def test_terms_become_tokens_behind_the_old_ones_and_other_text_keeps_its_ids() -> None:
    tokenizer = train([pa.array(TEXTS)], TokenizerParams.parse({"vocab_size": 300}, where="tokenizer"))
    size, before = tokenizer.get_vocab_size(), tokenizer.encode("the river of grain", add_special_tokens=False).ids
    pieces = extend_vocabulary(tokenizer, ["photosynthesis", "光合作用", "the", "photosynthesis", ""])
    assert [tokenizer.decode(ids) for ids in pieces] == ["photosynthesis", "光合作用"]
    assert tokenizer.encode("the river of grain", add_special_tokens=False).ids == before
    for number, term in enumerate(("photosynthesis", "光合作用")):
        ids = tokenizer.encode(f"of {term}.", add_special_tokens=False).ids
        assert size + number in ids
        assert tokenizer.decode(ids) == f"of {term}."
    assert tokenizer.get_vocab_size() == size + 2


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_are_means_and_nothing_else_changes(tied: bool) -> None:
    model, pieces = tiny(40, tied), [[3, 5, 5], [], [7]]
    old = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    extend(model, pieces)
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        source = old["model.embed_tokens.weight" if tied or layer is model.get_input_embeddings() else "lm_head.weight"]
        expected = torch.stack([(source[3] + 2 * source[5]) / 3, source.mean(0), source[7]])
        torch.testing.assert_close(layer.weight[40:].detach(), expected)
        torch.testing.assert_close(layer.weight[:40].detach(), source, rtol=0, atol=0)
    assert model.config.vocab_size == 43
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor[: len(old[name])], old[name])]
    assert changed == []


def test_a_piece_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="8 is no token of a vocabulary of 8"):
        mean_rows(torch.zeros(8, 2), [[1], [8]])
    assert mean_rows(torch.zeros(8, 2), []).shape == (0, 2)


@pytest.mark.parametrize("spare", [0, 7])
def test_a_model_trained_on_gets_rows_of_the_terms_pieces(tokenizer_folder: Path, tokenizer: Any, tmp_path: Path, spare: int) -> None:
    """Rows that the model had for no token are made anew; a tokenizer with other tokens for the old ids is refused."""
    from trainplane.model.build import build, save_model
    from trainplane.params import ModelParams

    sizes = {"sequence_length": 16, "eos_id": 0, "pad_id": 1, "seed": 0}
    old = tiny(len(tokenizer) + spare, tied=True)
    save_model(old, tmp_path / "model")
    for path in tokenizer_folder.iterdir():
        (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    grown = load_tokenizer(tokenizer_folder)
    pieces = [grown.encode(term, add_special_tokens=False) for term in TERMS]
    grown.add_tokens(TERMS)
    params = ModelParams(checkpoint=str(tmp_path / "model"))
    new = build(params, vocab_size=len(grown), tokenizer=grown, **sizes)
    before, after = (model.get_input_embeddings().weight.detach() for model in (old, new))
    expected = torch.stack([before[ids].double().mean(0).float() for ids in pieces])
    torch.testing.assert_close(after[len(tokenizer) : len(grown)], expected)
    torch.testing.assert_close(after[: len(tokenizer)], before[: len(tokenizer)], rtol=0, atol=0)
    assert len(after) == len(tokenizer) + max(spare, len(TERMS))
    other = train([pa.array(TEXTS)], TokenizerParams.parse({"vocab_size": 300}, where="tokenizer"))
    save(other, tmp_path / "other")
    with pytest.raises(ParamsError, match="not that of the model"):
        build(params, vocab_size=300, tokenizer=load_tokenizer(tmp_path / "other"), **sizes)
