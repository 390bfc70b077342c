"""Ranks that share each sequence: everything but attention is computed where a token lies, and for attention each rank has all tokens of
some heads.

Before attention the ranks exchange queries, keys and values so that each has whole sequences of a part of the heads, and after it they
exchange back. The mask between documents is over whole sequences, as without.

Source: DeepSpeed-Ulysses, Jacobs et al. 2023, arXiv:2309.14509, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dataplane.errors import ParamsError
from trainplane.data.packed import IGNORED, PADDING, Batch

NAME = "sequence_parallel"  # of the attention, in transformers


@dataclass(frozen=True)
class Share:
    """This rank among those that share a sequence.

    Attributes:
        size: How many they are.
        rank: Which of them this is.
        group: Their process group.
    """

    size: int
    rank: int
    group: Any

    def padded(self, batch: Batch) -> Batch:
        """The batch, with columns that are padding so that the ranks divide them."""
        missing = -batch.input_ids.shape[1] % self.size
        if not missing:
            return batch

        def wider(array: Any, value: int) -> Any:
            return np.pad(array, ((0, 0), (0, missing)), constant_values=value)

        return replace(
            batch, input_ids=wider(batch.input_ids, 0), documents=wider(batch.documents, PADDING),
            position_ids=wider(batch.position_ids, 0), labels=wider(batch.labels, IGNORED),
        )  # fmt: skip

    def mine(self, values_BT: Any) -> Any:
        """This rank's columns of a tensor."""
        return values_BT.chunk(self.size, dim=1)[self.rank]

    def whole(self, mine: Any) -> Any:
        """All columns, from every rank's; without gradients."""
        import torch

        parts = [torch.empty_like(mine) for _ in range(self.size)]
        torch.distributed.all_gather(parts, mine.detach().contiguous(), group=self.group)
        return torch.cat(parts, dim=1)


def share_sequences(model: Any, size: int) -> Share:
    """Has a model's attention exchange with the other ranks of its sequence. Every rank of the run has to call it.

    Args:
        model: Of transformers, with its attention by name.
        size: Ranks that share a sequence: neighbours.

    Raises:
        ParamsError: The heads do not divide among them.
    """
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    heads = int(model.config.num_attention_heads)
    if heads % size:
        raise ParamsError(f"{heads} heads do not divide among {size} ranks", where="pretrain.parallel.sequence", fix="take a divisor")
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    groups = [torch.distributed.new_group(list(range(first, first + size))) for first in range(0, world, size)]
    share = Share(size, rank % size, groups[rank // size])
    AttentionInterface.register(NAME, _attention(share))
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return share


def _attention(share: Share) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama.modeling_llama import repeat_kv

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **how: Any) -> Any:
        """query [b, heads, t, d]; the mask says how long a whole sequence is. A rank that is alone with whole ones exchanges nothing."""
        if attention_mask.shape[-1] == query.shape[2]:
            return sdpa_attention_forward(module, query, key, value, attention_mask, **how)
        if key.shape[1] % share.size:
            key, value = (repeat_kv(states, query.shape[1] // key.shape[1]) for states in (key, value))
        whole = [_exchanged(states, share, split=1, join=2) for states in (query, key, value)]
        groups, module.num_key_value_groups = module.num_key_value_groups, whole[0].shape[1] // whole[1].shape[1]
        attended_BTHD, weights = sdpa_attention_forward(module, *whole, attention_mask, **how)
        module.num_key_value_groups = groups
        return _exchanged(attended_BTHD, share, split=1, join=2), weights

    return attend


def _exchanged(states: Any, share: Share, split: int, join: int) -> Any:
    """Gives each rank its part along one axis, and joins what comes from all along another. Gradients go the way back."""
    import torch

    class Exchange(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
        @staticmethod
        def forward(ctx: Any, values: Any, cut: int, put: int) -> Any:
            ctx.axes = cut, put
            return _all_to_all(values, share, cut, put)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            cut, put = ctx.axes
            return _all_to_all(gradients[0], share, put, cut), None, None

    return Exchange.apply(states, split, join)


def _all_to_all(values: Any, share: Share, split: int, join: int) -> Any:
    import torch

    sent = torch.stack([part.contiguous() for part in values.chunk(share.size, dim=split)])
    received = torch.empty_like(sent)
    torch.distributed.all_to_all_single(received, sent, group=share.group)
    return torch.cat(list(received), dim=join)
