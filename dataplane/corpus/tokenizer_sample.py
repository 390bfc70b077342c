"""What a tokenizer is trained on: the start of the mixture, or a sample of its documents with shares of its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from dataplane.corpus.mixture import MixParams, Mixture, mix
from dataplane.corpus.shares import SharesParams

WHERE = "tokenizer.sample"


class SampleParams(SharesParams):
    """The shares of a tokenizer's training text, as those of a mixture."""

    by: str = Field(
        "",
        description="What the groups are, as mix.by: source, kind, language.lang or other SQL. Empty takes the start of the mixture, with "
        "the mixture's shares.",
    )
    max_epochs: float = Field(
        4.0, gt=0, le=1000, description="How often a group is repeated at most; one that is smaller than its share then gets less."
    )
    seed: int = Field(0, ge=0, description="Changes which documents are taken.")

    @model_validator(mode="after")
    def _has_groups(self) -> SampleParams:
        if not self.by and (self.targets or self.replay or self.rest is not None):
            raise ValueError("targets, rest and replay need `by`, which tells the groups")
        return self

    def mixture(self, total: int | None = None) -> MixParams:
        """The same as params of a mixture of `total` bytes, with nothing held out of it."""
        shares = {name: getattr(self, name) for name in SharesParams.model_fields}
        of = {"by": self.by, "max_epochs": self.max_epochs, "seed": self.seed, "total": total}
        return MixParams.parse({**shares, **of, "held_out": {"share": 0.0, "min_per_source": 0}}, where=WHERE)


def weighted(documents: pa.Table, params: SampleParams, max_bytes: int) -> Mixture:
    """A sample with the shares asked for.

    Args:
        documents: As `mixture.mix` takes them; those of the mixture, each once.
        params: The shares.
        max_bytes: Size of the sample, or that of the documents where it is less.

    Raises:
        ParamsError: As `mixture.mix`.
        DataError: There is no document.
    """
    total = max(1, min(max_bytes, int(pc.sum(documents.column("n_bytes")).as_py() or 0)))
    return mix(documents, params.mixture(total), WHERE)


def start(mixture: pa.Table, documents: pa.Table, max_bytes: int) -> pa.Array:
    """The occurrences at the start of the mixture, which has the shares of the whole.

    Args:
        mixture: Columns doc_id, position.
        documents: Columns doc_id, n_bytes; every doc_id of the mixture.
        max_bytes: Size at most; one document is taken whatever its size.

    Returns:
        string [k], doc_ids in training order; a document that comes in several epochs is named as often.
    """
    order = np.argsort(mixture.column("position").to_numpy(), kind="stable")
    doc_ids = mixture.column("doc_id").combine_chunks().take(pa.array(order))
    places = pc.index_in(doc_ids, value_set=documents.column("doc_id").combine_chunks())
    ends = np.cumsum(documents.column("n_bytes").combine_chunks().take(places).fill_null(0).to_numpy())
    return doc_ids.slice(0, max(1, int(np.searchsorted(ends, max_bytes, side="right"))))
