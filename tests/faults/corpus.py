"""A small corpus of several kinds and a project over it, for tests that run every data stage."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import yaml

from dataplane import lockfile
from dataplane.stage_graph import DATA_STAGES

# Stage -> the tables that it writes, in the order that the stages run in.
WRITES: dict[str, tuple[str, ...]] = {"ingest": ("raw", "ingest_quarantine")} | {s.name: tuple(s.writes) for s in DATA_STAGES}
STAGES = list(WRITES)
TABLES = [table for tables in WRITES.values() for table in tables]
MODELS = {"train_lm": "models/ngram_lm", "tokenizer": "models/tokenizer"}
ITEM = "which of the seven rivers of the northern province carries more silt to the sea than all of the others together"

WORDS = (
    "the river grain mill boat bridge spring father harvest village count winter road stone market letter window garden "
    "teacher song mountain cloud table history number question answer city train morning evening paper story island and of to "
    "with that have be"
).split()
CHARACTERS = "春江水暖鸭先知山重路复疑无柳暗花明又一村天地人和国家学生老师读书写字工作生活时间城市历史文化社会经济发展的是了在不有"

PARAMS: dict[str, Any] = {
    "sources": [
        {"name": "en", "kind": "books", "paths": ["data/en/*.jsonl.gz"], "options": {"id": "id"}},
        {"name": "zh", "kind": "news", "paths": ["data/zh/*.txt"]},
        {"name": "web", "kind": "web", "paths": ["data/web/*.html"]},
    ],
    "train_lm": {"sources": ["en", "zh"]},
    "clean": {
        "pipeline": [
            {"use": "html_text", "when": "mime = 'text/html'"},
            {"use": "encoding_repair"},
            {"use": "text_signals"},
            {"use": "toxicity", "drop": "now"},
            {"use": "perplexity"},
            {"use": "scrub_pii"},
        ]
    },
    "select": {"rules": [{"use": "gopher_repetition"}]},
    "dedup": {},
    "decontaminate": {"benchmarks": [{"name": "bench", "paths": ["bench.jsonl"], "fields": ["question"], "id_field": "id"}]},
    "mix": {"held_out": {"share": 0.05, "min_per_source": 1}},
    "tokenizer": {"vocab_size": 400},
    "tokenize": {},
    "pack": {"sequence_length": 128},
}


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(8, 16))).capitalize() + "."


def chinese(rng: random.Random) -> str:
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(12, 30))) + "。"


def write_corpus(root: Path) -> None:
    rng = random.Random(7)
    rows = [{"id": str(i), "text": "\n".join(sentence(rng) for _ in range(9)), "url": f"http://h.test/{i}"} for i in range(60)]
    rows.append(rows[3] | {"id": "copy"})
    rows.append({"id": "leak", "text": rows[5]["text"] + "\n" + ITEM.upper() + "?"})
    rows.append({"id": "pii", "text": rows[6]["text"] + " Write to ann.lee@example.org."})
    (root / "data/en").mkdir(parents=True)
    with gzip.open(root / "data/en/rows.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
        stream.write("this is no JSON\n")
    (root / "data/zh").mkdir()
    for i in range(25):
        text = "".join(chinese(rng) for _ in range(8))
        (root / f"data/zh/{i}.txt").write_bytes(text.encode("gb18030" if i % 2 else "utf-8"))
    (root / "data/web").mkdir()
    body = "".join(f"<p>{' '.join(sentence(rng) for _ in range(4))}</p>" for _ in range(5))
    navigation = "<nav><a href='/'>Home</a><a href='/about'>About us</a></nav>"
    (root / "data/web/page.html").write_text(
        f"<html><head><title>A page</title></head><body>{navigation}<article>{body}</article></body></html>"
    )
    (root / "data/web/empty.html").write_text("")
    (root / "bench.jsonl").write_text(json.dumps({"id": "q1", "question": ITEM}) + "\n")


def change_corpus(root: Path) -> None:
    """A file comes, one goes and one is edited, as in a later crawl."""
    rng = random.Random(11)
    with gzip.open(root / "data/en/more.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"id": f"m{i}", "text": "\n".join(sentence(rng) for _ in range(9))}) + "\n" for i in range(15))
        stream.write("nor is this\n")
    (root / "data/zh/3.txt").unlink()
    (root / "data/zh/4.txt").write_text("".join(chinese(rng) for _ in range(8)), encoding="utf-8")


def make(root: Path) -> Path:
    """A project over the corpus, before its first stage."""
    root.mkdir(parents=True)
    write_corpus(root)
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS, allow_unicode=True))
    lockfile.write(root)
    return root
