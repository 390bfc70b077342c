"""C4's rules over lines: those that are no sentences or speak of the site are taken out.

The rules over whole documents (placeholder text, curly brackets, too few sentences) are the rule set c4, which decides on the text
that is left. With `marks: published`, lines of scripts with spaces are kept and removed as datatrove 0.10.1 does; a CJK character is
a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.kernels.line_edits import LONGEST, WORDS, Lines, Mask, cut, found, join, tidy
from dataplane.kernels.unicode import I32, TERMINAL_PUNCTUATION
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams

# RE2. Source: the code of C4, https://github.com/tensorflow/datasets (c4_utils.py), which datatrove follows.
_CITATION = r"\[\p{Nd}*\]|\[edit\]|\[citation needed\]"
_SCRIPT = "(?i)javascript"
_PUBLISHED_END = r"""[.?!"']$"""
_PUBLISHED_ELLIPSIS = r"\.\.\.$"
# Quotation marks after a stop are end marks too; "……" is how Chinese writes one, a lone "…" is an ellipsis.
_ANY_END = rf"""[{re.escape(TERMINAL_PUNCTUATION)}"'”’»]$"""
_ANY_ELLIPSIS = r"\.\.\.$|(?:^|[^\p{Han}\p{Hiragana}\p{Katakana}…」』”])…$"
_MARKS = {"published": (_PUBLISHED_END, _PUBLISHED_ELLIPSIS), "all": (_ANY_END, _ANY_ELLIPSIS)}


class C4Lines(Transform):
    """Removes lines by C4's rules, and citation marks.

    Edits count removed lines by the first rule that they fail, citation marks, and kept lines whose white space was taken off.

    Source: Raffel et al. 2020 (arXiv:1910.10683), 2.2. FineWeb (arXiv:2406.17557) sets `terminal_punctuation: false`.
    """

    name, version = "c4_lines", "1"
    reads = {"text": pa.large_string()}
    writes = {"removed_share": pa.float32()}
    edits = ("blank", "long_word", "no_terminal_punctuation", "too_few_words", "javascript", "policy", "citation", "white_space")

    class Params(BaseParams):
        """What goes."""

        terminal_punctuation: bool = Field(True, description="Whether lines that end in no terminal mark, or in an ellipsis, go.")
        marks: Literal["all", "published"] = Field(
            "all", description="all: the end marks of every script, and typographic quotation marks; published: . ? ! \" ' alone."
        )
        min_words: int = Field(3, ge=0, description="Lines with fewer words go; a CJK character is a word.")
        max_word_chars: int = Field(1000, ge=1, description="Lines with a longer word go.")
        javascript: bool = Field(True, description="Whether lines that mention JavaScript go.")
        policy_phrases: tuple[str, ...] = Field(
            (
                "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies",
                "使用条款", "服务条款", "隐私政策", "隐私权政策", "使用cookie", "使用 cookie", "cookie政策", "cookie 政策",
            ),
            description="Lines with one of these go, in any case.",
        )  # fmt: skip
        citations: bool = Field(True, description="Whether marks such as [1], [edit] and [citation needed] are taken out of lines.")
        keep_blank_lines: bool = Field(False, description="Whether a blank line between kept lines stays; as published it goes.")

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, counts by kind, and the signal removed_share: share of the words that went with their lines."""
        lines = cut(batch.column("text"))
        text, cited = self._without_citations(lines.stripped())
        measured = lines.counts()
        kept, kinds = self._decide(lines, measured, text)
        made = join(text, kept, lines.first, newline=True)
        counts = {kind: lines.per_document(mask) for kind, mask in kinds.items()}
        counts["citation"] = lines.sums(np.where(kept, cited, 0))
        # A mark at an end of the document leaves white space behind.
        made = pc.if_else(pc.greater(counts["citation"], 0), pc.utf8_trim_whitespace(made), made)
        counts["white_space"] = lines.per_document(lines.respaced(kept))
        return Rewrite(made, counts, {"removed_share": lines.lost_share(kept, measured[:, WORDS])})

    def _without_citations(self, text: pa.Array) -> tuple[pa.Array, I32]:
        """The lines without citation marks, and how many each had: int32 [m]."""
        counts = np.zeros(len(text), np.int32)
        if not self.params.citations:
            return text, counts
        marked = pc.match_substring_regex(text, _CITATION)
        rows = text.filter(marked)
        counts[marked.to_numpy(zero_copy_only=False)] = pc.count_substring_regex(rows, _CITATION).to_numpy()
        return pc.replace_with_mask(text, marked, pc.replace_substring_regex(rows, _CITATION, "")), counts

    def _decide(self, lines: Lines, counts: I32, text: pa.Array) -> tuple[Mask, dict[str, Mask]]:
        """Which lines stay, and for which rule each other one goes.

        Args:
            lines: The lines as they came.
            counts: int32 [m, 8], what they are made of.
            text: large_string [m], the same without citation marks and the white space around them.
        """
        params, kinds = self.params, {}
        kept = np.ones(len(text), np.bool_)
        for kind, fault in self._faults(lines, counts, text):
            failing = fault(kept)
            kinds[kind] = kept & failing
            kept = kept & ~failing
        if params.keep_blank_lines:
            kept = tidy(kept | lines.blank, lines.blank, lines.first)
            kinds["blank"] = lines.blank & ~kept
        return kept, kinds

    def _faults(self, lines: Lines, counts: I32, text: pa.Array) -> Iterator[tuple[str, Callable[[Mask], Mask]]]:
        """The rules in their order: the kind of edit, and which of the lines that are left fail."""
        params = self.params
        yield "blank", lambda _: lines.blank
        yield "long_word", lambda _: counts[:, LONGEST] > params.max_word_chars
        if params.terminal_punctuation:
            end, ellipsis = _MARKS[params.marks]
            yield "no_terminal_punctuation", lambda left: ~found(text, end, left) | found(text, ellipsis, left)
        yield "too_few_words", lambda _: counts[:, WORDS] < params.min_words
        if params.javascript:
            yield "javascript", lambda left: found(text, _SCRIPT, left)
        if params.policy_phrases:
            phrases = "(?i)" + "|".join(map(re.escape, params.policy_phrases))
            yield "policy", lambda left: found(text, phrases, left)
