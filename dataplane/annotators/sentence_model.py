"""Sentence embedding models out of a local folder, as sentence-transformers saves them, run by transformers.

A text is read in windows. Windows run in batches of fixed shapes, so that a text's vector does not depend on what stands beside it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dataplane.annotators.local_models import device, quiet
from dataplane.errors import EnvironmentFault, ModelMissing
from dataplane.params import Params

F64 = npt.NDArray[np.float64]

_STEP = 32  # tokens by which the lengths of shapes differ
_CHARS_PER_TOKEN = 8  # a longer text is read in parts of so many characters
_POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_WHERE = "embedding model"
_PARTS = ("Transformer", "Pooling", "Normalize")


class RunParams(Params):
    """How an embedding model is run."""

    max_tokens: int = Field(0, ge=0, le=1 << 20, description="Tokens that the model sees at once; 0: as many as its folder says.")
    max_windows: int = Field(8, ge=1, description="Windows of a text that are read; of a longer text as many, spread evenly over it.")
    batch_size: int = Field(1, ge=1, le=4096, description="Windows in a batch: 1 is best on a CPU, more on a GPU.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where it runs; auto takes a GPU where there is one.")


def files_of(folder: Path) -> list[Path]:
    """Every file that a vector depends on.

    Raises:
        ModelMissing: There are no weights as safetensors, no configuration, or no tokenizer.json.
    """
    inner = _transformer(folder)
    weights = sorted(inner.glob("*.safetensors"))
    if not weights or not all((inner / name).is_file() for name in ("config.json", "tokenizer.json")):
        fix = "save it with sentence-transformers or save_pretrained, with a fast tokenizer; pickled weights are not loaded"
        raise ModelMissing(f"{folder} holds no config.json, tokenizer.json and weights as safetensors", where=_WHERE, fix=fix)
    about = [inner / "config.json", inner / "tokenizer.json", inner / "sentence_bert_config.json", folder / "modules.json"]
    found = [*weights, *about, *sorted(folder.glob("*_Pooling/config.json"))]
    return list(dict.fromkeys(path for path in found if path.is_file()))


def _transformer(folder: Path) -> Path:
    """Where the model itself lies."""
    parts = _json(folder / "modules.json", [])
    return folder / next((str(part.get("path", "")) for part in parts if _kind(part) == "Transformer"), "")


def _kind(part: dict[str, Any]) -> str:
    return str(part.get("type", "")).rpartition(".")[2]


def _json(path: Path, default: Any) -> Any:
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelMissing(f"{path} is damaged: {error}", where=_WHERE, fix="copy the model again") from None


def pooling_of(folder: Path) -> str:
    """How the vectors of tokens become one: mean or cls; mean where the folder does not say.

    Raises:
        ModelMissing: It says otherwise, or has a part that is not known.
    """
    if unknown := [_kind(part) for part in _json(folder / "modules.json", []) if _kind(part) not in _PARTS]:
        raise ModelMissing(f"{folder} has a part {unknown[0]}", where=_WHERE, fix=f"take a model of {', '.join(_PARTS)} alone")
    said: dict[str, Any] = next((_json(path, {}) for path in sorted(folder.glob("*_Pooling/config.json"))), {})
    modes = [name for name, on in said.items() if name.startswith("pooling_mode_") and on is True]
    chosen = [said["pooling_mode"]] if isinstance(said.get("pooling_mode"), str) else [_POOLINGS.get(mode, mode) for mode in modes]
    if len(chosen) > 1 or not {"mean", "cls"}.issuperset(chosen):
        raise ModelMissing(f"{folder} pools by {', '.join(chosen)}", where=_WHERE, fix="take a model that pools by mean or cls")
    return chosen[0] if chosen else "mean"


class SentenceModel:
    """A model and its tokenizer, loaded from a folder and from nowhere else."""

    def __init__(self, folder: Path, params: RunParams) -> None:
        """Loads them.

        Raises:
            EnvironmentFault: transformers or torch is not installed, or there is no GPU where one is asked for.
            ModelMissing: The folder's files are damaged.
        """
        try:
            import torch
            from transformers import AutoModel
        except ImportError as error:
            fix = "pip install 'terraplane[train]'"
            raise EnvironmentFault(f"an embedding model needs transformers and torch: {error}", where=str(folder), fix=fix) from None
        from tokenizers import Tokenizer

        files_of(folder)
        self._device = device(params.device, "embedding.run.device")
        inner = _transformer(folder)
        try:
            self._tokenizer = Tokenizer.from_file(str(inner / "tokenizer.json"))
            local = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
            with quiet():
                model = AutoModel.from_pretrained(str(inner), dtype=torch.float32, **local)
        except Exception as error:  # tokenizers raises a bare Exception, transformers what its readers raise
            raise ModelMissing(f"{folder} cannot be loaded: {error}", where=_WHERE, fix="copy the model again") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._cls = pooling_of(folder) == "cls"
        self._model = model.to(self._device).eval()
        said = _json(inner / "sentence_bert_config.json", {})
        self._lower = bool(said.get("do_lower_case", False))
        known = [n for n in (said.get("max_seq_length"), getattr(model.config, "max_position_embeddings", None), params.max_tokens) if n]
        self._window = max(3, min(known, default=512))
        self._params = params

    def encode(self, texts: Sequence[str]) -> tuple[F64, F64]:
        """Vectors of length 1, and shares.

        Args:
            texts: Of any length.

        Returns:
            float64 [n, width], the mean of a text's windows by their tokens, of length 1; zeros for a text without tokens.
            float64 [n], the share of the text that was read; 0 without tokens.
        """
        shares = np.zeros(len(texts))
        by_shape: dict[int, list[tuple[int, list[int], int]]] = defaultdict(list)
        for i, text in enumerate(texts):
            windows, shares[i] = self._windows(text)
            for ids, tokens in windows:
                by_shape[-(-len(ids) // _STEP) * _STEP].append((i, ids, tokens))
        sums = np.zeros((len(texts), self._model.config.hidden_size))
        for length, found in sorted(by_shape.items()):
            for start in range(0, len(found), self._params.batch_size):
                part = found[start : start + self._params.batch_size]
                with _one_thread():
                    vectors = self._vectors([ids for _, ids, _ in part], min(length, self._window))
                for (i, _, tokens), vector in zip(part, vectors, strict=True):
                    sums[i] += tokens * vector
        norms = np.linalg.norm(sums, axis=1)
        return sums / np.where(norms > 0, norms, 1)[:, None], shares

    def _windows(self, text: str) -> tuple[list[tuple[list[int], int]], float]:
        """Ids of each window with the model's own tokens around them, how many are the text's, and the share of the text that was read."""
        most = self._params.max_windows
        size = self._window * _CHARS_PER_TOKEN
        text = text.lower() if self._lower else text
        if len(text) <= most * size:
            encoded = self._tokenizer.encode(text, add_special_tokens=False)
            total, found = len(encoded.ids), self._cut(encoded)
            found = [found[at] for at in _spread(len(found), most)]
            return self._around(found), sum(len(window.ids) for window in found) / max(1, total)
        starts = [(len(text) - size) * i // max(1, most - 1) for i in range(most)]
        parts = [self._tokenizer.encode(text[start : start + size], add_special_tokens=False) for start in starts]
        found = [self._cut(part)[0] for part in parts if part.ids]
        return self._around(found), sum(window.offsets[-1][1] - window.offsets[0][0] for window in found) / len(text)

    def _cut(self, encoded: Any) -> list[Any]:
        """An encoding in windows that leave room for the model's own tokens."""
        if not encoded.ids:
            return []
        encoded.truncate(max(1, self._window - self._tokenizer.num_special_tokens_to_add(is_pair=False)))
        return [encoded, *encoded.overflowing]

    def _around(self, windows: list[Any]) -> list[tuple[list[int], int]]:
        sizes = [len(window.ids) for window in windows]
        return [(self._tokenizer.post_process(window).ids, size) for window, size in zip(windows, sizes, strict=True)]

    def _vectors(self, batch: list[list[int]], length: int) -> F64:
        """The vector of each window, of length 1: float64 [b, width]."""
        import torch

        rows = self._params.batch_size
        # A batch of one needs no padding: its shape depends on its text alone.
        shape = (rows, len(batch[0]) if rows == 1 else length)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, window in enumerate(batch):
            ids[row, : len(window)], mask[row, : len(window)] = window, 1
        mask[len(batch) :, 0] = 1  # a row that attends to nothing is not a number
        with torch.inference_mode():
            given = {"input_ids": torch.from_numpy(ids).to(self._device), "attention_mask": torch.from_numpy(mask).to(self._device)}
            states = self._model(**given).last_hidden_state.double().cpu().numpy()[: len(batch)]
        weights = mask[: len(batch), :, None]
        pooled = states[:, 0] if self._cls else (states * weights).sum(axis=1) / weights.sum(axis=1)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        return np.asarray(pooled / np.where(norms > 0, norms, 1), np.float64)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The engine runs a process for each core: more threads would wait for each other, and could sum in another order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _spread(count: int, most: int) -> list[int]:
    """Places of at most so many of `count` things, the first and the last among them, evenly apart."""
    if count <= most:
        return list(range(count))
    return [(count - 1) * i // max(1, most - 1) for i in range(most)]
