"""A project with nothing but what the pretrain stage reads, for the benchmarks of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from dataplane import lockfile, schema
from dataplane.snapshot import Snapshot, commit_parts, write_part

EOS, PAD = "<|endoftext|>", "<|pad|>"


def put(root: Path, table: str, rows: pa.Table) -> Snapshot:
    return commit_parts(table, rows.schema, [write_part(table, rows.schema, rows.to_batches(), root)], root)


def write_packed(root: Path, ids: np.ndarray, spans: Iterable[Sequence[tuple[int, int]]]) -> Snapshot:
    """Sequences int64 [n, t] with the (start, length) of the documents in each."""
    rows = [
        {
            "seq_id": i, "n_tokens": len(row), "input_ids": row.tolist(),
            "spans": [{"doc_id": f"{i:024x}{j:08x}", "seq_start": a, "doc_start": 0, "length": n} for j, (a, n) in enumerate(found)],
        }
        for i, (row, found) in enumerate(zip(ids, spans, strict=True))
    ]  # fmt: skip
    return put(root, "packed", pa.Table.from_pylist(rows, schema=schema.packed(ids.shape[1])))


def write_held_out(root: Path, documents: Sequence[Sequence[int]]) -> None:
    names = [f"{10**9 + i:032x}" for i in range(len(documents))]
    put(
        root, "held_out", pa.Table.from_pylist([{"doc_id": n, "source": "held_out", "kind": "text"} for n in names], schema=schema.HELD_OUT)
    )
    tokens = [
        {"doc_id": n, "n_tokens": len(ids), "n_words": len(ids), "input_ids": list(ids)} for n, ids in zip(names, documents, strict=True)
    ]
    put(root, "tokens", pa.Table.from_pylist(tokens, schema=schema.TOKENS))


def write_character_tokenizer(folder: Path, characters: Sequence[str]) -> dict[str, int]:
    """A tokenizer with EOS, padding and one token for each character; returns the ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([EOS, PAD, *characters])}
    fast = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab=vocabulary, merges=[])), eos_token=EOS, pad_token=PAD)
    fast.save_pretrained(folder)
    return vocabulary


def write_params(root: Path, params: dict[str, Any]) -> None:
    (root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    lockfile.write(root)
