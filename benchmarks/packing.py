"""Packs five million documents' lengths, and reads packed sequences from flat files and from the lake.

    python benchmarks/packing.py [--quick] [--corpus FILE]

The lengths are those of a lognormal corpus (median 300 tokens, a few of many thousands), or one number a line of FILE. The
peer of packing is trl's best-fit-decreasing, over the first of the documents, since all would take minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from benchmarks.text_corpus import options, show

DOCUMENTS, QUICK_DOCUMENTS, PEER_DOCUMENTS = 5_000_000, 1_000_000, 100_000
SEQUENCE_LENGTH = 2048
ROWS, QUICK_ROWS = 20_000, 4_000  # sequences that are loaded

I64 = npt.NDArray[np.int64]


def lengths(corpus: Path | None, n: int) -> I64:
    """Tokens of each document, EOS included: int64 [n]."""
    if corpus is not None and corpus.is_file():
        return np.resize(np.loadtxt(corpus, dtype=np.int64, ndmin=1), n)
    return np.clip(np.random.default_rng(0).lognormal(np.log(300), 1.1, n), 1, 200_000).astype(np.int64)


def pack_lengths(sizes: I64, algorithm: str) -> tuple[float, float, int]:
    """Seconds, share of padding, and documents that are cut though they would fit."""
    from dataplane.kernels.packing import best_fit_decreasing, concatenate, cut, first_fit_decreasing, group

    started = time.perf_counter()
    if algorithm == "concatenate":
        items, _, pieces, bins = concatenate(sizes, SEQUENCE_LENGTH)
        n_bins = int(bins[-1]) + 1
    else:
        items, _, pieces = cut(sizes, SEQUENCE_LENGTH)
        bins, n_bins = (best_fit_decreasing if algorithm == "best_fit_decreasing" else first_fit_decreasing)(pieces, SEQUENCE_LENGTH)
    group(bins, n_bins)
    seconds = time.perf_counter() - started
    parts = np.bincount(items, minlength=len(sizes))
    return seconds, 1 - int(pieces.sum()) / (n_bins * SEQUENCE_LENGTH), int(((parts > 1) & (sizes <= SEQUENCE_LENGTH)).sum())


def ours_with_tokens(sizes: I64) -> float:
    """Seconds of packing these documents, tokens moved, into batches of the table `packed`."""
    import pyarrow as pa

    from dataplane.corpus.packing import Packing, PackParams, Vocabulary
    from dataplane.corpus.token_file import TokenFile

    doc_ids = pa.array([f"{i:032x}" for i in range(len(sizes))])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(sizes, SEQUENCE_LENGTH))])
    tokens = TokenFile(doc_ids, offsets, np.zeros(int(offsets[-1]), np.int32))
    params = PackParams.parse({"sequence_length": SEQUENCE_LENGTH}, where="pack")
    started = time.perf_counter()
    for _ in Packing(pa.table({"doc_id": doc_ids}), tokens, Vocabulary(0), params).batches():
        pass
    return time.perf_counter() - started


def peer_with_tokens(sizes: I64) -> float:
    """Seconds of trl for the same."""
    import datasets
    from trl import pack_dataset

    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_dict({"input_ids": [[0] * min(int(n), SEQUENCE_LENGTH) for n in sizes]})
    started = time.perf_counter()
    pack_dataset(rows, SEQUENCE_LENGTH, "bfd")
    return time.perf_counter() - started


def loaded(rows: int, vocabulary: int = 30_000) -> Iterator[tuple[str, float]]:
    """Sequences a second that each layout gives in random order, 16 at a time: "flat" and "lance"."""
    import pyarrow as pa

    from dataplane import schema
    from dataplane.publish.export_flat import write_batches
    from dataplane.snapshot import commit_parts, write_part
    from trainplane.data.flat import FlatPacked
    from trainplane.data.packed import Packed

    rng = np.random.default_rng(0)
    ids = rng.integers(0, vocabulary, (rows, SEQUENCE_LENGTH), dtype=np.int32)
    part, token = SEQUENCE_LENGTH // 4, schema.token_type(vocabulary)
    spans = [[{"doc_id": f"{i:032x}", "seq_start": part * k, "doc_start": 0, "length": part} for k in range(4)] for i in range(rows)]
    columns = [
        pa.array(np.arange(rows)),
        pa.array(np.full(rows, SEQUENCE_LENGTH, np.int32)),
        pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)).cast(token), SEQUENCE_LENGTH),
        pa.array(spans, pa.list_(schema.SPAN)),
    ]
    batch = pa.record_batch(columns, schema=schema.packed(SEQUENCE_LENGTH, token))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        snapshot = commit_parts("packed", batch.schema, [write_part("packed", batch.schema, [batch], root)], root)
        (root / "flat").mkdir()
        write_batches([batch], root / "flat", SEQUENCE_LENGTH, vocabulary)
        order = rng.permutation(rows)[: rows // 16 * 16].reshape(-1, 16)
        for name, reader in (("flat", FlatPacked(root / "flat")), ("lance", Packed(snapshot))):
            reader.batch(order[0])
            started = time.perf_counter()
            for seq_ids in order:
                reader.batch(seq_ids)
            yield name, order.size / (time.perf_counter() - started)


def main() -> None:
    chosen = options(__doc__)
    sizes = lengths(chosen.corpus, QUICK_DOCUMENTS if chosen.quick else DOCUMENTS)
    pack_lengths(sizes[:1000], "best_fit_decreasing")
    millions = len(sizes) / 1e6
    part = sizes[:PEER_DOCUMENTS]
    ours, peer = ours_with_tokens(part), peer_with_tokens(part)
    show("packing with its tokens", len(part) / ours, len(part) / peer, "trl bfd", version("trl"), "documents/s")
    for algorithm in ("best_fit_decreasing", "first_fit", "concatenate"):
        seconds, padding, cut = pack_lengths(sizes, algorithm)
        show(f"{algorithm}, {millions:g} million documents", seconds, millions, "allowed", "", "s")
        show(f"{algorithm}, padding", 1e6 * padding, 1000, "allowed", "", "tokens a million")
        show(f"{algorithm}, documents cut that would fit", cut, len(sizes), "documents", "", "documents")
    speed = dict(loaded(QUICK_ROWS if chosen.quick else ROWS))
    show("loading sequences at random", speed["flat"], speed["lance"], "lance table", version("pylance"), "sequences/s")


if __name__ == "__main__":
    main()
