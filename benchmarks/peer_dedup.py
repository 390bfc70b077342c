"""The near-duplicates that a peer drops: run by benchmarks/dedup_peers.py with the interpreter of an environment that has the peer.

python peer_dedup.py NAME < texts.jsonl

Prints one JSON line: the places of the documents that go, and the version. 14 bands of 8 rows, shingles of 5 words; a peer that wants a
threshold is given 0.8. datasketch and rensa only look up: a document goes where the index knows one before it, as their pages show.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version

from peer_minhash import HASHES, WORDS, shingles

BANDS, ROWS = 14, 8


def datatrove(texts: Sequence[str]) -> list[int]:
    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig

    folder = Path(tempfile.mkdtemp())
    config = MinhashConfig(n_grams=WORDS, num_buckets=BANDS, hashes_per_bucket=ROWS)
    documents = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
    MinhashDedupSignature(f"{folder}/signatures", config).run(iter(documents), 0, 1)
    for bucket in range(BANDS):
        MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config).run(None, bucket, BANDS)
    MinhashDedupCluster(f"{folder}/buckets", f"{folder}/remove", config=config).run(None, 0, 1)
    left = {document.id for document in MinhashDedupFilter(f"{folder}/remove").run(iter(documents), 0, 1)}
    return [i for i in range(len(texts)) if str(i) not in left]


def datasketch(texts: Sequence[str]) -> list[int]:
    from datasketch import MinHash, MinHashLSH

    index, gone = MinHashLSH(num_perm=HASHES, params=(BANDS, ROWS)), []
    for i, text in enumerate(texts):
        made = MinHash(num_perm=HASHES)
        made.update_batch([shingle.encode() for shingle in shingles(text)])
        if index.query(made):
            gone.append(i)
        else:
            index.insert(i, made)
    return gone


def rensa(texts: Sequence[str]) -> list[int]:
    from rensa import RMinHash, RMinHashLSH

    index, gone = RMinHashLSH(threshold=0.8, num_perm=HASHES, num_bands=BANDS), []
    for i, text in enumerate(texts):
        made = RMinHash(num_perm=HASHES, seed=42)
        made.update(shingles(text))
        if index.query(made):
            gone.append(i)
        else:
            index.insert(i, made)
    return gone


PEERS: dict[str, Callable[[Sequence[str]], list[int]]] = {"datatrove": datatrove, "datasketch": datasketch, "rensa": rensa}


def main() -> None:
    name = sys.argv[1]
    texts = [json.loads(line) for line in sys.stdin]
    print(json.dumps({"gone": PEERS[name](texts), "version": version(name)}))


if __name__ == "__main__":
    main()
