"""A character n-gram model with interpolated modified Kneser-Ney smoothing, trained on sources that are trusted.

Why characters: words need a splitter for each language, and of a few megabytes of training text one word in ten of good new
text is unknown, so that word perplexity measures the vocabulary. Five characters are about a word of English and two or
three words of Chinese, next to no character is unknown, and a short text still has enough of them. Perplexity by character
is higher where there are more characters to choose from: compare Chinese with Chinese. A language that no trusted source is
written in gets a high perplexity, which says no more than that; put `when` on the operator there.

Source of the estimation: Chen and Goodman 1998 (TR-10-98, Harvard), section 3; in the form of Heafield et al. 2013
(ACL P13-2121), sections 3.2 to 3.4, whose treatment of the start of a text and fallback discounts are taken too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.kneser_ney import Order, count_orders, estimate
from dataplane.errors import DataError
from dataplane.kernels.ngram_lm import FIRST_CHARACTER, MAX_ORDER, SPACE, UNKNOWN, Model, count_code_points, encode
from dataplane.kernels.unicode import N_CODE_POINTS, text_buffers
from dataplane.params import Params

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class TrainLmParams(Params):
    """What the model is trained on, and how large it is."""

    model: str = Field(
        "",
        description="File of a model made before, relative to the project, used as it is: new text changes no score; empty trains one.",
    )
    sources: tuple[str, ...] = Field((), description="Trusted sources; empty takes all.")
    order: int = Field(5, ge=1, le=MAX_ORDER, description="Characters of the longest n-gram.")
    min_count: int = Field(2, ge=1, description="Occurrences below which a character is an unknown one.")
    prune_below: int = Field(2, ge=1, description="Occurrences below which an n-gram of three characters or more is left out; 1 keeps all.")
    max_bytes: int = Field(
        8_000_000,
        ge=1,
        le=1 << 30,
        description="Bytes of text at most, in equal parts for the sources named; training takes 100 bytes each.",
    )


def train(batches: Iterable[pa.RecordBatch], params: TrainLmParams) -> Model:
    """Trains a model; the order of the texts makes no difference, but for what `max_bytes` cuts off.

    Args:
        batches: Columns source and text (string or large_string).

    Raises:
        DataError: There is no text of the trusted sources.
    """
    texts = pa.chunked_array(list(trusted(batches, params)), pa.large_string())
    data, offsets = text_buffers(texts)
    counts = count_code_points(data, offsets)
    if not counts.sum():
        named = ", ".join(params.sources) or "any source"
        raise DataError(f"there is no text of {named}", where="train_lm", fix="name sources that exist in train_lm.sources of params.yaml")
    codes, ids = _vocabulary(counts, params.min_count)
    table = np.full(N_CODE_POINTS, UNKNOWN, np.int32)
    table[codes] = ids
    size = int(ids.max()) + 1
    characters, places = encode(data, offsets, table)
    orders = count_orders(characters, places, size, params.order)
    estimate(orders, params.prune_below)
    return _assemble(orders, codes, ids, size)


def trusted(batches: Iterable[pa.RecordBatch], params: TrainLmParams) -> Iterator[pa.Array]:
    """Texts of the trusted sources, each source up to its part of max_bytes: large_string arrays."""
    share = params.max_bytes // max(1, len(params.sources))
    left: dict[str, int] = dict.fromkeys(params.sources, share) if params.sources else {"": share}
    for batch in batches:
        sources = batch.column("source").to_pylist() if params.sources else [""] * len(batch)
        taken = []
        for i, (source, size) in enumerate(zip(sources, np.diff(text_buffers(batch.column("text"))[1]).tolist(), strict=True)):
            if 0 < size <= left.get(source, 0):
                left[source] -= size
                taken.append(i)
        if taken:
            yield batch.column("text").take(pa.array(taken)).cast(pa.large_string())
        if not any(left.values()):
            return


@lru_cache
def _fold() -> I32:
    """What each code point is read as: int32 [0x110000]. Half width, lower case, "0" for digits, " " for white space."""
    table = np.arange(N_CODE_POINTS, dtype=np.int32)
    for code in range(0x20000):
        table[code] = ord(_folded(chr(code)))
    return table


def _folded(char: str) -> str:
    if char.isspace():
        return " "
    if char.isdecimal():
        return "0"
    wide = unicodedata.normalize("NFKC", char)
    lower = (wide if len(wide) == 1 else char).lower()
    lower = lower if len(lower) == 1 else char
    return " " if lower.isspace() else lower


def _vocabulary(counts: I64, min_count: int) -> tuple[I32, I32]:
    """Code points that are known, sorted, and their ids, by order of the folded code point: int32 [k] each."""
    fold = _fold()
    folded = np.bincount(fold, weights=counts, minlength=N_CODE_POINTS)
    known = np.flatnonzero(folded >= min_count)
    known = known[known != ord(" ")]
    id_of = np.full(N_CODE_POINTS, UNKNOWN, np.int32)
    id_of[known] = np.arange(FIRST_CHARACTER, FIRST_CHARACTER + len(known))
    id_of[ord(" ")] = SPACE
    ids = id_of[fold]
    codes = np.flatnonzero(ids != UNKNOWN).astype(np.int32)
    return codes, ids[codes]


def _assemble(orders: list[Order], codes: I32, ids: I32, size: int) -> Model:
    """One numbering for all n-grams that are kept: by length, then prefix, then last character."""
    parents = []
    number = np.zeros(0, np.int64)
    first = 0
    for n, order in enumerate(orders):
        if n:
            parents.append(number[order.prefix[order.kept]])
        number = first + np.cumsum(order.kept) - 1
        first += int(order.kept.sum())
    with np.errstate(divide="ignore"):  # BOS is never predicted: its probability is 0
        log_probs = np.log10(np.concatenate([order.prob[order.kept] for order in orders])).astype(np.float32)
    parent = np.concatenate([np.zeros(0, np.int64), *parents])
    return Model(
        order=len(orders),
        codes=codes,
        ids=ids,
        starts=(size + np.searchsorted(parent, np.arange(first + 1))).astype(np.int32),
        tokens=np.concatenate([order.token[order.kept] for order in orders]).astype(np.int32),
        log_probs=log_probs,
        log_backoffs=np.log10(np.concatenate([order.backoff[order.kept] for order in orders])).astype(np.float32),
        size=size,
    )
