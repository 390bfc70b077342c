"""Replaces personal data and secrets: addresses, numbers of phones, people, accounts and cards, keys.

A kernel looks at every byte first; only what stands around its candidates is read by the recognisers. Addresses at example domains are
replaced like all others: a tag loses nothing there, and a list of exceptions would be one more thing to trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.kernels.pii_candidates import candidates
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.schema import EDIT_SPANS
from dataplane.transforms.pii_recognizers import KINDS, Recognizers, Span, windows_of
from dataplane.transforms.pii_replacement import Replacement

SPAN = pa.struct({"kind": pa.string(), "start": pa.int32(), "stop": pa.int32()})


class ScrubPii(Transform):
    """Replaces each find by its tag, such as [EMAIL]."""

    name, version = "scrub_pii", "4"
    reads = {"text": pa.large_string()}
    # Where the replacements stand in the new text: what was there is kept nowhere.
    writes = {"n": pa.int32(), "spans": pa.list_(SPAN)}
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
        self._replacement = Replacement.of(params.replace, params.tag)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signals n and spans."""
        text = batch.column("text")
        found_by: dict[str, dict[int, list[dict[str, int]]]] = {kind: {} for kind in self.edits}
        spans: list[list[dict[str, Any]]] = [[] for _ in range(len(batch))]
        changed: dict[int, str] = {}
        for row, value, found in self._finds(text):
            changed[row], spans[row] = self._replacement.apply(value, found)
            for span in found:
                found_by[span.kind].setdefault(row, []).append({"start": span.start, "stop": span.stop})
        if changed:
            mask = np.zeros(len(batch), np.bool_)
            mask[list(changed)] = True
            text = pc.replace_with_mask(text, pa.array(mask), pa.array(list(changed.values()), text.type))
        signals = {"n": pa.array([len(row) for row in spans], pa.int32()), "spans": pa.array(spans, self.writes["spans"])}
        places = {kind: pa.array([rows.get(row, []) for row in range(len(batch))], EDIT_SPANS) for kind, rows in found_by.items() if rows}
        counts = {
            kind: places[kind].value_lengths() if kind in places else pa.nulls(len(batch), pa.int32()).fill_null(0) for kind in self.edits
        }
        return Rewrite(text, counts, signals, places)

    def _finds(self, text: pa.Array) -> Iterator[tuple[int, str, Sequence[Span]]]:
        """(row, text, finds) of each text that holds something, in order."""
        found = candidates(text)
        rows, firsts = np.unique(found[:, 0], return_index=True)
        for row, places in zip(rows.tolist(), np.split(found[:, 1:], firsts[1:]), strict=False):
            value = text[row].as_py()
            spans = self._recognizers.find(value, windows_of(places.tolist(), len(value)))
            if spans:
                yield row, value, spans
