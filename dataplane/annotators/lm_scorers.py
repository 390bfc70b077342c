"""Language models by file: our own, ARPA, KenLM's binary format, and folders of causal models, behind one call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.annotators.lm_tokens import Reading, Spaced, beside, reading_of
from dataplane.errors import EnvironmentFault, ModelMissing, ParamsError
from dataplane.kernels.ngram_lm import F64, I64, Model

if TYPE_CHECKING:
    from dataplane.annotators.causal_lm import CausalParams
    from dataplane.kernels.token_lm import TokenModel

OWN, ARPA, KENLM = (".npz",), (".arpa", ".arpa.gz"), (".bin", ".binary", ".klm")


@dataclass(frozen=True)
class Scored:
    """How probable texts are.

    Attributes:
        log_probs: log10 probability of each, float64 [n].
        tokens: Tokens that it is over, int64 [n].
        characters: Code points that it is over, int64 [n].
    """

    log_probs: F64
    tokens: I64
    characters: I64

    def perplexity(self) -> F64:
        """By token, float64 [n]; 1 where there are none."""
        return np.asarray(10.0 ** (-self.log_probs / np.maximum(self.tokens, 1)))

    def bits_per_char(self) -> F64:
        """Float64 [n]; 0 where there are no characters."""
        return np.asarray(-self.log_probs / np.maximum(self.characters, 1) * np.log2(10) + 0.0)


class Scorer(Protocol):
    """A model that was opened."""

    def score(self, text: pa.Array) -> Scored:
        """How probable each text is, string or large_string [n]; null reads as empty."""


def model_files(path: Path, reading: dict[str, Any], fix: str) -> list[Path]:
    """Every file that a model's scores depend on.

    Raises:
        ModelMissing: The model or its tokenizer is not there.
        ParamsError: The model is of no known kind.
    """
    if path.is_dir():
        from dataplane.annotators.causal_lm import files_of

        return files_of(path)
    if not path.is_file():
        raise ModelMissing(f"the model {path} does not exist", where="n-gram model", fix=fix)
    if path.name.endswith(OWN):
        return [path]
    if not path.name.endswith((*ARPA, *KENLM)):
        known = ", ".join((*OWN, *ARPA, *KENLM))
        raise ParamsError(f"{path} is of no known kind", where="language model", fix=f"known: {known}, and folders of transformers")
    kept = [beside(path)] if beside(path).is_file() else []
    return [path, *kept, *reading_of(path, reading).files()]


def open_scorer(path: Path, reading: dict[str, Any], causal: CausalParams) -> Scorer:
    """Loads a model.

    Args:
        path: Of its file or folder.
        reading: What is said of its tokens beyond the file beside it.
        causal: How a folder's model is run.

    Raises:
        ModelMissing: It is damaged, or its tokenizer is.
        EnvironmentFault: A package that it needs is not installed.
    """
    if path.is_dir():
        from dataplane.annotators.causal_lm import CausalModel

        return CausalModel(path, causal)
    if path.name.endswith(OWN):
        return _Own(Model.load(path))
    read = reading_of(path, reading)
    if path.name.endswith(ARPA):
        from dataplane.kernels.arpa import read_arpa

        return _Arpa(read_arpa(path), read, read.spaced())
    return _Kenlm(_load_kenlm(path), read, read.spaced())


def characters(text: pa.Array) -> I64:
    """Code points of each text, white space around it left out: int64 [n]."""
    stripped = pc.utf8_trim_whitespace(pc.fill_null(text.cast(pa.large_string()), ""))
    return np.asarray(pc.utf8_length(stripped).cast(pa.int64()).to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class _Own:
    model: Model

    def score(self, text: pa.Array) -> Scored:
        log_probs, counts = self.model.score(text)
        return Scored(log_probs, counts, counts)


@dataclass(frozen=True)
class _Arpa:
    model: TokenModel
    reading: Reading
    spaced: Spaced

    def score(self, text: pa.Array) -> Scored:
        log_probs, tokens = self.model.score(self.spaced(text), self.reading.sentences == "line")
        return Scored(log_probs, tokens, characters(text))


@dataclass(frozen=True)
class _Kenlm:
    model: Any
    reading: Reading
    spaced: Spaced

    def score(self, text: pa.Array) -> Scored:
        by_line = self.reading.sentences == "line"
        log_probs, tokens = np.zeros(len(text)), np.zeros(len(text), np.int64)
        for i, value in enumerate(self.spaced(text).to_pylist()):
            for line in (value or "").split("\n") if by_line else [value or ""]:
                n = len(line.encode().split())  # as the binding splits: at white space of ASCII
                if n:
                    log_probs[i] += self.model.score(line)
                    tokens[i] += n + 1
        return Scored(log_probs, tokens, characters(text))


def _load_kenlm(path: Path) -> Any:
    try:
        import kenlm
    except ImportError:
        fix = "pip install 'terraplane[lm]', or give the model as an ARPA file, which needs no package"
        raise EnvironmentFault("the package kenlm is not installed", where=f"model {path}", fix=fix) from None
    config = kenlm.Config()
    config.show_progress = False
    try:
        return kenlm.Model(str(path), config)
    except (OSError, RuntimeError) as error:
        raise ModelMissing(f"{path} is no model of KenLM: {error}", where="n-gram model", fix="build it again with build_binary") from error
