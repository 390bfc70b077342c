"""Documents to time on, and the line that a benchmark prints."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

QUICK_CHARS, FULL_CHARS = 4_000_000, 40_000_000
DOCUMENT_CHARS = 4_000
SENTENCES = (
    "The committee met on Thursday — as always — and nobody knew what the budget would hold. ",
    "委员会于星期四再次开会，讨论明年的预算和其他重要事项。",
    "L’été dernier, nous avons mangé des crêpes à la crème et bu du café près de l’hôtel. ",
)


def options(doc: str | None) -> argparse.Namespace:
    """--quick and --corpus."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--corpus", type=Path, help="a text file, or a folder of .txt, .md and .rst; left out: made-up sentences")
    return parser.parse_args()


def documents(chosen: argparse.Namespace) -> list[str]:
    """Documents of up to `DOCUMENT_CHARS` characters."""
    limit = QUICK_CHARS if chosen.quick else FULL_CHARS
    found: list[str] = []
    total = 0
    while total < limit:
        for text in _texts(chosen.corpus):
            for start in range(0, len(text), DOCUMENT_CHARS):
                found.append(text[start : start + DOCUMENT_CHARS])
                total += len(found[-1])
                if total >= limit:
                    return found
    return found


def _texts(corpus: Path | None) -> Iterator[str]:
    if corpus is None:
        yield from (sentence * (DOCUMENT_CHARS // len(sentence)) for sentence in SENTENCES)
        return
    files = sorted(path for path in corpus.rglob("*") if path.suffix in (".txt", ".md", ".rst")) if corpus.is_dir() else [corpus]
    texts = [text for path in files if (text := path.read_text(encoding="utf-8", errors="replace")).strip()]
    if not texts:
        raise SystemExit(f"no text under {corpus}")
    yield from texts


def cpu_seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """CPU time of a call in this process, of the fastest of several."""
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return max(min(taken), 1e-9)


def show(name: str, ours: float, peer: float, peer_name: str, peer_version: str, unit: str) -> None:
    """One JSON line."""
    row = {"name": name, "ours": round(ours, 2), "peer": round(peer, 2), "peer_name": peer_name, "peer_version": peer_version}
    print(json.dumps(row | {"ratio": round(ours / peer, 2), "unit": unit}), flush=True)
