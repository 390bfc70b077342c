"""Text to token ids, with the ids that the `tokenizers` library gives.

Special tokens are never read out of a text: "<|endoftext|>" in a document is the characters it is made of, so that no
document can end itself or speak for a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
from pydantic import Field
from tokenizers import Tokenizer

from dataplane.corpus.sentencepiece_file import puts_prefix
from dataplane.kernels.text_signals import SIGNALS, measure
from dataplane.params import Params
from dataplane.schema import TOKENS

# Where a text can be cut so that the ids of the pieces are the ids of the whole: no pre-token goes on from a character
# that is not white space to a space, nor from a newline to a character that is not white space.
_SEAM = re.compile(r"(?<=\S)(?= )|(?<=\n)(?=\S)")
_SPACE_SEAM = re.compile(r"(?<=\S)(?= )")


class TokenizeParams(Params):
    """How texts become tokens."""

    piece_chars: int = Field(
        1 << 20,
        ge=1 << 10,
        description="Longer texts are encoded in pieces of at most this many characters, which bounds memory. Pieces end before a space or "
        "after a newline and give the ids of the whole; only a text with neither for so long is cut anywhere.",
    )


def tokenize(doc_ids: pa.Array, texts: pa.Array, tokenizer: Tokenizer, params: TokenizeParams) -> pa.RecordBatch:
    """The tokens of each text.

    Args:
        doc_ids: string [n].
        texts: string or large_string [n]; null reads as empty, and an empty text has no tokens.
        tokenizer: As `dataplane.corpus.tokenizer.load` returns it.

    Returns:
        A batch of the table `tokens` [n], without EOS: packing puts it behind each document.
    """
    values = [text or "" for text in texts.to_pylist()]
    long = {i for i, text in enumerate(values) if len(text) > params.piece_chars}
    short = [text for i, text in enumerate(values) if i not in long]
    encoded = iter(tokenizer.encode_batch_fast(short, add_special_tokens=False))
    ids = [_long_ids(text, tokenizer, params.piece_chars) if i in long else next(encoded).ids for i, text in enumerate(values)]
    counts = np.fromiter(map(len, ids), np.int64, len(ids))
    flat = np.fromiter(chain.from_iterable(ids), np.int32, int(counts.sum()))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat))
    n_words = pa.array(measure(texts)[:, SIGNALS.index("n_words")].astype(np.int64))
    return pa.record_batch([doc_ids.cast(pa.string()), pa.array(counts), n_words, lists], schema=TOKENS)


def _long_ids(text: str, tokenizer: Tokenizer, piece_chars: int) -> list[int]:
    if not puts_prefix(tokenizer):
        cut = pieces(text, piece_chars)
    else:  # each piece but the first gives its own space for the one that the tokenizer puts before it
        cut = (piece if i == 0 else piece.removeprefix(" ") for i, piece in enumerate(pieces(text, piece_chars, _SPACE_SEAM)))
    return [i for piece in cut for i in tokenizer.encode_batch_fast([piece], add_special_tokens=False)[0].ids]


def pieces(text: str, piece_chars: int, seam: re.Pattern[str] = _SEAM) -> Iterator[str]:
    """Cuts a text into pieces of at most `piece_chars` characters, at the last seam of each where there is one."""
    start = 0
    while len(text) - start > piece_chars:
        stop = start + _last_seam(text[start : start + piece_chars + 1], piece_chars, seam)
        yield text[start:stop]
        start = stop
    yield text[start:]


def _last_seam(window: str, piece_chars: int, seam: re.Pattern[str]) -> int:
    """Where the last seam of a window lies, at `piece_chars` at the latest; looks at its end first."""
    reach = 1 << 10
    while True:
        low = max(0, len(window) - reach)
        seams = [match.start() for match in seam.finditer(window, low) if 0 < match.start() <= piece_chars]
        if seams:
            return seams[-1]
        if low == 0:
            return piece_chars
        reach *= 4
