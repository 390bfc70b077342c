"""SentencePiece's .model files (Llama 1 and 2, Mistral, Gemma) as tokenizers with the same ids.

A file is a protocol buffer: pieces with scores and types, and how text is written before it is cut. Only files that keep a text as it is
are taken: one that normalises (NFKC, as T5 and XLM-R) gives other text back than it got.

One character is lost all the same: SentencePiece writes a space as U+2581, so that a U+2581 of the text comes back as a space. And a
unigram model may take another of several ways to cut a text than the library, which sums scores in float32, where their sums are equal to
that: the order of two pieces in a run of spaces, say.

Source: google/sentencepiece, src/sentencepiece_model.proto; src/bpe_model.cc for the order of merges.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from dataplane.errors import ModelMissing

SPACE = "\u2581"
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@dataclass(frozen=True)
class Piece:
    """One token.

    Attributes:
        text: As the file writes it, spaces as U+2581.
        score: Log probability (unigram), or minus the number of the merge (BPE).
        kind: NORMAL, ... BYTE.
    """

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePieceModel:
    """What a file holds of what cuts a text.

    Attributes:
        pieces: In the order of their ids.
        kind: UNIGRAM or BPE.
        prefix: Whether a space is put before each text.
    """

    pieces: tuple[Piece, ...]
    kind: int
    prefix: bool


def read_model(data: bytes, path: Path) -> SentencePieceModel:
    """Reads a file.

    Raises:
        ModelMissing: It is no such file, or one of a kind that loses text; all that is wrong with it is named.
    """
    try:
        message = _fields(data)
        pieces = tuple(_piece(part) for part in message.get(1, []))
        training, normalizer = (_fields(message[number][0]) for number in (2, 3))
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelMissing(f"{path} is no SentencePiece model: {error}", where="tokenizer", fix="correct tokenizer.path") from None
    kind, prefix = _last(training, 3, UNIGRAM), bool(_last(normalizer, 3, 1))
    kinds = {piece.kind for piece in pieces}
    faults = {
        "is neither BPE nor unigram": kind not in (UNIGRAM, BPE),
        "rewrites texts (its normalisation is not `identity`)": bool(_last(normalizer, 2, b"")),
        "removes white space": bool(_last(normalizer, 4, 1)),
        "leaves spaces as they are": not _last(normalizer, 5, 1),
        "puts white space behind words": bool(_last(training, 24, 0)),
        "has no bytes to fall back on": [piece.text for piece in pieces if piece.kind == BYTE] != list(_BYTES),
        "has pieces that are not used": UNUSED in kinds,
        "has pieces with a space, which none of its texts has": any(" " in piece.text for piece in pieces),
        "spells pieces that are no text with letters that are no pieces": kind == UNIGRAM and not _spelled(pieces),
        "puts a space before texts and has pieces of its user": prefix and USER_DEFINED in kinds,
    }
    if found := [fault for fault, there in faults.items() if there]:
        raise ModelMissing(f"{path} {', '.join(found)}", where="tokenizer", fix="take a model that gives every text back")
    return SentencePieceModel(pieces, kind, prefix)


def from_model(model: SentencePieceModel, special_tokens: tuple[str, ...]) -> Tokenizer:
    """A tokenizer with the ids of SentencePiece; special tokens that it needs and lacks come behind them."""
    tokenizer = Tokenizer(_bpe(model) if model.kind == BPE else _unigram(model))
    written = [normalizers.Replace(" ", SPACE)]
    tokenizer.normalizer = normalizers.Sequence([*([normalizers.Prepend(SPACE)] if model.prefix else []), *written])
    if not any(SPACE in piece.text.lstrip(SPACE) or "\n" in piece.text for piece in model.pieces if piece.kind == NORMAL):
        # No piece goes on over a space or newline, so cutting there changes no id, and words can be remembered.
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"{SPACE}*[^{SPACE}\n]+|{SPACE}+|\n"), "isolated")
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if model.prefix else [])])
    own = [piece.text.replace(SPACE, " ") for piece in model.pieces if piece.kind == USER_DEFINED]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in own])
    special = [piece.text for piece in model.pieces if piece.kind in (UNKNOWN, CONTROL)]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in dict.fromkeys([*special, *special_tokens])])
    return tokenizer


def puts_prefix(tokenizer: Tokenizer) -> bool:
    """Whether it puts a space before each text, as Llama 2's does."""
    return tokenizer.normalizer is not None and bool(tokenizer.normalizer.normalize_str("a").startswith(SPACE))


def _named(model: SentencePieceModel) -> list[str]:
    """The name of each piece in the vocabulary of `tokenizers`, where those of the user stand with plain spaces."""
    return [piece.text.replace(SPACE, " ") if piece.kind == USER_DEFINED else piece.text for piece in model.pieces]


def _bpe(model: SentencePieceModel) -> models.BPE:
    """SentencePiece merges the two neighbours whose piece has the highest score, the leftmost of equals."""
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == NORMAL}
    order = sorted((text for text in scores if len(text) > 1), key=lambda text: -scores[text])
    merges = [(text[:at], text[at:]) for text in order for at in range(1, len(text)) if text[:at] in scores and text[at:] in scores]
    vocabulary = {text: number for number, text in enumerate(_named(model))}
    return models.BPE(vocabulary, merges, unk_token=_unknown(model), fuse_unk=True, byte_fallback=True)


def _unigram(model: SentencePieceModel) -> models.Unigram:
    """Pieces that are not text get a score that keeps a text which spells them, as "<0x41>", from being read as them."""
    least = min((piece.score for piece in model.pieces if piece.kind == NORMAL), default=0.0)
    longest = max(len(piece.text) for piece in model.pieces)
    never = (least - 20) * (longest + 1)
    vocabulary = [(text, piece.score if piece.kind == NORMAL else never) for text, piece in zip(_named(model), model.pieces, strict=True)]
    unknown = next(number for number, piece in enumerate(model.pieces) if piece.kind == UNKNOWN)
    return models.Unigram(vocabulary, unknown, True)


def _spelled(pieces: tuple[Piece, ...]) -> bool:
    """Whether a text that spells a piece that is no text can be written with others, which a unigram model then prefers."""
    letters = {piece.text for piece in pieces if piece.kind in (NORMAL, USER_DEFINED) and len(piece.text) == 1}
    return letters.issuperset("".join(piece.text for piece in pieces if piece.kind in (UNKNOWN, CONTROL, BYTE)))


def _unknown(model: SentencePieceModel) -> str | None:
    return next((piece.text for piece in model.pieces if piece.kind == UNKNOWN), None)


def _piece(data: bytes) -> Piece:
    fields = _fields(data)
    return Piece(fields[1][0].decode("utf-8"), struct.unpack("<f", _last(fields, 2, b"\0\0\0\0"))[0], _last(fields, 3, NORMAL))


def _last(fields: dict[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][-1] if number in fields else default


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The values of a message by field: integers for varints, else bytes."""
    found: dict[int, list[Any]] = {}
    for number, value in _walk(data):
        found.setdefault(number, []).append(value)
    return found


def _walk(data: bytes) -> Iterator[tuple[int, Any]]:
    """Source: protobuf.dev/programming-guides/encoding."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(data):
            raise ValueError("it ends too soon")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
