"""What tokenising into the table `tokens` adds to the `tokenizers` library's own encode_batch, on all cores.

    python benchmarks/tokenize.py [--quick] [--corpus PATH]

Both encode the same batches with the project's kind of vocabulary, trained on the corpus. `added` is the share of seconds that
ours takes longer; the library alone gives Python objects, ours Arrow arrays and word counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path
    # This file's folder is first on the path, where its own name would stand in for the standard library's `tokenize`.
    sys.path[0] = str(Path(__file__).parents[1])

import os
import time
from importlib.metadata import version

import pyarrow as pa

from benchmarks.text_corpus import documents, options, show

VOCABULARY, TRAINED_ON, BATCH, ROUNDS = 8192, 500, 1024, 5
ALLOWED = 10.0  # percent


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    from dataplane.corpus.tokenizer import TokenizerParams, train
    from dataplane.corpus.tokens import TokenizeParams, tokenize

    texts = documents(options(__doc__))
    vocabulary = train([pa.array(texts[:TRAINED_ON])], TokenizerParams.parse({"vocab_size": VOCABULARY}, where="tokenizer"))
    vocabulary.encode_special_tokens = True
    params = TokenizeParams.parse(None, where="tokenize")
    batches = [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]
    columns = [(pa.array([str(i) for i in range(len(b))]), pa.array(b, pa.large_string())) for b in batches]
    tokenize(*columns[0], vocabulary, params)
    ours, peer = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for batch in batches:
            vocabulary.encode_batch(batch, add_special_tokens=False)
        middle = time.perf_counter()
        for ids, column in columns:
            tokenize(ids, column, vocabulary, params)
        peer.append(middle - started)
        ours.append(time.perf_counter() - middle)
    mb = sum(len(text.encode()) for text in texts) / 1e6
    best, other = min(ours), min(peer)
    show("tokenising", mb / best, mb / other, "tokenizers encode_batch", version("tokenizers"), "MB/s")
    show("time added to encode_batch", 100 * (best / other - 1), ALLOWED, "allowed", "", "%")


if __name__ == "__main__":
    main()
