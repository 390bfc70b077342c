"""What a peer's MinHash costs: run by benchmarks/minhash.py with the interpreter of an environment that has the peer.

python peer_minhash.py NAME < texts.jsonl

Prints one JSON line: CPU seconds for the signatures of all texts, with splitting and shingling, and the version. Each is used as its
documentation does: 112 hash functions, shingles of 5 words. datasketch and rensa leave splitting to the caller: a regular expression here.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import re
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version

WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
HASHES, WORDS = 112, 5


def shingles(text: str) -> list[str]:
    words = WORD.findall(text.lower())
    return [" ".join(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1))]


def datatrove() -> Callable[[str], object]:
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature

    step = MinhashDedupSignature(tempfile.mkdtemp(), MinhashConfig(n_grams=WORDS, num_buckets=14, hashes_per_bucket=8))
    return lambda text: step.get_signature(found) if len(found := step.get_shingles(text)) else None


def datasketch() -> Callable[[str], object]:
    from datasketch import MinHash

    def sign(text: str) -> object:
        made = MinHash(num_perm=HASHES)
        made.update_batch([shingle.encode() for shingle in shingles(text)])
        return made

    return sign


def rensa() -> Callable[[str], object]:
    from rensa import RMinHash

    def sign(text: str) -> object:
        made = RMinHash(num_perm=HASHES, seed=42)
        made.update(shingles(text))
        return made.digest()

    return sign


PEERS = {"datatrove": datatrove, "datasketch": datasketch, "rensa": rensa}


def main() -> None:
    name = sys.argv[1]
    texts = [json.loads(line) for line in sys.stdin]
    sign = PEERS[name]()
    sign(texts[0])
    started = time.process_time()
    for text in texts:
        sign(text)
    print(json.dumps({"seconds": time.process_time() - started, "version": version(name)}))


if __name__ == "__main__":
    main()
