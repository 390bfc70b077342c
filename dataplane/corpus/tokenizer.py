"""Trains the project's tokenizer: byte-level BPE or unigram that gives every text back byte for byte, or SentencePiece's own models.

Pre-tokenisation of the byte-level ones, which no merge crosses (as GPT-4's and Qwen's in the main, with three changes that serve Chinese):
- a run of Han and Kana stands alone: neither the punctuation before it nor Latin letters beside it are glued to it;
- every digit is a token of its own;
- no run is longer than 64 characters (256 for white space), which bounds time and memory on hostile text.
There is no normaliser, and all 256 bytes are in the alphabet: nothing is unknown and nothing is lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from dataplane.corpus import sentencepiece_training
from dataplane.corpus.byte_ranks import from_ranks, read_merges, read_ranks
from dataplane.corpus.sentencepiece_file import from_model, puts_prefix, read_model
from dataplane.corpus.tokenizer_sample import SampleParams
from dataplane.errors import DataError, ModelMissing
from dataplane.params import Params

FOLDER = "models/tokenizer"
FILE = "tokenizer.json"
MODEL_FILE = "tokenizer.model"  # of SentencePiece, beside it
MODEL, RANKS, MERGES = ".model", ".tiktoken", ".txt"  # endings of vocabularies that are no tokenizer.json
CONFIG_FILE = "tokenizer_config.json"
SPECIAL_FILE = "special_tokens_map.json"

EOS, PAD, END = "<|endoftext|>", "<|pad|>", "<|end|>"
ROLES = {"user": "<|user|>", "assistant": "<|assistant|>", "system": "<|system|>"}
SPECIAL_TOKENS = (EOS, PAD, *ROLES.values(), END)  # ids from 0 in this order

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}"
PATTERN = "|".join((
    r"['’](?i:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])",
    rf"[{_SPACELESS}]{{1,64}}",
    rf" ?[[\p{{L}}\p{{M}}]&&[^{_SPACELESS}]]{{1,64}}",
    r"\p{N}",
    r" ?[^\s\p{L}\p{M}\p{N}]{1,64}[\r\n]{0,64}",
    r"\s{0,256}[\r\n]{1,256}",
    r"\s{1,256}(?!\S)",
    r"\s{1,256}",
))  # fmt: skip

# The assistant's words and the token that ends them are what is trained on: {% generation %} marks them for trl.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|assistant|>' }}{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
    "{% elif message['role'] in ['user', 'system'] %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% else %}{{ raise_exception('unknown role ' + message['role'] + '; known: system, user, assistant') }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


class TokenizerParams(Params):
    """How the tokenizer is trained."""

    path: str = Field(
        "",
        description="A vocabulary made before, relative to the project: a tokenizer.json, used as it is, or a .tiktoken file of ranks, a "
        ".txt file of GPT-2's merges or a .model file of SentencePiece, which get the special tokens that they lack. New text changes no "
        "id; empty trains one.",
    )
    model: Literal["bpe", "unigram", "sentencepiece_bpe", "sentencepiece_unigram"] = Field(
        "bpe",
        description="What is trained: bpe or unigram over the bytes of words, which lose nothing; or SentencePiece's own models with bytes "
        "to fall back on, which lose U+2581 alone and are kept as tokenizer.model too. All but bpe need the extra sentencepiece.",
    )
    pattern: Literal["gpt2", "llama3", "qwen"] = Field("gpt2", description="How the family of a .tiktoken file cuts texts; GPT-NeoX: gpt2.")
    terms: str = Field(
        "", description="A text file of terms, one a line, relative to the project: each becomes a token of its own behind the vocabulary."
    )
    vocab_size: int = Field(
        8192, ge=256 + len(SPECIAL_TOKENS), le=1 << 20, description="Tokens at most, the 256 bytes and 6 special tokens included."
    )
    max_bytes: int = Field(20_000_000, ge=1, description="Bytes of text it is trained on at most.")
    sample: SampleParams = Field(
        default_factory=lambda: SampleParams.parse(None, where="tokenizer.sample"),
        description="Which part of the mixture's text that is, in shares of its own.",
    )
    min_frequency: int = Field(2, ge=1, description="Times that a pair has to occur to be merged, for model bpe.")


def train(texts: Iterable[pa.Array], params: TokenizerParams) -> Tokenizer:
    """Trains the tokenizer; equal texts in any order give an equal tokenizer, whatever the number of threads.

    Args:
        texts: Batches of text, string or large_string.

    Raises:
        DataError: There is no text, or too little for SentencePiece.
        EnvironmentFault: A model but bpe, and SentencePiece is not installed.
    """
    return train_with_model(texts, params)[0]


def train_with_model(texts: Iterable[pa.Array], params: TokenizerParams) -> tuple[Tokenizer, bytes]:
    """As `train`, with the content of SentencePiece's .model file, which is empty for models that are not its own."""
    seen = 0

    def counted() -> Iterator[list[str]]:
        nonlocal seen
        for batch in texts:
            if size := int(pc.sum(pc.binary_length(batch)).as_py() or 0):
                seen += size
                yield [text for text in batch.to_pylist() if text]

    found = counted()
    first = next(found, None)
    if first is None:
        raise DataError("there is no text to train the tokenizer on", where="tokenizer", fix="loosen the rules of `select`, or add sources")
    batches = chain([first], found)
    if params.model == "bpe":
        return _train_bpe(batches, params), b""
    if params.model == "unigram":
        return _train_unigram(batches, params), b""
    flat = chain.from_iterable(batches)
    kind = params.model.removeprefix("sentencepiece_")
    data = sentencepiece_training.model_of_lines(flat, kind, params.vocab_size, SPECIAL_TOKENS)
    return from_model(read_model(data, Path(MODEL_FILE)), SPECIAL_TOKENS), data


