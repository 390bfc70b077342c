"""Bits per byte of held-out documents: a measure that needs no common tokenizer, so that gzip can stand beside the models.

Convention: a document is scored as the tokens that follow one EOS token; the EOS behind it is not scored. Where EOS and document
are longer than the model's window, windows of full length follow each other, the last token of one being the first of the next:
each token is scored once, and the context starts anew with each window. Bits are summed over all tokens and divided by all UTF-8
bytes, within a group too, so that a long document weighs as much as it is long.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dataplane.params import digest
from trainplane.evaluate.scores import Score, groups, ratio

TASK = "held_out"
METRIC = "bits_per_byte"
GZIP = "gzip"
TEMPLATE = "EOS document; windows overlap by one token"


@dataclass(frozen=True)
class Documents:
    """Held-out documents.

    Attributes:
        doc_ids: Id of each.
        texts: Their texts.
        tokens: Their tokens, without EOS.
        names: Grouping -> name of each document's group.
        n_too_long: Documents left out for their length.
    """

    doc_ids: list[str]
    texts: list[str]
    tokens: list[list[int]]
    names: Mapping[str, Sequence[str | None]]
    n_too_long: int

    def sizes(self) -> list[int]:
        """UTF-8 bytes of each."""
        return [len(text.encode()) for text in self.texts]


def windows(tokens: Sequence[int], eos_id: int, length: int) -> list[list[int]]:
    """What a model sees of a document: in each window, all tokens but the first are scored."""
    row = [eos_id, *tokens]
    return [row[start : start + length] for start in range(0, max(1, len(row) - 1), length - 1)]


def document_bits(model: Any, tokens: Sequence[Sequence[int]], eos_id: int, batch_tokens: int) -> list[float]:
    """Bits that the model needs for each document."""
    import torch

    parts = [(place, window) for place, row in enumerate(tokens) for window in windows(row, eos_id, model.config.max_position_embeddings)]
    parts.sort(key=lambda part: len(part[1]))
    bits = [0.0] * len(tokens)
    model.eval()
    with torch.no_grad():
        for batch in _batches(parts, batch_tokens):
            for (place, _), nats in zip(batch, _nats(model, [window for _, window in batch], eos_id), strict=True):
                bits[place] += nats / math.log(2)
    return bits


def _batches(parts: list[tuple[int, list[int]]], batch_tokens: int) -> list[list[tuple[int, list[int]]]]:
    """Windows in order of length, as many at once as the padded batch may have tokens."""
    batches: list[list[tuple[int, list[int]]]] = []
    for part in parts:
        if batches and (len(batches[-1]) + 1) * len(part[1]) <= batch_tokens:
            batches[-1].append(part)
        else:
            batches.append([part])
    return batches


def _nats(model: Any, rows: list[list[int]], pad_id: int) -> list[float]:
    """Summed loss of each window. What stands behind a window's end is masked, and no token looks ahead."""
    import torch
    from torch.nn.functional import cross_entropy

    length = max(map(len, rows))
    ids_BT = torch.tensor([row + [pad_id] * (length - len(row)) for row in rows], device=model.device)
    real_BT = torch.tensor([[place < len(row) for place in range(length)] for row in rows], device=model.device)
    logits_BTV = model(input_ids=ids_BT, attention_mask=real_BT.long(), use_cache=False).logits[:, :-1].float()
    losses_BT = cross_entropy(logits_BTV.transpose(1, 2), ids_BT[:, 1:], reduction="none").double() * real_BT[:, 1:]
    return [float(value) for value in losses_BT.sum(1).cpu()]


def score_bits(documents: Documents, bits: Sequence[float], task: str = TASK) -> list[Score]:
    """Bits per byte of each group."""
    sizes = documents.sizes()
    scores = []
    for group, places in groups(documents.names).items():
        value, error = ratio([bits[place] for place in places], [sizes[place] for place in places])
        scores.append(Score(task, group, METRIC, value, error, len(places), template_hash=digest(TEMPLATE)))
    return scores


def gzip_scores(documents: Documents) -> list[Score]:
    """The same by `gzip -9`, each document compressed alone, header and all."""
    bits = [8.0 * len(gzip.compress(text.encode(), 9, mtime=0)) for text in documents.texts]
    return [score.of(GZIP, "") for score in score_bits(documents, bits, GZIP)]
