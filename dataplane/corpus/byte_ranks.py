"""Vocabularies given as ranks of byte strings (.tiktoken files: GPT-NeoX, Llama 3, Qwen; GPT-2's merges) as tokenizers with the same ids.

A file has a line for each token: its bytes in base64 and its id. Two neighbours are merged where together they are a token,
the one with the lowest id first; so the merges that `tokenizers` wants follow from the ids.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from dataplane.errors import ModelMissing

# How each family cuts a text before it merges. Source: openai/tiktoken, openai_public.py; meta-llama/llama3, tokenizer.py;
# Qwen/Qwen-7B, tokenization_qwen.py.
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}

IN_UTF8 = sorted(set(range(0xF5)) - {0xC0, 0xC1})  # the bytes that a text can hold; GPT-NeoX has no others


def read_ranks(path: Path) -> dict[bytes, int]:
    """Id of each byte string.

    Raises:
        ModelMissing: The file is not there, or no such file.
    """
    try:
        rows = [line.split() for line in path.read_bytes().splitlines() if line.strip()]
        ranks = {base64.b64decode(token, validate=True): int(number) for token, number in rows}
    except (OSError, ValueError, binascii.Error) as error:
        raise ModelMissing(f"{path} is no file of ranks: {error}", where="tokenizer", fix="correct tokenizer.path") from None
    if missing := [byte for byte in IN_UTF8 if bytes([byte]) not in ranks]:
        raise ModelMissing(f"{path} lacks {len(missing)} of the bytes of UTF-8", where="tokenizer", fix="take the whole file")
    return ranks


def read_merges(path: Path) -> dict[bytes, int]:
    """Id of each byte string of GPT-2's file of merges: the bytes in the order in which they are written, then a token for each merge.

    Raises:
        ModelMissing: The file is not there, or no such file.

    Source: Radford et al. 2019, GPT-2, encoder.py.
    """
    letters = _byte_letters()
    bytes_of = {letter: byte for byte, letter in letters.items()}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
        merged = [bytes(bytes_of[letter] for letter in left + right) for left, right in pairs]
    except (OSError, ValueError, KeyError) as error:
        raise ModelMissing(f"{path} is no file of merges: {error}", where="tokenizer", fix="correct tokenizer.path") from None
    tokens = [*(bytes([byte]) for byte in letters), *merged]
    if len(set(tokens)) < len(tokens):
        raise ModelMissing(f"{path} makes one token twice", where="tokenizer", fix="take the whole file")
    return {token: number for number, token in enumerate(tokens)}


def from_ranks(ranks: dict[bytes, int], pattern: str, special_tokens: tuple[str, ...]) -> Tokenizer:
    """A tokenizer with these ids; special tokens that it needs come behind them.

    Args:
        ranks: Id of each byte string, all single bytes that UTF-8 has among them.
        pattern: Name of one of PATTERNS.
        special_tokens: In the order of their ids.
    """
    letters = _byte_letters()
    written = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = [(written[left], written[right]) for token in sorted(ranks, key=ranks.__getitem__) for left, right in _halves(token, ranks)]
    vocabulary = {written[token]: number for token, number in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special_tokens])
    return tokenizer


def _halves(token: bytes, ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The pairs of tokens that a token can be merged from, those of lower ids first."""
    pairs = [(token[:at], token[at:]) for at in range(1, len(token)) if token[:at] in ranks and token[at:] in ranks]
    return sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def _byte_letters() -> dict[int, str]:
    """How a byte is written in a byte-level vocabulary: printable Latin-1 as itself, the others from U+0100 on.

    Source: Radford et al. 2019, GPT-2, encoder.py.
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
