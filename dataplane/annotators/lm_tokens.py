"""What an n-gram model's tokens are: words, characters, or pieces of a tokenizer, written with spaces between them.

Every way ends in text whose tokens are parted by spaces and whose sentences are lines, which is what ARPA models are trained on
and asked about.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from dataplane.errors import EnvironmentFault, ModelMissing, ParamsError
from dataplane.params import Params

WORDS, CHARACTERS = "words", "characters"
SPACE_MARK = "▁"  # SentencePiece's sign for white space
_BLANKS = re.compile(r"[^\S\n]+")
# What NFKD leaves alone: quotation marks, dashes and ideographic punctuation.
_PUNCTUATION = str.maketrans("。、“”„«»「」《》‘’`´–—〈〉【】", '.,"""""""""\'\'\'\'--<>[]')
_DIGITS = re.compile(r"\d")

Spaced = Callable[[pa.Array], pa.Array]


class Reading(Params):
    """How a text becomes tokens; kept beside a model, since a model reads only what it was trained on."""

    tokens: str = Field(
        WORDS,
        min_length=1,
        description="words (parted by white space), characters, or the file of a SentencePiece model (.model) or of tokenizers (.json).",
    )
    fold: bool = Field(False, description="Lower case, accents off, digits to 0, punctuation and width to ASCII, as CCNet reads text.")
    sentences: Literal["line", "text"] = Field("line", description="What goes from `<s>` to `</s>`: a line, or the whole text.")

    def files(self) -> list[Path]:
        """The file of the tokenizer.

        Raises:
            ModelMissing: It is not there.
            ParamsError: It is of no known kind.
        """
        if self.tokens in (WORDS, CHARACTERS):
            return []
        path = Path(self.tokens)
        if path.suffix not in (".model", ".json"):
            fix = "words, characters, or a file NAME.model (SentencePiece) or NAME.json (tokenizers)"
            raise ParamsError(f"tokens {self.tokens!r} are of no known kind", where="n-gram model", fix=fix)
        if not path.is_file():
            raise ModelMissing(
                f"the tokenizer {path} does not exist", where="n-gram model", fix="correct `tokens`, relative to the project"
            )
        return [path]

    def spaced(self) -> Spaced:
        """A function from text, string or large_string [n], to its tokens with spaces between, large_string [n].

        Raises:
            ModelMissing: The tokenizer is not there, or damaged.
            EnvironmentFault: Its package is not installed.
        """
        self.files()
        pieces = {WORDS: None, CHARACTERS: _characters}[self.tokens] if self.tokens in (WORDS, CHARACTERS) else _pieces(Path(self.tokens))

        def read(text: pa.Array) -> pa.Array:
            if pieces is None and not self.fold:
                return text.cast(pa.large_string())
            texts: Iterable[str] = (value or "" for value in text.to_pylist())
            texts = map(folded, texts) if self.fold else texts
            return pa.array(texts if pieces is None else [pieces(value) for value in texts], pa.large_string())

        return read


def beside(model: Path) -> Path:
    """The file that holds what was said of a model when it was trained."""
    return model.with_name(model.name + ".json")


def reading_of(model: Path, given: dict[str, Any]) -> Reading:
    """How a model reads text: as the file beside it says, but for what is given.

    Raises:
        ModelMissing: The file beside it is damaged.
    """
    path = beside(model)
    if not path.is_file():
        return Reading.parse(given, where="n-gram model")
    try:
        kept = json.loads(path.read_text(encoding="utf-8")).get("reading", {})
    except (ValueError, AttributeError) as error:
        raise ModelMissing(f"{path} is damaged: {error}", where="n-gram model", fix="train the model again") from error
    return Reading.parse({**kept, **given}, where=str(path))


def folded(text: str) -> str:
    """Text in lower case without accents, digits as 0, punctuation in ASCII.

    Source: after the normalisation of CCNet (Wenzek et al. 2019, arXiv:1911.00359, section 3.1).
    """
    # Marks go first too: putting a long run of them into canonical order would take quadratic time.
    apart = unicodedata.normalize("NFKD", _bare(text.lower()))
    return _DIGITS.sub("0", unicodedata.normalize("NFC", _bare(apart)).translate(_PUNCTUATION))


def _bare(text: str) -> str:
    return "".join(char for char in text if unicodedata.category(char) != "Mn" and not unicodedata.combining(char))


def _characters(text: str) -> str:
    return "\n".join(" ".join(_BLANKS.sub(SPACE_MARK, line.strip())) for line in text.split("\n"))


@cache
def _pieces(path: Path) -> Callable[[str], str]:
    encode = _sentencepiece(path) if path.suffix == ".model" else _tokenizers(path)

    def pieces(text: str) -> str:
        lines = [line.strip() for line in text.split("\n")]
        return "\n".join(" ".join(SPACE_MARK.join(piece.split()) or SPACE_MARK for piece in found) for found in encode(lines))

    return pieces


def _sentencepiece(path: Path) -> Callable[[list[str]], Sequence[Sequence[str]]]:
    try:
        import sentencepiece
    except ImportError:
        fix = "pip install 'terraplane[lm]'"
        raise EnvironmentFault("the package sentencepiece is not installed", where=f"tokens {path}", fix=fix) from None
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise ModelMissing(f"{path} is no SentencePiece model: {error}", where="n-gram model", fix="copy it again") from error
    return lambda lines: model.encode(lines, out_type=str)


def _tokenizers(path: Path) -> Callable[[list[str]], Sequence[Sequence[str]]]:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises a bare Exception on a damaged file
        raise ModelMissing(f"{path} is no tokenizer: {error}", where="n-gram model", fix="copy it again") from error
    tokenizer.encode_special_tokens = True
    return lambda lines: [found.tokens for found in tokenizer.encode_batch(lines, add_special_tokens=False)]
