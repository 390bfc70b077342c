"""Documents in one sequence do not attend to each other.

transformers derives such a mask from position_ids only if attention_mask is None and use_cache is False, and silently lets
documents see each other otherwise. An explicit mask depends on nothing.
"""

from __future__ import annotations

from typing import Any


def block_mask(documents: Any) -> Any:
    """Who may attend to whom where a model looks both ways.

    Args:
        documents: int64 tensor documents_BT, number of each token's document, negative for padding.

    Returns:
        bool tensor mask_B1TT, true where row may look at column: the same document. A padding token sees itself, since a softmax over
        nothing is not a number.
    """
    import torch

    same_BTT = documents[:, :, None] == documents[:, None, :]
    real_BTT = (documents >= 0)[:, :, None]
    itself_TT = torch.eye(documents.shape[1], dtype=torch.bool, device=documents.device)
    return ((same_BTT & real_BTT) | itself_TT)[:, None]


def block_causal_mask(documents: Any) -> Any:
    """As `block_mask`, and not at later tokens."""
    return block_mask(documents).tril()
