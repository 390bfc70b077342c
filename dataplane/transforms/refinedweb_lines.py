"""RefinedWeb's corrections of lines: what stands around the text of a page is taken out, and how much that was is measured.

The publication drops a document of which more than 5% of the words are in such lines: that is the rule set refinedweb, over the signal
removed_share.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.kernels.line_edits import CHARS, CJK_CHARS, DIGITS, OTHERS, SOLID_WORDS, UPPER, Lines, Mask, cut, found, join, tidy
from dataplane.kernels.unicode import I32, I64
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams
from dataplane.transforms.line_patterns import COUNTER, PATTERNS, SIGNS


class RefinedwebLines(Transform):
    """Removes lines that are mainly capitals, only numbers, a counter or one word, and buttons' words from short lines.

    Lines that stay keep their white space; a document without such a line is left as it is.

    Source: Penedo et al. 2023 (arXiv:2306.01116), 3.2 and G.2.
    """

    name, version = "refinedweb_lines", "1"
    reads = {"text": pa.large_string()}
    writes = {"removed_share": pa.float32()}
    edits = ("uppercase", "numeric", "counter", "one_word", *PATTERNS)

    class Params(BaseParams):
        """What goes."""

        max_uppercase_share: float = Field(
            0.5,
            ge=0,
            le=1,
            description="Lines with a larger share of capitals among their characters, white space left out, go; published as `mainly`.",
        )
        numeric: bool = Field(True, description="Whether lines of nothing but digits and the signs that numbers are written with go.")
        counters: bool = Field(True, description="Whether lines that are counters, such as `3 likes`, go.")
        min_words: int = Field(2, ge=0, description="Lines with words, but fewer than these, go.")
        cjk_chars_per_word: int = Field(2, ge=1, description="CJK characters that make a word.")
        max_pattern_words: int = Field(10, ge=0, description="In lines of at most so many words the words of buttons are taken out.")

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signal removed_share: share of the words in lines that went or were changed."""
        lines = cut(batch.column("text"))
        inner, counts = lines.stripped(), lines.counts()
        words = counts[:, SOLID_WORDS] - counts[:, CJK_CHARS] - counts[:, CJK_CHARS] // -self.params.cjk_chars_per_word
        kinds = self._removed(inner, counts, words)
        kept = ~np.logical_or.reduce(list(kinds.values()))
        edited, patterns = self._without_patterns(inner, kept & (words <= self.params.max_pattern_words) & ~lines.blank)
        kinds |= patterns
        changed = np.logical_or.reduce(list(patterns.values()))
        kept &= ~found(edited, f"^{SIGNS}$", changed)
        text = _put_back(lines, edited, np.flatnonzero(changed & kept))
        made = join(text, tidy(kept, lines.blank, lines.first), lines.first, newline=False)
        edits = {kind: lines.per_document(mask) for kind, mask in kinds.items()}
        return Rewrite(made, edits, {"removed_share": lines.lost_share(kept & ~changed, words)})

    def _removed(self, text: pa.Array, counts: I32, words: I32) -> dict[str, Mask]:
        """The lines that go, each under the first rule that it fails.

        Args:
            text: large_string [m], the lines without the white space around them.
            counts: int32 [m, 8], what they are made of.
            words: int32 [m]
        """
        params, left = self.params, np.ones(len(text), np.bool_)
        faults = {
            "uppercase": counts[:, UPPER] > params.max_uppercase_share * counts[:, CHARS],
            "numeric": (counts[:, DIGITS] > 0) & (counts[:, OTHERS] == 0) & params.numeric,
            "counter": found(text, COUNTER, (counts[:, DIGITS] > 0) & params.counters),
            "one_word": (words > 0) & (words < params.min_words),
        }
        for kind, fault in faults.items():
            faults[kind] = left & fault
            left &= ~fault
        return faults

    def _without_patterns(self, text: pa.Array, short: Mask) -> tuple[pa.Array, dict[str, Mask]]:
        """The lines without the words of buttons, and which were changed by which kind."""
        changed = {}
        for kind, (pattern, stays) in PATTERNS.items():
            mask = found(text, pattern, short)
            chosen = pa.array(mask)
            text = pc.replace_with_mask(text, chosen, pc.replace_substring_regex(text.filter(chosen), pattern, stays))
            changed[kind] = mask
        return text, changed


def _put_back(lines: Lines, edited: pa.Array, rows: I64) -> pa.Array:
    """The lines as they stood, with white space and line breaks, those in `rows` as they are now: large_string [m]."""
    whole = lines.whole()
    if not len(rows):
        return whole
    mask = np.zeros(len(whole), np.bool_)
    mask[rows] = True
    old = zip(whole.take(pa.array(rows)).to_pylist(), edited.take(pa.array(rows)).to_pylist(), strict=True)
    new = [_in_its_space(line, now.strip()) for line, now in old]
    return pc.replace_with_mask(whole, pa.array(mask), pa.array(new, pa.large_string()))


def _in_its_space(line: str, now: str) -> str:
    """New words between the white space that stood around the old ones."""
    return line[: len(line) - len(line.lstrip())] + now + line[len(line.rstrip()) :]
