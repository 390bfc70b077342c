"""A project with documents that never were: their signals have the columns and about the spread of real ones, their text is a few words.

Tables: documents, tokens (of two documents in three), what select writes, and the params that decide.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import lockfile, schema
from dataplane.params import load_params
from dataplane.pipeline import CleanParams, build, documents_schema
from dataplane.snapshot import commit_parts, write_part

BATCH_ROWS = 1 << 16
HEX = 32
BYTES_A_WORD = 5.9
BYTES_A_TOKEN = 4.2
TOKENIZED_SHARE = 2 / 3
# Source -> (kind, share of the documents).
SOURCES = {
    "crawl_2024": ("web", 0.4), "crawl_2023": ("web", 0.25), "books": ("books", 0.05), "news": ("news", 0.1), "forum": ("dialogue", 0.08),
    "code": ("code", 0.06), "wiki": ("prose", 0.04), "reviews": ("reviews", 0.02),
}  # fmt: skip
LANGUAGES = {"en": 0.5, "zh": 0.2, "de": 0.1, "fr": 0.08, "es": 0.07, "und": 0.05}
MODEL = "no_model"  # stands in for the language model, which nothing here runs
PARAMS = f"""\
clean:
  pipeline:
    - use: language
      params: {{model: {MODEL}}}
    - use: text_signals
    - use: toxicity
select:
  rules:
    - use: language
      params: {{min_score: 0.5}}
      when: kind <> 'code'
    - use: gopher_quality
    - use: gopher_repetition
"""

Rng = np.random.Generator


def make(root: Path, rows: int, lake_format: str, part_rows: int, seed: int = 0) -> None:
    """Writes the project's tables and params.

    Args:
        root: Folder of the project.
        rows: Documents.
        lake_format: lance or parquet.
        part_rows: Most rows that are handed over at once; a fragment holds no more.
        seed: Of all that is drawn.
    """
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(PARAMS)
    (root / "settings.yaml").write_text(f"lake: {{format: {lake_format}}}\n")
    (root / MODEL).touch()
    with contextlib.chdir(root):
        _write(rows, part_rows, np.random.default_rng(seed))


def _write(rows: int, part_rows: int, rng: Rng) -> None:
    """Writes the tables part by part, and lets select decide."""
    clean = CleanParams.parse(load_params(Path("params.yaml"))["clean"], where="clean")
    columns = documents_schema(build(clean.pipeline))
    documents, tokens = [], []
    for start in range(0, rows, part_rows):
        batches = list(_batches(rng, columns, min(part_rows, rows - start)))
        documents.append(write_part("documents", columns, batches))
        tokens.append(write_part("tokens", schema.TOKENS, [_tokens(rng, batch) for batch in batches]))
    commit_parts("documents", columns, documents)
    commit_parts("tokens", schema.TOKENS, tokens)
    lockfile.write()
    subprocess.run([sys.executable, "-m", "dataplane.stages.select"], check=True)


def _batches(rng: Rng, columns: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, BATCH_ROWS):
        yield _documents(rng, columns, min(BATCH_ROWS, rows - start))


def _documents(rng: Rng, columns: pa.Schema, n: int) -> pa.RecordBatch:
    """One batch of `documents`."""
    values: dict[str, pa.Array] = _signals(rng, n)
    source = rng.choice(len(SOURCES), n, p=[share for _, share in SOURCES.values()])
    values["doc_id"], values["text_hash"] = _hex(rng, n), _hex(rng, n)
    values["source"] = pa.array(list(SOURCES)).take(pa.array(source))
    values["kind"] = pa.array([kind for kind, _ in SOURCES.values()]).take(pa.array(source))
    values["url"] = pc.binary_join_element_wise("https://example.org", values["source"], values["doc_id"], "/")
    values["mime"] = pa.array(["text/html"] * n)
    values["n_bytes"] = pc.cast(pc.multiply(values["text_signals__n_words"], BYTES_A_WORD), pa.int64(), safe=False)
    values["text"] = pc.cast(pc.binary_join_element_wise("Text of", values["doc_id"], " "), pa.large_string())
    return pa.record_batch([values[name].cast(columns.field(name).type) for name in columns.names], schema=columns)


def _signals(rng: Rng, n: int) -> dict[str, pa.Array]:
    """Signals as flat columns: lengths are lognormal, shares lie near zero, most texts are well-formed."""
    lang = rng.choice(len(LANGUAGES), n, p=list(LANGUAGES.values()))
    words = np.exp(rng.normal(5.9, 1.2, n)).astype(np.int64) + 1
    values = {
        "n_words": words,
        "n_chars": (words * (BYTES_A_WORD - 0.4)).astype(np.int64),
        "n_lines": words // 20 + 1,
        "mean_word_length": rng.normal(4.7, 0.5, n),
        "alphabetic_word_share": rng.beta(40, 3, n),
        "stop_words": rng.binomial(8, 0.8, n),
        "stop_characters": rng.binomial(8, 0.8, n),
        "cjk_share": np.where(lang == list(LANGUAGES).index("zh"), rng.beta(20, 1, n), 0.0),
        "digit_share": rng.beta(1, 30, n),
        "terminal_line_share": rng.beta(4, 2, n),
    }
    values |= {name: rng.beta(1, 40, n) for name in _SMALL_SHARES}
    signals = {f"text_signals__{name}": pa.array(column) for name, column in values.items()}
    signals["language__lang"] = pa.array(list(LANGUAGES)).take(pa.array(lang))
    signals["language__score"] = pa.array(rng.beta(9, 1, n).astype(np.float32))
    signals["toxicity__n_hits"] = pa.array(rng.poisson(0.05, n).astype(np.int32))
    signals["toxicity__share"] = pa.array(rng.beta(1, 2000, n).astype(np.float32))
    return signals


_SMALL_SHARES = (
    "hash_ratio", "ellipsis_ratio", "bullet_line_share", "ellipsis_line_share", "duplicate_line_share", "duplicate_line_char_share",
    "duplicate_paragraph_share", "duplicate_paragraph_char_share", "top_2_gram_share", "top_3_gram_share", "top_4_gram_share",
    "duplicate_5_gram_share", "duplicate_6_gram_share", "duplicate_7_gram_share", "duplicate_8_gram_share", "duplicate_9_gram_share",
    "duplicate_10_gram_share",
)  # fmt: skip


def _hex(rng: Rng, n: int) -> pa.Array:
    """Random 128-bit hex, string [n]."""
    offsets = np.arange(0, HEX * (n + 1), HEX, dtype=np.int32)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(rng.bytes(HEX // 2 * n).hex().encode()))


def _tokens(rng: Rng, documents: pa.RecordBatch) -> pa.RecordBatch:
    """The tokens' rows of some of the documents: counts without the ids themselves."""
    chosen = documents.filter(pa.array(rng.random(len(documents)) < TOKENIZED_SHARE))
    n_tokens = (chosen.column("n_bytes").to_numpy() / BYTES_A_TOKEN).astype(np.int64) + 1
    empty = pa.array([[]] * len(chosen), pa.large_list(pa.int32()))
    return pa.record_batch([chosen.column("doc_id"), pa.array(n_tokens), empty], schema=schema.TOKENS)
