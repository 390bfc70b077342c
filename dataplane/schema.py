"""Arrow schemas of the lake's tables, and the rules for their names.

A table is named by what its rows are. Signals are stored flat as ``operator__signal`` (DuckDB cannot push
a filter on a struct field into a Lance scan) and shown in SQL as ``operator.signal``.
"""

from __future__ import annotations

import re

import pyarrow as pa

NAME = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
SIGNAL_SEPARATOR = "__"
DOC_ID_HEX_CHARS = 32

# Columns that tell which run wrote a row. They differ between two runs on equal input, so digests leave them out.
UNDIGESTED = frozenset({"run_id"})

_ZSTD = {b"lance-encoding:compression": b"zstd"}


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.large_string(), metadata=_ZSTD)


DOC_ID = pa.field("doc_id", pa.string())
RUN_ID = pa.field("run_id", pa.string())

RAW = pa.schema(
    [
        DOC_ID,
        pa.field("source", pa.string()),
        pa.field("kind", pa.string()),
        # The locator: which bytes, readable again by sources.locator.read_payload.
        pa.field("format", pa.string()),  # name of the Source that read it
        pa.field("uri", pa.string()),  # path of the file, relative to the project where below it
        pa.field("member", pa.string()),  # path inside an archive, "" outside one
        pa.field("offset", pa.int64()),  # first byte in the (decompressed) stream; for WARC.gz in the file itself
        pa.field("length", pa.int64()),  # bytes at that offset
        pa.field("row", pa.int64()),  # row number where the format has rows (Parquet), else null
        # What the record says about itself.
        pa.field("url", pa.string()),
        pa.field("mime", pa.string()),
        pa.field("charset", pa.string()),  # as declared by the record, null where it is silent
        pa.field("fetched_at", pa.timestamp("us", tz="UTC")),
        pa.field("meta", pa.string()),  # JSON object of further declared fields (title, licence, ...), null where none
        pa.field("payload", pa.large_binary(), metadata=_ZSTD),
    ]
)

