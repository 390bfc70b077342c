"""MB/s of UTF-8 per CPU second: scoring under one 5-gram ARPA model, ours against KenLM's Python binding, line by line.

The model is trained on every second document and scores the others; the last row is the largest difference of two scores of a
document, as a share. Words are parted by white space; Chinese stands there in characters, since its words are not parted.

python benchmarks/perplexity.py [--quick] [--corpus FILE_OR_FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import tempfile
from importlib.metadata import version

import numpy as np
import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show
from dataplane.annotators.causal_lm import CausalParams
from dataplane.annotators.lm_scorers import open_scorer
from dataplane.annotators.lm_tokens import Reading
from dataplane.corpus.token_lm import TokenLmParams, train
from dataplane.kernels.ngram_lm import F64

PEER, VERSION = "kenlm", version("kenlm")


def trained(texts: pa.Array, path: Path) -> float:
    """CPU seconds of training."""
    params = TokenLmParams.parse({"order": 5, "prune": [0, 0, 1]}, where="benchmark")
    return cpu_seconds(lambda: train(lambda: [texts], params, path))


def ours(texts: pa.Array, path: Path) -> tuple[float, F64]:
    scorer = open_scorer(path, {}, CausalParams.parse({}, where="benchmark"))
    scorer.score(texts.slice(0, 1))
    seconds = cpu_seconds(lambda: scorer.score(texts))
    return seconds, scorer.score(texts).log_probs


def theirs(texts: list[str], path: Path) -> tuple[float, F64]:
    import kenlm

    config = kenlm.Config()
    config.show_progress = False
    model = kenlm.Model(str(path), config)
    found: list[float] = []
    seconds = cpu_seconds(lambda: found.extend(sum(model.score(line) for line in text.split("\n") if line.strip()) for text in texts))
    return seconds, np.array(found)


def compared(name: str, texts: list[str], folder: Path) -> None:
    path = folder / f"{name}.arpa"
    spaced = Reading.parse({"tokens": name}, where="benchmark").spaced()(pa.array(texts, pa.large_string()))
    seen, new = spaced.take(pa.array(range(0, len(texts), 2))), spaced.take(pa.array(range(1, len(texts), 2)))
    sizes = [sum(map(len, map(str.encode, part.to_pylist()))) / 1e6 for part in (seen, new)]
    taken = trained(seen, path)
    (fast, our_scores), (slow, their_scores) = ours(new, path), theirs(new.to_pylist(), path)
    show(f"score, {name}", sizes[1] / fast, sizes[1] / slow, PEER, VERSION, "MB/s")
    apart = float(np.max(np.abs(our_scores - their_scores) / np.maximum(1, np.abs(their_scores))))
    row = {"name": f"largest difference of scores, {name}", "ours": apart, "peer": 0.0, "peer_name": PEER, "peer_version": VERSION}
    print(json.dumps(row | {"ratio": None, "unit": "share"}))
    row = {"name": f"train, {name}", "ours": round(sizes[0] / taken, 3), "peer": None, "peer_name": None, "peer_version": None}
    print(json.dumps(row | {"ratio": None, "unit": "MB/s"}), flush=True)


def main() -> None:
    texts = documents(options(__doc__))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("words", "characters"):
            compared(name, texts, Path(folder))


if __name__ == "__main__":
    main()
