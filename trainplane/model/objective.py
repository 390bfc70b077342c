"""What a model learns to predict: the next token, or tokens that were hidden from it, and whether a segment follows another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainplane.data.packed import IGNORED, PADDING, Batch
from trainplane.data.pairs import paired
from trainplane.model.masking import block_causal_mask, block_mask
from trainplane.model.sequence_parallel import Share

RANDOM_SHARE, KEPT_SHARE = 0.1, 0.1  # of the chosen tokens; the rest is hidden


@dataclass(frozen=True)
class Objective:
    """How tokens are shown and losses are counted.

    Attributes:
        kind: "causal" or "masked".
        mask_share: Share of the tokens that a masked model predicts.
        seed: Of the run.
        mask_id: Token that stands for a hidden one; None for causal.
        vocab_size: Tokens that a random one is drawn from.
        share: Of sequences, where several ranks have parts of each.
        next_sentence: Whether a masked model also tells whether the second segment of a document is its own.
    """

    kind: str
    mask_share: float = 0.15
    seed: int = 0
    mask_id: int | None = None
    vocab_size: int = 0
    share: Share | None = None
    next_sentence: bool = False

    def shown(self, batch: Batch, step: int) -> Batch:
        """The batch as the model sees it at a step: as it is, or with tokens hidden and only those as labels.

        What is hidden is a pure function of (seed, step, sequence, place): no rank, resume or batch size changes it. 80 % of the
        chosen tokens become the mask, 10 % a random token, 10 % stay. The token that a pair is told by is not chosen.

        Source: BERT, Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 1.
        """
        if self.kind == "causal":
            return batch
        if self.next_sentence:
            batch = paired(batch, self.seed, step)
        ids, labels = batch.input_ids.copy(), np.full_like(batch.input_ids, IGNORED)
        for row, seq_id in enumerate(batch.seq_ids):
            draw = np.random.default_rng([self.seed, step, int(seq_id), row % batch.n_pieces])
            chosen = (draw.random(ids.shape[1]) < self.mask_share) & (batch.documents[row] != PADDING)
            if batch.pairs is not None:
                chosen &= batch.pairs[row] == IGNORED
            how, random = draw.random(ids.shape[1]), draw.integers(0, self.vocab_size, ids.shape[1])
            labels[row, chosen] = ids[row, chosen]
            ids[row] = np.where(chosen & (how >= RANDOM_SHARE + KEPT_SHARE), self.mask_id, ids[row])
            ids[row] = np.where(chosen & (how < RANDOM_SHARE), random, ids[row])
        return replace(batch, input_ids=ids, labels=labels)

    def logits(self, model: Any, batch: Batch, device: Any) -> Any:
        """What the model says of each place, each document seeing itself alone: float32 tensor [b, t, vocabulary].

        Where ranks share sequences, t are this rank's places.
        """
        return token_logits(self._outputs(model, batch, device)).float()

    def _outputs(self, model: Any, batch: Batch, device: Any) -> Any:
        import torch

        arrays = (batch.input_ids, batch.position_ids, batch.documents)
        ids_BT, positions_BT, documents_BT = (torch.from_numpy(array).to(device) for array in arrays)
        mask_B1TT = block_causal_mask(documents_BT) if self.kind == "causal" else block_mask(documents_BT)
        more = {"use_cache": False} if self.kind == "causal" else {}
        if batch.segments is not None:
            more["token_type_ids"] = torch.from_numpy(batch.segments).to(device)
        if self.share is not None:
            ids_BT, positions_BT = self.share.mine(ids_BT), self.share.mine(positions_BT)
        return model(input_ids=ids_BT, attention_mask=mask_B1TT, position_ids=positions_BT, **more)

    def losses(self, model: Any, batch: Batch, device: Any, z_loss: float = 0.0) -> tuple[Any, Any, Any]:
        """Cross entropy of each token, 0 where nothing is predicted, the weighted z-loss of all, and the cross entropy of all pairs.

        Args:
            model: Of transformers; may be wrapped.
            batch: As `shown` gives it.
            device: Where the model is.
            z_loss: Weight of the squared log of the softmax's sum.

        Returns:
            float32 tensor [b, t], nats; float32 scalars, sums. Where ranks share sequences, of this rank's places.

        Source: z-loss, PaLM, Chowdhery et al. 2022, arXiv:2204.02311, section 5.
        """
        import torch

        labels_BT, told = torch.from_numpy(batch.labels).to(device), self._outputs(model, batch, device)
        if self.share is not None:
            labels_BT = self.share.mine(labels_BT).contiguous()
        losses_BT, penalty = token_losses(token_logits(told).float(), labels_BT, z_loss)
        if batch.pairs is None:
            return losses_BT, penalty, losses_BT.new_zeros(())
        pairs_BT = torch.from_numpy(batch.pairs).to(device)
        flat = torch.nn.functional.cross_entropy(
            told.seq_relationship_logits.float().flatten(0, 1), pairs_BT.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return losses_BT, penalty, flat


def token_logits(told: Any) -> Any:
    """The logits of tokens among what a model of transformers gives; one with a head for pairs has a name of its own for them."""
    return told.prediction_logits if hasattr(told, "prediction_logits") else told.logits


def token_losses(logits_BTV: Any, labels_BT: Any, z_loss: float) -> tuple[Any, Any]:
    """Cross entropy of each token and the weighted z-loss, as `Objective.losses` gives them, from float32 logits."""
    from torch.nn.functional import cross_entropy

    flat = cross_entropy(logits_BTV.flatten(0, 1), labels_BT.flatten(), ignore_index=IGNORED, reduction="none")
    penalty = z_loss * logits_BTV.logsumexp(-1)[labels_BT != IGNORED].square().sum() if z_loss else flat.new_zeros(())
    return flat.view(labels_BT.shape), penalty
