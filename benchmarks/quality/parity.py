"""How often a rule set decides as datatrove's filter does, document by document.

    python -m benchmarks.quality parity --data FILE_OR_FOLDER [--rule reference] [--limit N] [--peer PYTHON] [--json]

FILE_OR_FOLDER holds English documents: Parquet or JSON lines with a column `text`, and text files, one document each. PYTHON is the
interpreter of an environment with datatrove 0.10.1, spacy and nltk (`make bench-setup`). Rules that the project adds to the published
ones (by kind, by language, for Chinese) do not apply: every document counts as English web text.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dataplane.operator import Annotator

PEER = Path(__file__).with_name("parity_peer.py")
DEFAULT_PEER = Path(".venv-peers/bin/python")
SETS = {
    "gopher_quality": ("gopher_quality", {}),
    "gopher_repetition": ("gopher_repetition", {"count_single_grams": True}),
    "c4": ("c4", {}),
    "c4_terminal": ("c4", {"only_terminal_lines": True}),
    "fineweb": ("fineweb", {}),
}


def documents(data: Path) -> Iterator[str]:
    """The texts under a path that are not blank; datatrove's readers leave blank ones out too."""
    for path in sorted(data.rglob("*")) if data.is_dir() else [data]:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            yield from (text for text in pq.read_table(path, columns=["text"])["text"].to_pylist() if text and text.strip())
        elif path.suffix == ".jsonl":
            yield from (text for line in path.open(encoding="utf-8") if (text := json.loads(line)["text"]).strip())
        elif path.suffix in (".txt", ".md", ".rst"):
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                yield text


def theirs(texts: Sequence[str], python: Path, *options: str) -> list[dict[str, str]]:
    """The verdicts of datatrove."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([str(python), str(PEER), *options], input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} {PEER.name} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(texts: Sequence[str], words: str) -> list[dict[str, str]]:
    """The verdicts of the rule sets: all reasons, with a comma between them."""
    from dataplane.annotators.text_signals import TextSignals
    from dataplane.ruleset import load_rule_set

    predicates = {}
    for name, (rule_set, params) in SETS.items():
        # One script is English: the rules by character are left to those of Chinese.
        known = {"min_cjk_share": 2.0} if "min_cjk_share" in load_rule_set(rule_set).spec.params else {}
        predicates[name] = load_rule_set(rule_set).resolve({**params, **known}).predicates()
    return decisions(texts, "en", TextSignals({"words": words}), predicates)


def decisions(texts: Sequence[str], lang: str, signals: Annotator, sets: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """The reasons for which each text is dropped, by set, with a comma between them.

    Args:
        texts: Documents of the web.
        lang: Their language.
        signals: text_signals, with its params.
        sets: Set -> reason -> predicate.
    """
    signals.open()
    found: list[dict[str, str]] = [{} for _ in texts]
    for start in range(0, len(texts), 1000):
        part = pa.array(texts[start : start + 1000], pa.large_string())
        langs = pa.array([lang] * len(part))
        made = signals.annotate(pa.record_batch({"text": part, "language__lang": langs}))
        struct = pa.StructArray.from_arrays(list(made.values()), names=list(made))
        language = pa.StructArray.from_arrays([langs], names=["lang"])
        d = pa.table({"text_signals": struct, "language": language, "kind": ["web"] * len(part), "n": np.arange(len(part))})  # noqa: F841
        for name, predicates in sets.items():
            columns = ", ".join(f'coalesce({predicate}, false) AS "{reason}"' for reason, predicate in predicates.items())
            for i, row in enumerate(duckdb.sql(f"SELECT {columns} FROM d ORDER BY n").fetchall()):
                found[start + i][name] = ",".join(reason for reason, dropped in zip(predicates, row, strict=True) if dropped)
    return found


def compared(mine: Sequence[dict[str, str]], other: Sequence[dict[str, str]], words: str) -> Iterator[dict[str, Any]]:
    """One row for each set: the share of equal decisions, what each side keeps, and the reasons of both where they differ."""
    for name in mine[0]:
        pairs = [(bool(a[name]), bool(b[name])) for a, b in zip(mine, other, strict=True)]
        kinds = Counter(
            f"{a[name] or 'kept'} / {b[name] or 'kept'}" for a, b in zip(mine, other, strict=True) if bool(a[name]) != bool(b[name])
        )
        yield {
            "name": name,
            "words": words,
            "documents": len(pairs),
            "equal": round(sum(a == b for a, b in pairs) / len(pairs), 5),
            "kept": round(sum(not a for a, _ in pairs) / len(pairs), 4),
            "kept_peer": round(sum(not b for _, b in pairs) / len(pairs), 4),
            "differences": dict(kinds.most_common(8)),
        }


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality parity", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rule", action="append", choices=["reference", "exact", "paper"], help="word rule; all three if left out")
    parser.add_argument("--limit", type=int, default=10**9, help="documents")
    parser.add_argument("--peer", type=Path, default=DEFAULT_PEER, help="interpreter with datatrove")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(argv)
    texts = [text for text, _ in zip(documents(chosen.data), range(chosen.limit), strict=False)]
    if not texts:
        raise SystemExit(f"no documents under {chosen.data}")
    other = theirs(texts, chosen.peer)
    for words in chosen.rule or ["reference", "exact", "paper"]:
        for row in compared(ours(texts, words), other, words):
            line = " ".join(f"{key}={value}" for key, value in row.items())
            print(json.dumps(row, ensure_ascii=False) if chosen.json else line, flush=True)
