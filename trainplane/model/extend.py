"""Rows of the embeddings for tokens that a vocabulary gets later: each the mean of the tokens that its text was made of.

Source: Hewitt 2021, "Initializing new word embeddings for pretrained language models" (the mean of old rows as a start).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


def extend(model: Any, pieces: Sequence[Sequence[int]]) -> None:
    """Gives a model rows for new tokens, behind those it has, in its embeddings and its head.

    Args:
        model: A causal model of transformers.
        pieces: As `mean_rows`, by the new tokens' ids from the old vocabulary's size on.
    """
    import torch

    old = model.get_input_embeddings().weight.shape[0]
    head = model.get_output_embeddings()
    tied = head is None or head.weight is model.get_input_embeddings().weight
    new = [mean_rows(layer.weight, pieces) for layer in ([model.get_input_embeddings()] if tied else [model.get_input_embeddings(), head])]
    model.resize_token_embeddings(old + len(pieces), mean_resizing=False)
    layers = [model.get_input_embeddings(), *([] if tied else [model.get_output_embeddings()])]
    with torch.no_grad():
        for layer, rows in zip(layers, new, strict=True):
            layer.weight[old:] = rows
