"""Which tokens end a sentence or a paragraph: what a long document may be cut behind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from dataplane.kernels.packing import FULL_STOP, LINE_BREAK, SPACE, STOP

U8 = npt.NDArray[np.uint8]

_BEFORE_SPACE, _ALWAYS = ".?!…؟।", "。！？｡"  # the first stand inside numbers and names, too
_CLOSING = "\"'”’)]»」』）"
_SPACE_MARKS = ("Ġ", "▁")  # how byte-level and SentencePiece vocabularies write a space at a token's start
_BYTES_OF_LINE_BREAKS = ("<0x0A>", "<0x0D>")  # tokens that SentencePiece falls back to


def token_kinds(tokenizer: Tokenizer) -> U8:
    """What each token is to the borders of sentences and paragraphs: uint8 [highest id + 1], bits of `kernels.packing`.

    A token is told by its own text, so a stop whose bytes are spread over several tokens is none.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    kinds = np.zeros(max(vocabulary.values(), default=-1) + 1, np.uint8)
    for token, number in vocabulary.items():
        kinds[number] = _kind(token, tokenizer.decode([number], skip_special_tokens=True))
    return kinds


def _kind(token: str, text: str) -> int:
    bare = text.rstrip().rstrip(_CLOSING)[-1:]
    kind = STOP if bare and bare in _BEFORE_SPACE else 0
    kind |= FULL_STOP if bare and bare in _ALWAYS else 0
    kind |= LINE_BREAK if "\n" in text or "\r" in text or token in _BYTES_OF_LINE_BREAKS else 0
    return kind | (SPACE if token.startswith(_SPACE_MARKS) or text[:1].isspace() else 0)
