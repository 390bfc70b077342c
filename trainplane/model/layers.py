"""A decoder of transformers as a row of layers, each a function of what the one before gave: what a pipeline cuts into stages.

Between layers goes a tuple: hidden_BTD, positions_BT and documents_BT. The last layer gives logits_BTV. The layers are the model's own
modules, so that what trains them trains the model.
"""

from __future__ import annotations

from typing import Any

from dataplane.errors import ParamsError
from trainplane.model.masking import block_causal_mask

MAX_DELTA = 1e-5  # of a logit, fp32: the same modules in the same order


def layers_of(model: Any) -> list[Any]:
    """Embedding, decoder layers, and norm with output matrix, as DeepSpeed's PipelineModule takes them.

    Args:
        model: A causal model of transformers, built as Llama is.

    Raises:
        ParamsError: It is built otherwise.
    """
    body: Any = getattr(model, "model", None)
    if not all(hasattr(body, name) for name in ("embed_tokens", "layers", "norm", "rotary_emb")) or not hasattr(model, "lm_head"):
        raise _not_a_row(model, "it has no model.embed_tokens, .layers, .norm, .rotary_emb and lm_head")
    decoders = [_decoder(layer, body.rotary_emb) for layer in body.layers]
    return _ends(model, decoders)


def check_layers(model: Any) -> float:
    """Proves that the row of layers is the model: it gives the logits of the whole.

    Returns:
        The largest difference of a logit.

    Raises:
        ParamsError: It is not, so that this architecture cannot be cut into stages.
    """
    import torch

    length = 12
    ids_1T = torch.randint(0, model.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(0))
    positions_1T, documents_1T = torch.arange(length)[None] % 7, torch.arange(length)[None] // 7
    was_training = model.training
    model.eval()
    with torch.no_grad():
        whole = model(input_ids=ids_1T, attention_mask=block_causal_mask(documents_1T), position_ids=positions_1T, use_cache=False).logits
        values: Any = (ids_1T, positions_1T, documents_1T)
        for layer in layers_of(model):
            values = _built(layer)(values)
    model.train(was_training)
    delta = float((values - whole).abs().max())
    if not delta <= MAX_DELTA * max(1.0, float(whole.abs().max())):
        raise _not_a_row(model, f"its layers one after the other give other logits, by up to {delta:.3g}")
    return delta


def _built(layer: Any) -> Any:
    """A layer as a function, as PipelineModule makes it."""
    import torch

    if isinstance(layer, torch.nn.Module):
        return layer
    module = layer.build()
    return module if layer.forward_fn is None else lambda values: layer.forward_fn(module, values)


def _decoder(layer: Any, rotary: Any) -> Any:
    import torch

    class Decoder(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.rotary = layer, rotary

        def forward(self, values: Any) -> Any:
            hidden_BTD, positions_BT, documents_BT = values
            hidden_BTD = self.layer(
                hidden_BTD, attention_mask=block_causal_mask(documents_BT), position_ids=positions_BT, use_cache=False,
                position_embeddings=self.rotary(hidden_BTD, position_ids=positions_BT),
            )  # fmt: skip
            return hidden_BTD, positions_BT, documents_BT

    return Decoder()


def _ends(model: Any, decoders: list[Any]) -> list[Any]:
    """Puts embedding and output around the decoders. Where both are one matrix, the first and the last stage hold it, and DeepSpeed adds
    their gradients.
    """
    import torch
    from deepspeed.pipe import TiedLayerSpec

    body = model.model

    class Embedding(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.embedding = body.embed_tokens

        def forward(self, values: Any) -> Any:
            ids_BT, positions_BT, documents_BT = values
            return self.embedding(ids_BT), positions_BT, documents_BT

    class Norm(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.norm = body.norm

        def forward(self, values: Any) -> Any:
            return self.norm(values[0])

    if model.lm_head.weight is not body.embed_tokens.weight:
        return [Embedding(), *decoders, Norm(), model.lm_head]

    def output(tied: Any, hidden_BTD: Any) -> Any:
        return torch.nn.functional.linear(hidden_BTD, tied.embedding.weight)

    name, weight = "embedding", "embedding.weight"
    first = TiedLayerSpec(name, Embedding, tied_weight_attr=weight)
    return [first, *decoders, Norm(), TiedLayerSpec(name, Embedding, forward_fn=output, tied_weight_attr=weight)]


def _not_a_row(model: Any, why: str) -> ParamsError:
    return ParamsError(
        f"{type(model).__name__} cannot be cut into stages: {why}",
        where="pretrain.parallel.pipeline",
        fix="take an architecture built as Llama is (Llama, Qwen3, Mistral, ...), or set it to 1",
    )
