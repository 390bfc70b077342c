"""MB of UTF-8 per CPU second on one core: the first look for personal data, and all of scrub_pii; beside datatrove and presidio.

    python benchmarks/pii.py [--quick] [--corpus FOLDER] [--peers PYTHON]

Prints one JSON object a line. Peers: datatrove's PIIFormatter (e-mail and public IPv4 addresses only), in the environment whose Python
`--peers` names, since its requirements differ from ours; presidio's default English pattern recognisers, without a model. `without`
is text in which every digit and at sign became a letter: nothing can be personal data there. The corpus is the text files of a
folder; without one, Python's own documentation strings.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds
from dataplane.kernels.pii_candidates import candidates
from dataplane.transforms.scrub_pii import ScrubPii

REPEATS, QUICK_REPEATS = 5, 2
CHARS, QUICK_CHARS = 4_000_000, 1_000_000
PRESIDIO_CHARS = 200_000  # presidio reads 0.2 MB/s
MB = 1_000_000
NO_PII = str.maketrans("0123456789@", "abcdefghijk")
DATATROVE = """
import json, sys, time
from importlib.metadata import version
from datatrove.data import Document
from datatrove.pipeline.formatters import PIIFormatter
texts, repeats = json.load(open(sys.argv[1], encoding="utf-8")), int(sys.argv[2])
formatter, best = PIIFormatter(), float("inf")
for _ in range(repeats):
    start = time.process_time()
    for text in texts:
        formatter.format(text)
    best = min(best, time.process_time() - start)
print(json.dumps([best, version("datatrove")]))
"""


def row(name: str, ours: float, peer: float | None, peer_name: str, peer_version: str) -> dict[str, Any]:
    ratio = round(ours / peer, 1) if peer else None
    rates = {"ours": round(ours, 1), "peer": round(peer, 2) if peer else None}
    return {"name": name, **rates, "peer_name": peer_name, "peer_version": peer_version, "ratio": ratio, "unit": "MB/s"}


def n_bytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / MB


def datatrove(texts: Sequence[str], peers: Path, repeats: int) -> tuple[float | None, str]:
    """MB/s of PIIFormatter, and its version; none where the environment is not there."""
    if not peers.is_file():
        return None, "not installed"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(list(texts)), encoding="utf-8")
        done = subprocess.run([str(peers), "-c", DATATROVE, str(file), str(repeats)], capture_output=True, text=True, check=True)
    taken, found = json.loads(done.stdout.splitlines()[-1])
    return n_bytes(texts) / taken, found


def presidio(texts: Sequence[str]) -> float:
    """MB/s of the recognisers that presidio loads for English, those that need a model left out."""
    from presidio_analyzer import PatternRecognizer, RecognizerRegistry

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    recognizers = [found for found in registry.recognizers if isinstance(found, PatternRecognizer)]

    def run() -> None:
        for text in texts:
            for recognizer in recognizers:
                recognizer.analyze(text, recognizer.supported_entities, None)

    return n_bytes(texts) / cpu_seconds(run, 1)


def sample(texts: Sequence[str], chars: int) -> list[str]:
    found, total = [], 0
    for text in texts:
        if total >= chars:
            break
        found.append(text[: chars - total])
        total += len(text)
    return found


def rows(name: str, texts: list[str], peers: Path, repeats: int) -> Iterator[dict[str, Any]]:
    operator = ScrubPii()
    operator.open()
    clean = [text.translate(NO_PII) for text in texts]
    for what, given in ((f"{name}, without", clean), (f"{name}, as it is", texts)):
        batch = pa.record_batch({"text": pa.array(given, pa.large_string())})
        operator.transform(batch)
        first = n_bytes(given) / cpu_seconds(lambda b=batch: candidates(b.column("text")), repeats)  # type: ignore[misc]
        whole = n_bytes(given) / cpu_seconds(lambda b=batch: operator.transform(b), repeats)  # type: ignore[misc]
        trove, trove_version = datatrove(given, peers, repeats)
        yield row(f"first look, {what}", first, trove, "datatrove PIIFormatter", trove_version)
        yield row(f"scrub_pii, all kinds, {what}", whole, trove, "datatrove PIIFormatter", trove_version)
        yield row(
            f"scrub_pii, all kinds, {what}",
            whole,
            presidio(sample(given, PRESIDIO_CHARS)),
            "presidio patterns",
            version("presidio-analyzer"),
        )


def documents(folder: Path | None) -> dict[str, list[str]]:
    """Texts in English and in Chinese, by their share of ASCII."""
    if folder is None:
        return {"English": [module.__doc__ for module in list(sys.modules.values()) if module.__doc__] * 4}
    sides: dict[str, list[str]] = {"English": [], "Chinese": []}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".txt", ".md"):
            text = path.read_text(encoding="utf-8", errors="replace")
            sides["English" if sum(char < "\x80" for char in text[:2000]) > 0.95 * len(text[:2000]) else "Chinese"].append(text)
    return {name: texts for name, texts in sides.items() if texts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and less text")
    parser.add_argument("--corpus", type=Path, help="folder of .txt and .md files")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help="Python of an environment with datatrove")
    arguments = parser.parse_args()
    for name, texts in documents(arguments.corpus).items():
        part = sample(texts, QUICK_CHARS if arguments.quick else CHARS)
        for found in rows(name, part, arguments.peers, QUICK_REPEATS if arguments.quick else REPEATS):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
