"""Params of the dedup stage, and what they say of signatures."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from dataplane.corpus import minhash, simhash
from dataplane.corpus.exact import ExactParams
from dataplane.corpus.minhash import U32, MinHashParams
from dataplane.corpus.repeats import RepeatsParams
from dataplane.corpus.semantic import SemanticParams
from dataplane.corpus.simhash import SimHashParams
from dataplane.corpus.survival import LONGEST, Criterion
from dataplane.params import Params


class DedupParams(Params):
    """Params of the dedup stage."""

    exact: ExactParams = Field(default_factory=lambda: ExactParams.model_validate({}), description="Exact duplicates, found first.")
    minhash: MinHashParams = Field(default_factory=lambda: MinHashParams.model_validate({}), description="For method minhash.")
    url: str | None = Field(
        None, description="Signal or column whose equal values are one document, as canonical_url.url, looked at before the texts."
    )
    method: Literal["minhash", "simhash"] = Field(
        "minhash", description="How near-duplicates are found. minhash: by the share of shingles in common. simhash: by bits, at less cost."
    )
    simhash: SimHashParams = Field(default_factory=lambda: SimHashParams.model_validate({}), description="For method simhash.")
    semantic: SemanticParams = Field(
        default_factory=lambda: SemanticParams.model_validate({}),
        description="Near-duplicates by meaning, sought behind those of `method`.",
    )
    survivor: list[Criterion] = Field(
        [LONGEST], description="Which document of a cluster stays: criteria, the first of them first, then the smallest doc_id."
    )
    within: str | None = Field(
        None, description="Column, signal or meta.NAME; documents are compared only where it is equal (FineWeb: each dump by itself)."
    )
    repeats: RepeatsParams = Field(
        default_factory=lambda: RepeatsParams.model_validate({}), description="Passages that stand in several documents, looked for last."
    )
    large_cluster: int = Field(1000, ge=2, description="Documents in a cluster from which on the run warns of it.")

    def width(self) -> int:
        """Numbers in a signature, uint32."""
        return self.minhash.width() if self.method == "minhash" else simhash.WIDTH

    def signatures(self, text: pa.Array) -> U32:
        """The signature of each text: uint32 [n, width]."""
        return minhash.signatures(text, self.minhash) if self.method == "minhash" else simhash.signatures(text, self.simhash)

    def definition(self) -> list[Any]:
        """What hashes and signatures depend on; they are good for all params that agree in it."""
        of = self.minhash
        if self.method == "minhash":
            return [self.exact.level, self.method, minhash.VERSION, of.width(), of.shingle_words, of.seed]
        return [self.exact.level, self.method, simhash.VERSION, self.simhash.shingle_words]
