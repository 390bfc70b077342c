"""The dedup stage against brute force: who is dropped, for whom, and with which similarity."""

import itertools
import re
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.snapshot import Snapshot
from dataplane.stages import dedup

BASE = (
    "the river carried the grain of nine villages to the mill below the bridge and every spring the miller counted the sacks "
    "twice before he let the boats go back because his father had once lost a whole harvest to a man who could not count at "
    "all"
).split()


def changed(words: list[str], *places: int) -> str:
    return " ".join("other" + str(i) if i in places else word for i, word in enumerate(words))


TEXTS = {
    "near_0": changed(BASE),
    "near_1": changed(BASE, 3),
    "near_2": changed(BASE, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29),
    "copy_of_near_1": changed(BASE, 3).upper(),
    "copy_of_near_0": changed(BASE),
    "alone": "a completely different text about the weather in the hills and the sheep that nobody had counted for many years",
    "zh_0": "长江之水自西向东流过九个村庄每年春天磨坊主都要把粮食数两遍才肯让船回去因为他的父亲曾经把整个收成输给一个不识数的人",
    "zh_1": "长江之水自西向东流过九个村庄每年春天磨坊主都要把粮食数两遍才肯让船回去因为他的父亲曾经把整个收成输给一个不识数的汉",
    "short": "two words",
    "empty": "",
}


def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower())
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))} if words else set()


def jaccard(left: str, right: str) -> float:
    a, b = shingles(left), shingles(right)
    return len(a & b) / len(a | b) if a | b else 0.0


@pytest.fixture
def ids(put, project: Path) -> dict[str, str]:
    """doc_id of each text, after its table is written."""
    ids = {name: f"{i:032x}" for i, name in enumerate(TEXTS)}
    n = len(TEXTS)
    rows = {
        "doc_id": list(ids.values()), "source": ["s"] * n, "kind": ["k"] * n, "url": [None] * n, "mime": [None] * n,
        "n_bytes": [len(text.encode()) for text in TEXTS.values()], "text_hash": [""] * n, "text": list(TEXTS.values()),
    }  # fmt: skip
    put("documents", pa.table(rows, schema=schema.DOCUMENTS))
    put("selected", pa.table({"doc_id": list(ids.values())}, schema=schema.IDS))
    (project / "params.yaml").write_text("dedup: {minhash: {threshold: 0.7}}\n")
    return ids


def test_clusters_are_those_of_brute_force(ids: dict[str, str], project: Path) -> None:
    dedup.main()
    names = {doc_id: name for name, doc_id in ids.items()}
    rows = {names[row["doc_id"]]: row for row in Snapshot.load("duplicates", project).to_table().to_pylist()}
    kept = {names[row["doc_id"]] for row in Snapshot.load("deduplicated", project).to_table().to_pylist()}

    # Longest text survives, then the smallest doc_id: near_0 has the fewest replaced words, but near_1's are longer.
    assert kept == {"near_1", "near_2", "alone", "zh_0", "short", "empty"}
    assert set(rows) == {"near_0", "near_1", "copy_of_near_0", "copy_of_near_1", "zh_0", "zh_1"}
    for name, row in rows.items():
        assert row["kept"] == (name in kept)
        assert names[row["representative"]] in kept
        assert row["similarity"] == pytest.approx(jaccard(TEXTS[name], TEXTS[names[row["representative"]]]))
    assert {name: row["how"] for name, row in rows.items() if not row["kept"]} == {
        "near_0": "minhash",
        "copy_of_near_0": "minhash",  # its keeper near_0 was dropped for near_1
        "copy_of_near_1": "exact",
        "zh_1": "minhash",
    }
    for left, right in itertools.combinations(kept, 2):
        assert jaccard(TEXTS[left], TEXTS[right]) < 0.7


def test_cluster_id_is_the_smallest_member(ids: dict[str, str], project: Path) -> None:
    dedup.main()
    clusters: dict[str, list[str]] = {}
    for row in Snapshot.load("duplicates", project).to_table().to_pylist():
        clusters.setdefault(row["cluster_id"], []).append(row["doc_id"])
    assert all(cluster == min(members) for cluster, members in clusters.items())
    assert len(clusters) == 2
