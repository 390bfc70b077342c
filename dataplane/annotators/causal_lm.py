"""Causal language models of transformers out of a local folder: the log probability of texts.

A text is read in windows that overlap: the tokens that a window shares with the one before are only its context. Windows run in
batches of one fixed shape for each length, so that a text's score does not depend on what stands beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.lm_scorers import Scored, characters
from dataplane.annotators.local_models import device, quiet
from dataplane.conversation import Turn
from dataplane.errors import EnvironmentFault, ModelMissing
from dataplane.kernels.ngram_lm import F64, I64
from dataplane.params import Params

_SHORTEST = 32  # tokens of the smallest shape
_NO_TARGET = -100


class CausalParams(Params):
    """How a causal model is run."""

    window: int = Field(1024, ge=2, le=1 << 20, description="Tokens that the model sees at once; fewer where it has fewer positions.")
    overlap: float = Field(0.5, ge=0, lt=1, description="Share of a window that is context from the one before.")
    max_tokens: int = Field(8192, ge=1, description="Tokens of a text that are scored, from its start.")
    batch_size: int = Field(8, ge=1, le=4096, description="Windows in a batch.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where it runs; auto takes a GPU where there is one.")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Numbers it computes with.")


def files_of(folder: Path) -> list[Path]:
    """Weights, configuration and tokenizer.

    Raises:
        ModelMissing: There are no weights as safetensors, or there is no configuration.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights or not (folder / "config.json").is_file():
        fix = "save it with save_pretrained(..., safe_serialization=True); pickled weights are not loaded"
        raise ModelMissing(f"{folder} holds no config.json with weights as safetensors", where="language model", fix=fix)
    return [*weights, *sorted(path for path in folder.iterdir() if path.suffix in (".json", ".model", ".txt", ".jinja"))]


