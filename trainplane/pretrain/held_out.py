"""The held-out loss that is watched: over all held-out tokens, and by source and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainplane.data.groups import means_by_group
from trainplane.data.packed import Batch, batch_of_documents
from trainplane.pretrain.engine import Engine


@dataclass(frozen=True)
class HeldOut:
    """Held-out documents as one batch.

    Attributes:
        batch: A document a row, cut to the sequence length.
        names: "source", "lang" -> name of each document's group, None where it is not known.
    """

    batch: Batch
    names: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        token_lists: list[list[int]],
        sequence_length: int,
        eos_id: int,
        pad_id: int,
        names: Mapping[str, Sequence[str | None]] | None = None,
    ) -> HeldOut:
        """Rows of EOS, the document and EOS, cut and padded."""
        rows = [[eos_id, *tokens, eos_id][:sequence_length] for tokens in token_lists]
        return cls(batch_of_documents(rows, pad_id), dict(names or {}))

    def losses(self, engine: Engine) -> tuple[float, dict[str, float]]:
        """Mean loss over the held-out tokens, nats; and of each group. Every rank has to ask.

        From a masked model the same tokens are hidden each time, those of step 0.
        """
        shown = engine.objective.shown(self.batch, 0)
        sums, tokens = engine.sequence_losses(shown), shown.label_counts()
        return float(sums.sum() / max(1, int(tokens.sum()))), means_by_group(sums.tolist(), tokens.tolist(), self.names)
