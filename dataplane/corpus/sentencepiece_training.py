"""Vocabularies by SentencePiece's trainers: pieces of words that are given, or SentencePiece's own models of lines.

`tokenizers` has a trainer of unigram vocabularies too, whose result differs from run to run: it goes over a map that is hashed anew each
time. SentencePiece's is the same for the same lines in the same order and number of threads, so lines are counted and sorted here, and
the number of threads is fixed. Needs the extra `sentencepiece`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dataplane.errors import DataError, EnvironmentFault

THREADS = 4  # of the trainer: a different number gives different sums
MAX_LINE_CHARS = 1000  # SentencePiece passes over lines of more than 4,192 bytes
MAX_PIECE_LETTERS = 32  # of a piece of a byte-level word: 32 bytes, some ten Chinese characters
_NOT_TEXT = 1e4  # below all scores of pieces


def unigram_of_words(words: Mapping[str, int], alphabet: list[str], vocab_size: int) -> list[tuple[str, float]]:
    """A unigram vocabulary: the pieces and their log probabilities, the whole alphabet among them.

    Args:
        words: How often each word comes, without white space.
        alphabet: Letters that are pieces whether they occur or not.
        vocab_size: Pieces at most.

    Raises:
        DataError: The words are too few for the alphabet.
        EnvironmentFault: SentencePiece is not installed.

    Source: Kudo 2018, arXiv:1804.10959, section 3.2, as SentencePiece implements it.
    """
    options = {
        "model_type": "unigram", "vocab_size": vocab_size + 1, "hard_vocab_limit": False, "character_coverage": 1.0,
        "max_sentencepiece_length": MAX_PIECE_LETTERS, "split_by_unicode_script": False, "split_by_number": False,
        "split_by_whitespace": False, "unk_id": 0, "bos_id": -1, "eos_id": -1, "pad_id": -1,
    }  # fmt: skip
    seen = Counter(words)
    seen.update(alphabet)  # only letters that occur become pieces
    trained = _processor(_train(seen, options))
    pieces = [(trained.id_to_piece(i), trained.get_score(i)) for i in range(trained.get_piece_size()) if not trained.is_unknown(i)]
    return pieces[:vocab_size]


def never_scored(vocabulary: list[tuple[str, float]]) -> float:
    """A score at which a token is never chosen for a text."""
    return min(score for _, score in vocabulary) - _NOT_TEXT


def model_of_lines(texts: Iterable[str], kind: str, vocab_size: int, special_tokens: tuple[str, ...]) -> bytes:
    """A SentencePiece model with bytes to fall back on and no normalisation, as Llama 2's, without a space before texts.

    Args:
        texts: In any order. Newlines and tabs are bytes of the vocabulary and part of no piece.
        kind: bpe or unigram.
        vocab_size: Pieces, special tokens and the 256 bytes included; a unigram model may have fewer.
        special_tokens: EOS, padding and others, with the ids from 0 on.

    Returns:
        The content of a .model file.

    Raises:
        DataError: The text is too little for so many pieces.
        EnvironmentFault: SentencePiece is not installed.
    """
    eos, pad, *others = special_tokens
    letters = "".join(sorted({*"".join(special_tokens), *"<unk>", *"0123456789xABCDEF"}))  # a text may spell what is no text
    options = {
        "model_type": kind, "vocab_size": vocab_size, "hard_vocab_limit": kind == "bpe", "byte_fallback": True, "split_digits": True,
        "allow_whitespace_only_pieces": True, "character_coverage": 0.9995, "required_chars": letters, "bos_id": -1,
        "eos_id": 0, "eos_piece": eos, "pad_id": 1, "pad_piece": pad, "unk_id": len(special_tokens), "control_symbols": others,
    }  # fmt: skip
    lines = Counter(line[at : at + MAX_LINE_CHARS] for line in _lines(texts) for at in range(0, len(line), MAX_LINE_CHARS))
    lines[letters] += 1  # only those that occur become pieces
    return _train(lines, options)


def _lines(texts: Iterable[str]) -> Iterable[str]:
    # A NUL makes SentencePiece pass over the whole line.
    return (line for text in texts for line in text.replace("\t", "\n").replace("\0", "\n").split("\n") if line)


def _train(counts: Mapping[str, int], options: Mapping[str, Any]) -> bytes:
    """Trains on lines that hold no tab, newline or NUL."""
    try:
        import sentencepiece
    except ImportError:
        message, fix = "sentencepiece is not installed", 'pip install "terraplane[sentencepiece]"'
        raise EnvironmentFault(message, where="tokenizer.model", fix=fix) from None
    rows = (f"{line}\t{counts[line]}" for line in sorted(counts))
    same: dict[str, Any] = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False}
    made = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=rows, model_writer=made, input_format="tsv", num_threads=THREADS, minloglevel=3, **same, **dict(options)
        )
    except RuntimeError as error:
        fix = "lower tokenizer.vocab_size, or train it on more text"
        raise DataError(f"SentencePiece cannot train: {error}", where="tokenizer", fix=fix) from None
    return made.getvalue()


def _processor(model: bytes) -> Any:
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=model)
