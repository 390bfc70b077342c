"""How fast the loader gives batches of `packed` in training order, against what a model needs.

    python -m benchmarks.loader [--quick] [--corpus PROJECT]

`ours` is the loader's tokens a second (shuffled access to the local copy, positions, labels and the hash of the tokens included, nothing
read ahead); `peer` what a model of about 3 million parameters takes on these cores, with forward, backward and step. A second row holds
it against reading the lake's table. PROJECT is a project whose lake has `packed`.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import os
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

LENGTH, BATCH = 512, 8


def synthetic(root: Path, n: int) -> None:
    """A project with a table `packed`."""
    from dataplane import schema
    from dataplane.snapshot import commit_parts, write_part

    rng = np.random.default_rng(0)
    spans = [{"doc_id": f"{i:032x}", "seq_start": 128 * i, "doc_start": 0, "length": 128} for i in range(4)]
    rows = ({"seq_id": i, "n_tokens": LENGTH, "input_ids": rng.integers(2, 8192, LENGTH).tolist(), "spans": spans} for i in range(n))
    batches = [pa.RecordBatch.from_pylist(list(rows), schema=schema.packed(LENGTH))]
    commit_parts("packed", schema.packed(LENGTH), [write_part("packed", schema.packed(LENGTH), batches, root)], root)


def speed(packed: Any, steps: int) -> float:
    """Tokens a second of batches in training order."""
    from trainplane.data.order import sequences_of_step

    began = time.monotonic()
    for step in range(1, steps + 1):
        packed.batch(sequences_of_step(0, step, BATCH, packed.n_sequences)).token_hash()
    return steps * BATCH * packed.sequence_length / (time.monotonic() - began)


def model_speed(root: Path, steps: int) -> float:
    """Tokens a second of a small model in training."""
    from dataplane.snapshot import Snapshot
    from trainplane.data.order import sequences_of_step
    from trainplane.data.packed import Packed
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.engine import Engine

    packed = Packed(Snapshot.load("packed", root))
    model = build(ModelParams(), vocab_size=8192, sequence_length=packed.sequence_length, eos_id=0, pad_id=1, seed=0)
    engine = Engine(model, PretrainParams(global_batch=BATCH, micro_batch=BATCH, threads=os.cpu_count() or 1))
    batches = [packed.batch(sequences_of_step(0, step, BATCH, packed.n_sequences)) for step in range(1, steps + 2)]
    engine.step(batches[0], 1e-3)
    began = time.monotonic()
    for batch in batches[1:]:
        engine.step(batch, 1e-3)
    return steps * BATCH * packed.sequence_length / (time.monotonic() - began)


def main() -> None:
    """The command line."""
    import lance

    from dataplane.snapshot import Snapshot
    from trainplane.data.local_copy import local_copy
    from trainplane.data.packed import Packed

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few steps")
    parser.add_argument("--corpus", type=Path, help="a project with a table `packed`; synthetic by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = options.corpus or Path(folder)
        if options.corpus is None:
            synthetic(root, 2000)
        snapshot = Snapshot.load("packed", root)
        copy, steps = local_copy(snapshot, 1 << 17, Path(folder) / "copies"), 100 if options.quick else 1000
        loaded, decoded = speed(copy, steps), speed(Packed(snapshot), steps)
        needed = model_speed(root, 3 if options.quick else 10)
    for peer, found, version in (("what a 3M model needs", needed, ""), ("batches of the Lance table", decoded, lance.__version__)):
        print(json.dumps({
            "name": f"loader, batches of {BATCH}", "ours": round(loaded), "peer": round(found), "peer_name": peer,
            "peer_version": version, "ratio": round(loaded / found, 1), "unit": "tokens/s",
        }))  # fmt: skip


if __name__ == "__main__":
    main()
