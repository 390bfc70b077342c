"""The project's tokenizer as transformers loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainplane.errors import TrainingError


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder, checked for the trap that makes a model never stop.

    Raises:
        TrainingError: It has no EOS or padding token, or both are one token.
    """
    tokenizer = read_tokenizer(folder)
    if tokenizer.eos_token_id is None or tokenizer.pad_token_id is None or tokenizer.eos_token_id == tokenizer.pad_token_id:
        raise TrainingError("the tokenizer needs an EOS and a padding token that differ", where=str(folder), fix="dvc repro tokenizer")
    return tokenizer


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder, whatever its special tokens are."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