def _byte_level(model: models.Model) -> Tokenizer:
    """A model over the bytes of words."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _special() -> list[AddedToken]:
    return [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]


def _train_bpe(batches: Iterable[list[str]], params: TokenizerParams) -> Tokenizer:
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=params.vocab_size,
        min_frequency=params.min_frequency,
        special_tokens=_special(),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(batches, trainer)
    return tokenizer


def _train_unigram(batches: Iterable[list[str]], params: TokenizerParams) -> Tokenizer:
    split = _byte_level(models.BPE()).pre_tokenizer
    words = Counter(word for batch in batches for text in batch for word, _ in split.pre_tokenize_str(text))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = sentencepiece_training.unigram_of_words(words, alphabet, params.vocab_size - len(SPECIAL_TOKENS))
    never = sentencepiece_training.never_scored(pieces)
    tokenizer = _byte_level(models.Unigram([*((token, never) for token in SPECIAL_TOKENS), *pieces], None, False))
    tokenizer.add_special_tokens(_special())
    return tokenizer


def given(path: Path, params: TokenizerParams) -> tuple[Tokenizer, bytes]:
    """The vocabulary of `params.path`, with its content where it is a .model file of SentencePiece.

    Raises:
        ModelMissing: There is none, or the file is damaged, or it loses text.
    """
    if path.suffix == RANKS:
        return from_ranks(read_ranks(path), params.pattern, SPECIAL_TOKENS), b""
    if path.suffix == MERGES:
        return from_ranks(read_merges(path), "gpt2", SPECIAL_TOKENS), b""
    if path.suffix != MODEL:
        return load(path.parent, path.name), b""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelMissing(f"{path} cannot be read: {error}", where="tokenizer", fix="correct tokenizer.path") from None
    return from_model(read_model(data, path), SPECIAL_TOKENS), data


def read_terms(path: Path) -> list[str]:
    """The terms of a file, one a line.

    Raises:
        ModelMissing: The file is not there, or not UTF-8.
    """
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ModelMissing(f"{path} cannot be read: {error}", where="tokenizer", fix="correct tokenizer.terms") from None


def extend_vocabulary(tokenizer: Tokenizer, terms: Sequence[str]) -> list[list[int]]:
    """Makes terms of a domain tokens of their own, with the ids behind those that are there; other text keeps its ids.

    Args:
        tokenizer: Is changed.
        terms: In the order of their ids; those that are one token already, or empty, or named before, are passed over.

    Returns:
        For each new token, the tokens that its text was made of: `trainplane.model.extend` makes its first embedding of theirs.

    Raises:
        DataError: The tokenizer puts a space before each text; it would put one behind each term too.
    """
    if terms and puts_prefix(tokenizer):
        message = "this vocabulary puts a space before each text, and would put one behind each term"
        raise DataError(message, where="tokenizer.terms", fix="leave tokenizer.terms empty, or take a vocabulary without such a space")
    encoded = {term: tokenizer.encode(term, add_special_tokens=False).ids for term in dict.fromkeys(terms)}
    new = {term: ids for term, ids in encoded.items() if len(ids) > 1}
    tokenizer.add_tokens([AddedToken(term, normalized=False) for term in new])
    return list(new.values())


def save(tokenizer: Tokenizer, folder: Path, model: bytes = b"") -> None:
    """Writes what `tokenizers` and `transformers` load, and SentencePiece's model where there is one; equal tokenizers give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    if model:
        (folder / MODEL_FILE).write_bytes(model)
    tokenizer.save(str(folder / FILE), pretty=False)
    _write(folder / SPECIAL_FILE, {"eos_token": EOS, "pad_token": PAD, "additional_special_tokens": [*ROLES.values(), END]})
    _write(
        folder / CONFIG_FILE,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": EOS,
            "pad_token": PAD,
            "additional_special_tokens": [*ROLES.values(), END],
            "clean_up_tokenization_spaces": False,
            "add_prefix_space": False,
            "model_max_length": 1 << 30,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def load(folder: Path = Path(FOLDER), file: str = FILE) -> Tokenizer:
    """The tokenizer, set to read special tokens that stand in a text as plain text.

    Raises:
        ModelMissing: There is none, or the file is damaged.
    """
    path = folder / file
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", where="tokenizer", fix="dvc repro tokenizer") from None
    except Exception as error:  # the library raises a bare Exception on a damaged file
        raise ModelMissing(f"{path} is not a tokenizer: {error}", where="tokenizer", fix="dvc repro --force tokenizer") from error
    tokenizer.encode_special_tokens = True
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Id of a special token.

    Raises:
        DataError: The tokenizer has no such token.
    """
    found = tokenizer.token_to_id(token)
    if found is None:
        raise DataError(f"the tokenizer has no token {token!r}", where="tokenizer", fix="train it with dataplane (dvc repro tokenizer)")
    return int(found)


def vocabulary_size(tokenizer: Tokenizer) -> int:
    """The highest id and one: as many rows a model's embedding needs, also where a vocabulary leaves ids out."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)


def fertility(sizes: pa.Table, groupings: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """How many tokens a text takes, by group.

    Args:
        sizes: Columns n_tokens, n_bytes, n_words (as text_signals counts them) and the groupings [n documents]; a null group counts
            as unknown.
        groupings: Columns that documents are told apart by.

    Returns:
        Grouping -> group -> documents, tokens, bytes_per_token, tokens_per_word; shares over nothing are 0.
    """
    return {grouping: _by_group(sizes, grouping) for grouping in groupings}


def _by_group(sizes: pa.Table, grouping: str) -> dict[str, dict[str, float]]:
    named = sizes.append_column("group", pc.fill_null(sizes.column(grouping), "unknown"))
    counted = named.group_by("group").aggregate([([], "count_all"), ("n_tokens", "sum"), ("n_bytes", "sum"), ("n_words", "sum")])
    return {row["group"]: _fertility(row) for row in counted.sort_by("group").to_pylist()}


def _fertility(row: Mapping[str, int]) -> dict[str, float]:
    tokens, size, words = row["n_tokens_sum"], row["n_bytes_sum"], row["n_words_sum"]
    return {
        "documents": row["count_all"],
        "tokens": tokens,
        "bytes_per_token": size / tokens if tokens else 0.0,
        "tokens_per_word": tokens / words if words else 0.0,
    }