# Signals follow as flat columns `operator__signal`.
DOCUMENTS = pa.schema(
    [
        DOC_ID,
        pa.field("source", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("url", pa.string()),
        pa.field("mime", pa.string()),
        pa.field("n_bytes", pa.int64()),  # UTF-8 bytes of text
        pa.field("text_hash", pa.string()),  # xxh3_128 of the UTF-8 bytes, hex
        _text("text"),
    ]
)

EDIT_SPANS = pa.list_(pa.struct({"start": pa.int32(), "stop": pa.int32()}))

EDITS = pa.schema(
    [
        DOC_ID,
        RUN_ID,
        pa.field("operator", pa.string()),
        pa.field("op_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("hash_before", pa.string()),
        pa.field("hash_after", pa.string()),
        # Where in the text before, in code points; null for edits that tell no places. What stood there is kept nowhere.
        pa.field("spans", EDIT_SPANS),
    ]
)

DECISIONS = pa.schema(
    [
        DOC_ID,
        RUN_ID,
        pa.field("stage", pa.string()),
        pa.field("operator", pa.string()),  # rule set or filter
        pa.field("op_id", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("signals", pa.string()),  # JSON object: the signal values that decided
    ]
)

QUARANTINE = pa.schema(
    [
        pa.field("doc_id", pa.string()),  # null where the record never got an id
        RUN_ID,
        pa.field("stage", pa.string()),
        pa.field("source", pa.string()),
        pa.field("uri", pa.string()),
        pa.field("member", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("operator", pa.string()),
        pa.field("op_id", pa.string()),
        pa.field("error", pa.string()),  # class of the error
        pa.field("message", pa.string()),  # never the record's text
    ]
)

IDS = pa.schema([DOC_ID])

DUPLICATES = pa.schema(
    [
        DOC_ID,
        pa.field("cluster_id", pa.string()),  # smallest doc_id of the cluster
        pa.field("kept", pa.bool_()),
        pa.field("representative", pa.string()),  # doc_id of the kept document this one was dropped for
        pa.field("similarity", pa.float64()),  # with the representative, as `how` measures it; null where texts were not compared
        pa.field("how", pa.string()),  # url | exact | minhash | simhash | semantic
    ]
)

# Passages that stood in the corpus before, in code points of `documents.text`.
REPEATS = pa.schema(
    [
        DOC_ID,
        pa.field("start", pa.int64()),
        pa.field("stop", pa.int64()),  # the code point after the last
        pa.field("tokens", pa.int64()),  # between white space; a CJK character is one
        pa.field("how", pa.string()),  # substring | paragraph | line
        pa.field("first", pa.string()),  # doc_id of the document where it stands first
        pa.field("first_start", pa.int64()),
        pa.field("effect", pa.string()),  # cut | dropped: the whole document went
    ]
)

# What is cut out of documents that are left, in code points of `documents.text`; spans of one document may overlap.
CUTS = pa.schema(
    [
        DOC_ID,
        pa.field("start", pa.int64()),
        pa.field("stop", pa.int64()),
        pa.field("how", pa.string()),  # substring | paragraph | line | the benchmark that the passage is of
    ]
)

CONTAMINATION = pa.schema(
    [
        DOC_ID,
        pa.field("benchmark", pa.string()),
        pa.field("item_id", pa.string()),
        pa.field("n", pa.int32()),  # n-gram length
        pa.field("hits", pa.int32()),  # n-grams of the item found in the document
        pa.field("covered", pa.float64()),  # share of the item's n-grams found
    ]
)

MIXTURE = pa.schema(
    [
        DOC_ID,
        pa.field("source", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("weight", pa.float64()),  # epochs asked of the document's group
        pa.field("epoch", pa.int32()),  # which repetition of the document this is, from 0
        pa.field("position", pa.int64()),  # place in the training order, from 0
    ]
)

HELD_OUT = pa.schema(
    [
        DOC_ID,
        pa.field("source", pa.string()),
        pa.field("kind", pa.string()),
    ]
)

TOKENS = pa.schema(
    [
        DOC_ID,
        pa.field("n_tokens", pa.int64()),
        pa.field("n_words", pa.int64()),  # as text_signals counts them; fertility is tokens per word
        pa.field("input_ids", pa.large_list(pa.int32())),
    ]
)

SPAN = pa.struct(
    [
        pa.field("doc_id", pa.string()),
        pa.field("seq_start", pa.int32()),  # first token in the sequence
        pa.field("doc_start", pa.int64()),  # first token in the document (with its BOS and EOS)
        pa.field("length", pa.int32()),  # tokens, BOS and EOS included
    ]
)


def token_type(vocabulary: int) -> pa.DataType:
    """What an id of a vocabulary of so many tokens is held in: uint16 where that is enough, int32 elsewhere."""
    return pa.uint16() if vocabulary <= 1 << 16 else pa.int32()


def packed(sequence_length: int, token: pa.DataType = pa.int32()) -> pa.Schema:  # noqa: B008 - a type, which nothing changes
    """Schema of `packed`: one row is one training sequence of `sequence_length` tokens, each of type `token`."""
    return pa.schema(
        [
            pa.field("seq_id", pa.int64()),
            pa.field("n_tokens", pa.int32()),  # tokens that are not padding
            pa.field("input_ids", pa.list_(token, sequence_length)),
            pa.field("spans", pa.list_(SPAN)),
        ]
    )


CONSUMED = pa.schema(
    [
        RUN_ID,
        pa.field("stage", pa.string()),  # pretrain | sft | dpo
        pa.field("step", pa.int64()),  # optimizer step, from 1
        pa.field("epoch", pa.int32()),
        pa.field("skipped", pa.int64()),  # sequences of the order that were passed over just before this step, after a rollback
        pa.field("seq_ids", pa.list_(pa.int64())),
        pa.field("token_hash", pa.string()),  # of the step's input_ids in order
        pa.field("rng", pa.string()),  # what the step's random numbers follow from
        pa.field("chain_hash", pa.string()),  # of (previous chain hash, step, skipped, seq_ids, token_hash, rng)
        pa.field("losses", pa.list_(pa.float64())),  # mean loss per sequence, nats a token
        pa.field("document_losses", pa.list_(pa.list_(pa.float32()))),  # mean loss per span of each sequence, nats a token
        pa.field("loss", pa.float64()),  # token-weighted mean of the step, nats a token
        pa.field("learning_rate", pa.float64()),
        pa.field("grad_norm", pa.float64()),
    ]
)

CHECKPOINTS = pa.schema(
    [
        RUN_ID,
        pa.field("stage", pa.string()),
        pa.field("step", pa.int64()),
        pa.field("digest", pa.string()),  # of the weights
        pa.field("parent", pa.string()),  # digest of the weights it was trained from, null from scratch
        pa.field("data_digest", pa.string()),  # digest of the snapshot it consumed
        pa.field("chain_hash", pa.string()),  # head of the ledger at this step
        pa.field("path", pa.string()),
    ]
)

EVALS = pa.schema(
    [
        RUN_ID,
        pa.field("checkpoint", pa.string()),  # digest of the weights
        pa.field("stage", pa.string()),  # which model: pretrain | sft | dpo
        pa.field("task", pa.string()),
        pa.field("task_version", pa.string()),
        pa.field("group", pa.string()),  # "all", or e.g. "source=books", "lang=zh"
        pa.field("metric", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("standard_error", pa.float64()),
        pa.field("n", pa.int64()),
        pa.field("seed", pa.int64()),
        pa.field("template_hash", pa.string()),
        pa.field("contamination", pa.string()),  # verdict: clean | "k of n items seen" | unchecked
    ]
)


def signal_column(operator: str, signal: str) -> str:
    """The stored name of a signal: ``operator__signal``."""
    return f"{operator}{SIGNAL_SEPARATOR}{signal}"
