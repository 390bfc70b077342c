"""Rows of the embeddings for tokens that a vocabulary gets later: each the mean of the tokens that its text was made of.

Source: Hewitt 2021, "Initializing new word embeddings for pretrained language models" (the mean of old rows as a start).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataplane.errors import ParamsError


def mean_rows(weights_VD: Any, pieces: Sequence[Sequence[int]]) -> Any:
    """The new rows.

    Args:
        weights_VD: Embeddings, or the head's weights, of the old vocabulary: float [V, D].
        pieces: For each new token, the old tokens of its text; none: the mean of the whole vocabulary.

    Returns:
        float [n, D], in the weights' type.

    Raises:
        ValueError: A piece is no token of the old vocabulary.
    """
    import torch

    size = weights_VD.shape[0]
    if wrong := [piece for ids in pieces for piece in ids if not 0 <= piece < size]:
        raise ValueError(f"{wrong[0]} is no token of a vocabulary of {size}")
    whole_D = weights_VD.detach().double().mean(0)
    rows = [weights_VD.detach()[list(ids)].double().mean(0) if ids else whole_D for ids in pieces]
    return torch.stack(rows).to(weights_VD.dtype) if rows else weights_VD.detach()[:0]


def extend(model: Any, pieces: Sequence[Sequence[int]], first: int | None = None) -> None:
    """Gives a model rows for new tokens in its embeddings and its head; a bias of the head's begins at the mean of the old ones.

    Args:
        model: Of transformers.
        pieces: As `mean_rows`, by the new tokens' ids.
        first: Id of the first new token, behind the old vocabulary; rows that the model has from there on, for no token, are made anew.
            None: behind all rows.
    """
    import torch

    old = model.get_input_embeddings().weight.shape[0]
    start = old if first is None else first
    head = model.get_output_embeddings()
    tied = head is None or head.weight is model.get_input_embeddings().weight
    new = [
        mean_rows(layer.weight[:start], pieces)
        for layer in ([model.get_input_embeddings()] if tied else [model.get_input_embeddings(), head])
    ]
    if start + len(pieces) > old:
        model.resize_token_embeddings(start + len(pieces), mean_resizing=False)
    layers = [model.get_input_embeddings(), *([] if tied else [model.get_output_embeddings()])]
    bias = getattr(model.get_output_embeddings(), "bias", None)
    with torch.no_grad():
        for layer, rows in zip(layers, new, strict=True):
            layer.weight[start : start + len(pieces)] = rows
        if bias is not None:
            bias[start : start + len(pieces)] = bias[:start].mean()


def pieces_of_new_tokens(old: Any, new: Any) -> list[list[int]]:
    """The old tokens that each new token's text was made of.

    Args:
        old: Tokenizer that a model was trained with.
        new: That tokenizer with more tokens.

    Raises:
        ParamsError: An id means another token now.
    """
    ids = range(len(old))
    if len(new) < len(old) or new.convert_ids_to_tokens(list(ids)) != old.convert_ids_to_tokens(list(ids)):
        raise ParamsError(
            "the project's tokenizer is not that of the model, nor one that adds tokens to it",
            where="model.checkpoint",
            fix="set tokenizer.path to the tokenizer.json in the model's folder",
        )
    return [old.encode(new.decode([number]), add_special_tokens=False) for number in range(len(old), len(new))]
