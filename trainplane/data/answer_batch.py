"""Conversations as a batch of rows: padded, or several in a row that cannot attend to each other.

Labels are ignored by place, never by token id, so that a padding token that is also the end of an answer hides no end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainplane.data.chat import Encoded
from trainplane.data.packed import IGNORED, PADDING
from trainplane.model.masking import block_causal_mask


def padded(examples: Sequence[Encoded], pad_id: int) -> dict[str, Any]:
    """One example a row.

    Returns:
        int64 tensors [b, t]: input_ids, labels (not shifted), attention_mask.
    """
    ids_bt, mask_bt = right_padded([one.input_ids for one in examples], pad_id)
    return {"input_ids": ids_bt, "labels": right_padded([one.labels for one in examples], IGNORED)[0], "attention_mask": mask_bt}


def right_padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[Any, Any]:
    """Rows of one length, int64 [b, t], and where they hold what was given: int64 [b, t], 1 there and 0 at the padding."""
    import torch

    length = max(map(len, rows))
    padded_rows = torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows])
    return padded_rows, torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])


def packed(examples: Sequence[Encoded], pad_id: int, length: int) -> dict[str, Any]:
    """Several examples a row, under a mask that shuts each in, with positions that begin again.

    Returns:
        input_ids, labels, position_ids: int64 tensors [r, t]; attention_mask: bool tensor [r, 1, t, t], true where a row may look.
    """
    import torch

    rows = first_fit([len(one.input_ids) for one in examples], length)
    width = max(sum(len(examples[place].input_ids) for place in row) for row in rows)
    ids, labels, documents, positions = [], [], [], []
    for row in rows:
        parts = [examples[place] for place in row]
        lengths = [len(one.input_ids) for one in parts]
        fill = width - sum(lengths)
        ids.append([token for one in parts for token in one.input_ids] + [pad_id] * fill)
        # Nothing predicts an example's first token: before it stands another example.
        labels.append([label for one in parts for label in [IGNORED, *one.labels[1:]]] + [IGNORED] * fill)
        documents.append([number for number, n in enumerate(lengths) for _ in range(n)] + [PADDING] * fill)
        positions.append([place for n in lengths for place in range(n)] + [0] * fill)
    return {
        "input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "position_ids": torch.tensor(positions),
        "attention_mask": block_causal_mask(torch.tensor(documents)),
    }  # fmt: skip


def first_fit(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Places of the examples of each row, the longest first, each in the first row with room.

    Raises:
        ValueError: One is longer than a row.
    """
    if max(lengths) > most:
        raise ValueError(f"an example of {max(lengths)} tokens does not fit a row of {most}")
    rows: list[list[int]] = []
    room: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        at = next((row for row, left in enumerate(room) if left >= lengths[place]), len(rows))
        if at == len(rows):
            rows.append([])
            room.append(most)
        rows[at].append(place)
        room[at] -= lengths[place]
    return rows


def collator(pad_id: int, pack_length: int | None) -> Callable[[list[dict[str, list[int]]]], dict[str, Any]]:
    """Makes a batch of a trainer's rows {"input_ids", "labels"}; packed to rows of so many tokens, padded where None."""

    def collate(rows: list[dict[str, list[int]]]) -> dict[str, Any]:
        examples = [Encoded(row["input_ids"], row["labels"]) for row in rows]
        return padded(examples, pad_id) if pack_length is None else packed(examples, pad_id, pack_length)

    return collate
