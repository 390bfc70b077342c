"""Replaces personal data by tags: e-mail, phone, IP, Chinese ID and mobile numbers.

A cheap look at the whole text comes first; only lines that could hold something are given to the recognisers, one by one,
so that no find spans two lines.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.pii_recognizers import KINDS, Recognizers, narrow

# RE2, over the batch: an at sign between word characters, or seven digits with little between them, or an IPv6 pair.
_CANDIDATE = (
    r"[@＠]"
    r"|[0-9０-９](?:[ ()./－-]{0,2}[0-9０-９]){6}"
    r"|[0-9０-９](?:[.．][0-9０-９]{1,3}){3}"
    r"|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]"
)
_LINE_CANDIDATE = re.compile(r"@|\d(?:[ ()./-]{0,2}\d){6}|\d(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]")
MAX_LINE_CHARS = 20_000  # a longer line is cut here, at white space where there is some: the recognisers' cost is bounded


class ScrubPii(Transform):
    """Replaces each find by its tag, such as [EMAIL]."""

    name, version = "scrub_pii", "1"
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
        tag: str = Field("[{kind}]", pattern=r"\{kind\}", description="What takes a find's place; {kind} is its kind in capitals.")

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
        candidates = pc.match_substring_regex(text, _CANDIDATE).to_pylist()
        values: pa.Array = text
        if any(candidates):
            rows = text.to_pylist()
            for i, row in enumerate(rows):
                if candidates[i]:
                    rows[i] = self._scrub(row, i, counts)
            values = pa.array(rows, pa.large_string())
        total = [sum(counts[kind][i] for kind in self.edits) for i in range(len(batch))]
        return Rewrite(values, {kind: pa.array(n, pa.int32()) for kind, n in counts.items()}, {"n": pa.array(total, pa.int32())})

    def _scrub(self, text: str, row: int, counts: dict[str, list[int]]) -> str:
        return "".join(self._line(line, row, counts) for line in _lines(text))

    def _line(self, line: str, row: int, counts: dict[str, list[int]]) -> str:
        if not _LINE_CANDIDATE.search(narrow(line)):
            return line
        parts, at = [], 0
        for span in self._recognizers.find(line):
            parts += [line[at : span.start], self.params.tag.format(kind=span.kind.upper())]
            counts[span.kind][row] += 1
            at = span.stop
        return "".join([*parts, line[at:]])


def _lines(text: str) -> list[str]:
    """Lines with their ends; those that are too long are cut."""
    lines = []
    for line in text.splitlines(keepends=True):
        while len(line) > MAX_LINE_CHARS:
            cut = line.rfind(" ", MAX_LINE_CHARS // 2, MAX_LINE_CHARS) + 1 or MAX_LINE_CHARS
            lines.append(line[:cut])
            line = line[cut:]
        lines.append(line)
    return lines
