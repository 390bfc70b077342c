"""A filter that an outsider would publish: the share of emoji in a document, and a rule on it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

import dataplane

# Unicode's emoji-presentation blocks (UTS #51): pictographs, symbols with an emoji look, flags; and what glues them together
# (zero-width joiner, variation selector 16, skin tones). Digits, # and * can begin keycaps but are text by themselves.
EMOJI = r"[\x{1F1E6}-\x{1F1FF}\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}\x{2B05}-\x{2B55}\x{231A}-\x{23FF}\x{FE0F}\x{200D}]"


class EmojiRatio(dataplane.Filter):
    """Drop documents that are mostly emoji. Source: the threshold is a choice, not a measurement."""

    name, version = "emoji_ratio", "1"
    reads = {"text": pa.large_string()}
    writes = {"ratio": pa.float32()}

    class Params(dataplane.Params):
        """Params of emoji_ratio."""

        max_ratio: float = Field(0.1, ge=0, le=1, description="Highest share of emoji kept, by character.")

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Share of characters that are emoji or hold one together; 0 for an empty text."""
        text = batch.column("text")
        n_emoji = pc.count_substring_regex(text, EMOJI).cast(pa.float32())
        n_chars = pc.max_element_wise(pc.utf8_length(text), 1).cast(pa.float32())
        return {"ratio": pc.divide(n_emoji, n_chars)}

    def rules(self) -> Mapping[str, str]:
        """too_many_emoji."""
        return {"too_many_emoji": f"emoji_ratio.ratio > {self.params.max_ratio!r}"}