class CausalModel:
    """A model and its tokenizer, loaded from a folder and from nowhere else."""

    def __init__(self, folder: Path, params: CausalParams) -> None:
        """Loads them.

        Raises:
            EnvironmentFault: transformers or torch is not installed, or there is no GPU where one is asked for.
            ModelMissing: The folder's files are damaged, or of a model that is not causal.
        """
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            fix = "pip install 'terraplane[train]'"
            raise EnvironmentFault(f"a causal model needs transformers and torch: {error}", where=str(folder), fix=fix) from None
        files_of(folder)
        self._device = device(params.device, "perplexity.causal.device")
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(str(folder), **local)
            with quiet():
                model = AutoModelForCausalLM.from_pretrained(str(folder), use_safetensors=True, dtype=getattr(torch, params.dtype), **local)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            fix = "save model and tokenizer into it with save_pretrained"
            raise ModelMissing(f"{folder} cannot be loaded: {error}", where="language model", fix=fix) from error
        self._model = model.to(self._device).eval()
        positions = getattr(model.config, "max_position_embeddings", None) or params.window
        self._window = max(2, min(params.window, positions))
        self._params = params

    def score(self, text: pa.Array) -> Scored:
        """Log probability of the first `max_tokens` tokens of each text; characters in proportion."""
        ids = [self._encoded(value or "") for value in text.to_pylist()]
        by_shape: dict[int, list[tuple[int, list[int], int]]] = defaultdict(list)
        for i, (tokens, _) in enumerate(ids):
            for window, context in windows(tokens, self._window, int(self._window * self._params.overlap)):
                by_shape[_shape(len(window), self._window)].append((i, window, context))
        nats = np.zeros(len(ids))
        for places, losses in self._batched(by_shape):
            np.subtract.at(nats, places, losses)
        counts = np.array([max(0, len(tokens) - 1) for tokens, _ in ids], np.int64)
        shares = np.array([share for _, share in ids])
        return Scored(nats / np.log(10), counts, np.asarray(np.rint(characters(text) * shares), np.int64))

    def answer_nats(self, rows: Sequence[tuple[Sequence[Turn], str]]) -> tuple[F64, I64]:
        """How improbable answers are behind what they answer.

        What was asked is put into the chat template, where the tokenizer has one. An answer is cut to `max_tokens`, and to the model's
        window less a token; of what was asked, the last tokens that fit are kept.

        Args:
            rows: The turns asked, none for an answer by itself, and the answer.

        Returns:
            Negative log likelihood of each answer in nats, float64 [n]; and its tokens, int64 [n].
        """
        by_shape: dict[int, list[tuple[int, list[int], int]]] = defaultdict(list)
        nats, counts = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
        for i, (asked, answer) in enumerate(rows):
            tokens = self._plain(answer)[: min(self._params.max_tokens, self._window - 1)]
            counts[i] = len(tokens)
            context = self._asked(asked)[-(self._window - len(tokens)) :]
            if tokens:
                by_shape[_shape(len(context) + len(tokens), self._window)].append((i, context + tokens, len(context)))
        for places, losses in self._batched(by_shape):
            nats[places] = losses
        return nats, counts

    def _batched(self, by_shape: Mapping[int, Sequence[tuple[int, list[int], int]]]) -> Iterator[tuple[list[int], F64]]:
        """Places of windows and their losses in nats, batch by batch, from (place, window, tokens of context) by shape."""
        for length, found in sorted(by_shape.items()):
            for start in range(0, len(found), self._params.batch_size):
                part = found[start : start + self._params.batch_size]
                yield [i for i, _, _ in part], self._losses([(window, context) for _, window, context in part], length)

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if text else []
        return ids

    def _asked(self, turns: Sequence[Turn]) -> list[int]:
        """Tokens up to where the answer begins; the token that starts a text, where nothing was asked."""
        if not turns:
            first = self._tokenizer.bos_token_id
            return [int(self._tokenizer.eos_token_id if first is None else first)]
        if self._tokenizer.chat_template:
            messages = [{"role": turn.role, "content": turn.content} for turn in turns]
            return self._plain(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        return self._asked(()) + self._plain("\n".join(turn.content for turn in turns) + "\n")

    def _encoded(self, text: str) -> tuple[list[int], float]:
        """Ids behind the token that starts a text, where there is one; and the share of the text that they are of."""
        tokens = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if text.strip() else []
        first = self._tokenizer.bos_token_id
        first = self._tokenizer.eos_token_id if first is None else first
        kept = tokens[: self._params.max_tokens]
        return ([] if first is None else [first]) + kept, len(kept) / max(1, len(tokens))

    def _losses(self, batch: list[tuple[list[int], int]], length: int) -> Any:
        """Negative log likelihood in nats of each window's tokens behind its context: float64 [b]."""
        import torch
        from torch.nn.functional import cross_entropy

        shape = (self._params.batch_size, length)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        targets = np.full(shape, _NO_TARGET, np.int64)
        for row, (window, context) in enumerate(batch):
            ids[row, : len(window)], mask[row, : len(window)] = window, 1
            targets[row, context : len(window)] = window[context:]
        mask[len(batch) :, 0] = 1  # a row without any token attends to nothing, which is not a number
        with torch.inference_mode():
            given = [torch.from_numpy(array).to(self._device) for array in (ids, mask, targets)]
            logits = self._model(input_ids=given[0], attention_mask=given[1]).logits[:, :-1].float()
            losses = cross_entropy(logits.transpose(1, 2), given[2][:, 1:], ignore_index=_NO_TARGET, reduction="none")
            return losses.double().sum(dim=1).cpu().numpy()[: len(batch)]


def windows(tokens: list[int], size: int, overlap: int) -> Iterator[tuple[list[int], int]]:
    """Windows of at most `size` tokens, and how many of each are context: every token but the first is scored once."""
    start, done = 0, 1
    while done < len(tokens):
        window = tokens[start : start + size]
        yield window, done - start
        done = start + len(window)
        start = max(start + 1, done - max(1, overlap))


def _shape(length: int, window: int) -> int:
    """The length that a window is padded to: a power of two, so that there are few shapes."""
    return min(window, max(_SHORTEST, 1 << (length - 1).bit_length()))
