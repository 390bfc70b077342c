"""A tiny project that can be pretrained, and the stage run on it as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from dataplane import lockfile, schema
from dataplane.corpus import tokenizer
from dataplane.corpus.tokenizer import TokenizerParams
from dataplane.snapshot import Snapshot, commit_parts, write_part

LENGTH, SEQUENCES = 32, 24
PARAMS = {
    "model": {"hidden_size": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "intermediate_size": 64},
    "pretrain": {
        "steps": 12, "global_batch": 4, "micro_batch": 2, "warmup_steps": 2, "checkpoint_every": 3, "held_out_every": 6,
        "held_out_documents": 2, "threads": 1,
    },
}  # fmt: skip


def put(root: Path, table: str, rows: pa.Table) -> None:
    commit_parts(table, rows.schema, [write_part(table, rows.schema, rows.to_batches(), root)], root)


def make(root: Path) -> Path:
    root.mkdir(parents=True)
    texts = [f"document {i} speaks of rivers and mills, 第{i}篇文章讲河流与磨坊。" for i in range(40)]
    trained = tokenizer.train([pa.array(texts)], TokenizerParams(vocab_size=300))
    tokenizer.save(trained, root / "models/tokenizer")
    rng = np.random.default_rng(0)
    rows, ids = [], [f"{i:032x}" for i in range(2 * SEQUENCES)]
    for i in range(SEQUENCES):
        spans = [{"doc_id": ids[2 * i + j], "seq_start": 16 * j, "doc_start": 0, "length": 16} for j in range(2)]
        rows.append({"seq_id": i, "n_tokens": LENGTH, "input_ids": rng.integers(6, 300, LENGTH).tolist(), "spans": spans})
    put(root, "packed", pa.Table.from_pylist(rows, schema=schema.packed(LENGTH)))
    held = [{"doc_id": f"{1000 + i:032x}", "source": f"s{i}", "kind": "k"} for i in range(2)]
    put(root, "held_out", pa.Table.from_pylist(held, schema=schema.HELD_OUT))
    told = [(doc_id, i // 2 % 2) for i, doc_id in enumerate(ids)] + [(row["doc_id"], i) for i, row in enumerate(held)]
    documents = [{"doc_id": doc_id, "source": f"s{i}", "language__lang": ["en", "zh"][i]} for doc_id, i in told]
    put(root, "documents", pa.Table.from_pylist(documents))
    tokens = [{"doc_id": row["doc_id"], "n_tokens": 9, "n_words": 9, "input_ids": list(range(10, 19))} for row in held]
    put(root, "tokens", pa.Table.from_pylist(tokens, schema=schema.TOKENS))
    record = dict.fromkeys(schema.RAW.names) | {"source": "s", "kind": "k", "format": "text", "member": "", "offset": 0, "length": 5}
    raw = [record | {"doc_id": doc_id, "uri": f"data/{doc_id}.txt", "payload": b"bytes"} for doc_id in ids]
    put(root, "raw", pa.Table.from_pylist(raw, schema=schema.RAW))
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    lockfile.write(root)
    return root


def start(root: Path, ranks: int = 1) -> subprocess.Popen:
    settings = {"TERRAPLANE_WORKERS": "1", "TERRAPLANE_TRAINING_PROCESSES": str(ranks)}
    environment = os.environ | settings | {"DS_ACCELERATOR": "cpu"}
    return subprocess.Popen([sys.executable, "-m", "trainplane.stages.pretrain"], cwd=root, env=environment, stderr=subprocess.PIPE)


def finish(root: Path, ranks: int = 1) -> None:
    process = start(root, ranks)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]


def result(root: Path) -> tuple[str, str, str]:
    run = json.loads((root / "models/pretrain/run.json").read_text())
    return run["digest"], run["chain_hash"], Snapshot.load("consumed", root).digest
