"""Replaces personal data and secrets: addresses, numbers of phones, people, accounts and cards, keys.

A kernel looks at every byte first; only what stands around its candidates is read by the recognisers. Addresses at example domains are
replaced like all others: a tag loses nothing there, and a list of exceptions would be one more thing to trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.kernels.pii_candidates import candidates
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.pii_recognizers import KINDS, Recognizers, Span, windows_of
from dataplane.transforms.pii_replacement import WRITES, Replacement


class ScrubPii(Transform):
    """Replaces each find by its tag, such as [EMAIL].

    Source: RFC 5322 (e-mail), RFC 6890 (addresses of special use), E.164 with Google's libphonenumber, GB 11643-1999 (Chinese IDs).
    """

    name, version = "scrub_pii", "4"
    reads = {"text": pa.large_string()}
    writes = WRITES
    edits = KINDS

    class Params(BaseParams):
        """What is replaced, and by what."""

        kinds: tuple[Literal[KINDS], ...] = Field(  # type: ignore[valid-type]  # a closed set that is made from a table
            tuple(kind for kind in KINDS if kind != "cn_id_shaped"),
            description="Kinds that are replaced. cn_id_shaped is a Chinese ID number whose check character may be wrong.",
        )
        regions: tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...] = Field(
            (),
            description="Regions (ISO 3166) whose national phone numbers are recognised; empty for all. International ones always are.",
        )
        private_ips: bool = Field(False, description="Whether addresses that lead nowhere on the internet are replaced too.")
        context: Literal["required", "optional"] = Field(
            "required",
            description="Whether a national number whose shape is not rare needs a word that names it beside it; "
            "optional finds more, and more in vain.",
        )
        replace: Literal["tag", "number", "mask", "hash"] = Field(
            "tag",
            description="tag: [EMAIL]; number: [EMAIL_1], the same for the same find in a document; mask: asterisks of its length; "
            "hash: [EMAIL_<digest>], keyed by the environment variable TERRAPLANE_PII_KEY, the same for the same find everywhere.",
        )
        tag: str = Field(
            "[{kind}]", pattern=r"^[^{}]*\{kind\}[^{}]*$", description="What takes a find's place; {kind} is its kind in capitals."
        )

    def open(self) -> None:
        """Loads the recognisers, and the key where one is needed."""
        params = self.params
        self._recognizers: Any = Recognizers(
            params.kinds, params.regions, private_ips=params.private_ips, words=params.context == "required"
        )
        self._replacement = Replacement.of(params.replace, params.tag, self.name)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signals n and spans."""
        text = batch.column("text")
        return self._replacement.rewrite(text, self._finds(text), self.edits)

    def _finds(self, text: pa.Array) -> Iterator[tuple[int, str, Sequence[Span]]]:
        """(row, text, finds) of each text that holds something, in order."""
        found = candidates(text)
        rows, firsts = np.unique(found[:, 0], return_index=True)
        for row, places in zip(rows.tolist(), np.split(found[:, 1:], firsts[1:]), strict=False):
            value = text[row].as_py()
            spans = self._recognizers.find(value, windows_of(places.tolist(), len(value)))
            if spans:
                yield row, value, spans
