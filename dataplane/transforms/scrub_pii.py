"""Replaces personal data by tags: e-mail, phone, IP, Chinese ID and mobile numbers.

A cheap look at the whole batch comes first; only documents that could hold something are read by the recognisers. Addresses at
example domains are replaced like all others: a tag loses nothing there, and a list of exceptions would be one more thing to trust.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.pii_recognizers import KINDS, Recognizers

_D = "[0-9０-９]"
_GAP = r"[ ()./+\x{a0}\x{202f}\x{3000}\x{2010}-\x{2015}（）．／＋－-]"
# RE2, over the batch: an at sign in a word, seven digits with little between them, four numbers with dots, or an IPv6 pair.
_CANDIDATE = (
    rf"[0-9A-Za-z０-９Ａ-Ｚａ-ｚ_%+．＿-][@＠][0-9A-Za-z０-９Ａ-Ｚａ-ｚ]|{_D}(?:{_GAP}{{0,3}}{_D}){{6}}|{_D}(?:[.．]{_D}{{1,3}}){{3}}"
    r"|[0-9A-Fa-f０-９Ａ-Ｆａ-ｆ]{0,4}[:：][0-9A-Fa-f０-９Ａ-Ｆａ-ｆ]{0,4}[:：][0-9A-Fa-f０-９Ａ-Ｆａ-ｆ:：]"
)


class ScrubPii(Transform):
    """Replaces each find by its tag, such as [EMAIL].

    Source: RFC 5322 (e-mail), RFC 6890 (addresses of special use), E.164 with Google's libphonenumber, GB 11643-1999 (Chinese IDs).
    """

    name, version = "scrub_pii", "2"
    reads = {"text": pa.large_string()}
    writes = {"n": pa.int32()}
    edits = KINDS

    class Params(BaseParams):
        """What is replaced."""

        kinds: tuple[Literal["email", "cn_id", "cn_mobile", "ip", "phone"], ...] = Field(
            ("email", "cn_id", "cn_mobile", "ip", "phone"),
            description="Kinds that are replaced; where finds overlap the earlier kind wins.",
        )
        regions: tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...] = Field(
            ("US", "GB", "CN"), description="Regions whose national phone numbers are recognised; international ones always are."
        )
        private_ips: bool = Field(False, description="Whether addresses that lead nowhere on the internet are replaced too.")
        unchecked_ids: bool = Field(False, description="Whether ID-shaped numbers with a wrong check character are replaced too.")
        tag: str = Field(
            "[{kind}]", pattern=r"^[^{}]*\{kind\}[^{}]*$", description="What takes a find's place; {kind} is its kind in capitals."
        )

    def open(self) -> None:
        """Loads the recognisers."""
        params = self.params
        self._recognizers: Any = Recognizers(
            params.kinds, params.regions, private_ips=params.private_ips, unchecked_ids=params.unchecked_ids
        )

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signal n: finds in the document."""
        text = batch.column("text")
        counts = {kind: [0] * len(batch) for kind in self.edits}
        candidate = pc.match_substring_regex(text, _CANDIDATE)
        rows = pc.indices_nonzero(candidate).to_pylist()
        changed: dict[int, str] = {}
        for row, value in zip(rows, text.filter(candidate).to_pylist(), strict=True):
            scrubbed = self._scrub(value, row, counts)
            if scrubbed is not None:
                changed[row] = scrubbed
        if changed:
            mask = pa.array([row in changed for row in range(len(batch))])
            text = pc.replace_with_mask(text, mask, pa.array(list(changed.values()), text.type))
        total = [sum(counts[kind][row] for kind in self.edits) for row in range(len(batch))]
        return Rewrite(text, {kind: pa.array(n, pa.int32()) for kind, n in counts.items()}, {"n": pa.array(total, pa.int32())})

    def _scrub(self, text: str, row: int, counts: dict[str, list[int]]) -> str | None:
        """The text with tags, or None where nothing was found."""
        parts, at = [], 0
        for span in self._recognizers.find(text):
            parts += [text[at : span.start], self.params.tag.format(kind=span.kind.upper())]
            counts[span.kind][row] += 1
            at = span.stop
        return "".join([*parts, text[at:]]) if parts else None
