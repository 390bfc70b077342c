"""Text into another language and back, through two translation models on this machine.

Source: Sennrich, Haddow, Birch 2016, arXiv:1511.06709; as augmentation, Edunov et al. 2018, arXiv:1808.09381.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault, ModelMissing

BATCH_SENTENCES = 16
MAX_TOKENS = 256
BEAMS = 4
# White space between sentences is kept as it is, so that lines stay lines.
_BETWEEN = re.compile(r"(\s*\n\s*|(?<=[.!?])\s+|(?<=[。！？])\s*)")


class BackTranslator:
    """Two sequence-to-sequence models of transformers, there and back.

    Args:
        there: Folder of the model out of the text's language.
        back: Folder of the model into it.
        max_tokens: Of a sentence, either way; what is longer is cut.

    Raises:
        ModelMissing: A folder does not hold a model.
        EnvironmentFault: transformers or torch is not installed.
    """

    def __init__(self, there: Path, back: Path, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._models = [_load(there), _load(back)]

    def __call__(self, text: str) -> str:
        """The text as it comes back. The same text gives the same result: the models search, they do not sample."""
        parts = _BETWEEN.split(text)
        sentences = [part for part in parts[::2] if part.strip()]
        for model in self._models:
            sentences = _translate(model, sentences, self._max_tokens)
        translated = iter(sentences)
        return "".join(next(translated) if i % 2 == 0 and part.strip() else part for i, part in enumerate(parts))


def _load(folder: Path) -> tuple[Any, Any]:
    try:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    except ImportError as error:
        message, fix = f"{error.name} is not installed", 'pip install "terraplane[train]"'
        raise EnvironmentFault(message, where="back-translation", fix=fix) from None
    try:
        # No look at the network: a name that is no folder would else be asked for there.
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    except (OSError, ValueError) as error:
        fix = "name a folder with a sequence-to-sequence model of transformers, such as Marian's"
        raise ModelMissing(f"{folder} holds no translation model: {error}", where="back-translation", fix=fix) from None
    return tokenizer, model


def _translate(loaded: tuple[Any, Any], sentences: Sequence[str], max_tokens: int) -> list[str]:
    import torch

    tokenizer, model = loaded
    # Sentences of like length share a batch, so that little is padding; they go back to their places.
    order = sorted(range(len(sentences)), key=lambda i: (len(sentences[i]), i))
    done = [""] * len(sentences)
    for start in range(0, len(order), BATCH_SENTENCES):
        places = order[start : start + BATCH_SENTENCES]
        given = tokenizer([sentences[i] for i in places], return_tensors="pt", padding=True, truncation=True, max_length=max_tokens)
        with torch.inference_mode():
            made = model.generate(
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                num_beams=BEAMS,
                do_sample=False,
                max_new_tokens=max_tokens,
            )
        for i, text in zip(places, tokenizer.batch_decode(made, skip_special_tokens=True), strict=True):
            done[i] = text
    return done
