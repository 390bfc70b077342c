"""The dedup stage against brute force: who is dropped, for whom, and with which similarity."""

import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
import yaml

from dataplane import schema
from dataplane.errors import ParamsError
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


def raw(ids: list[str]) -> pa.Table:
    """Records of which the later ones are older, in two dumps."""
    n = len(ids)
    when = [datetime(2020, 1, 1, tzinfo=UTC) - timedelta(days=i) for i in range(n)]
    columns = {"doc_id": ids, "fetched_at": when, "meta": [json.dumps({"dump": f"d{i % 2}"}) for i in range(n)]}
    return pa.table({field.name: pa.array(columns.get(field.name, [None] * n), field.type) for field in schema.RAW}, schema=schema.RAW)


@pytest.fixture
def ids(put, project: Path) -> dict[str, str]:
    """doc_id of each text, after its table is written."""
    ids = {name: f"{i:032x}" for i, name in enumerate(TEXTS)}
    n = len(TEXTS)
    rows = {
        "doc_id": list(ids.values()), "source": ["s"] * n, "kind": ["k"] * n, "url": [None] * n, "mime": [None] * n,
        "n_bytes": [len(text.encode()) for text in TEXTS.values()],
        "text_hash": [xxhash.xxh3_128_hexdigest(text.encode()) for text in TEXTS.values()], "text": list(TEXTS.values()),
    }  # fmt: skip
    put("raw", raw(list(ids.values())))
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
    assert [min(members) for members in clusters.values()] == list(clusters)
    assert len(clusters) == 2


def kept(ids: dict[str, str], project: Path, params: dict[str, Any]) -> set[str]:
    (project / "params.yaml").write_text(yaml.safe_dump({"dedup": {"minhash": {"threshold": 0.7}} | params}))
    dedup.main()
    names = {doc_id: name for name, doc_id in ids.items()}
    return {names[row["doc_id"]] for row in Snapshot.load("deduplicated", project).to_table().to_pylist()}


ALONE = {"near_2", "alone", "short", "empty"}


def test_the_survivor_is_the_one_that_the_policy_names(ids: dict[str, str], project: Path) -> None:
    assert kept(ids, project, {}) == ALONE | {"near_1", "zh_0"}
    assert kept(ids, project, {"survivor": [{"by": "fetched_at", "prefer": "lowest"}]}) == ALONE | {"copy_of_near_0", "zh_1"}
    assert kept(ids, project, {"survivor": []}) == ALONE | {"near_0", "zh_0"}
    order = {"survivor": [{"by": "meta.dump", "prefer": ["d1"]}, {"by": "n_bytes", "prefer": "lowest"}]}
    assert kept(ids, project, order) == ALONE | {"near_1", "zh_1"}


def test_documents_of_different_dumps_are_not_compared(ids: dict[str, str], project: Path) -> None:
    assert kept(ids, project, {"within": "meta.dump"}) == ALONE | {"near_0", "near_1", "zh_0", "zh_1"}


def test_an_attribute_that_is_not_there_is_told_with_the_closest_one(ids: dict[str, str], project: Path) -> None:
    with pytest.raises(ParamsError, match="documents have no 'n_byte', did you mean 'n_bytes'"):
        kept(ids, project, {"survivor": [{"by": "n_byte"}]})


def test_equal_addresses_are_one_document_and_say_nothing_of_the_texts(ids: dict[str, str], put, project: Path) -> None:
    documents = Snapshot.load("documents", project).to_table()
    urls = ["http://a", None, None, "http://a", None, "http://b", "http://c", "http://c", None, None]
    put("documents", documents.set_column(3, schema.DOCUMENTS.field("url"), pa.array(urls, pa.string())))
    assert kept(ids, project, {"url": "url"}) == ALONE | {"near_1", "zh_0"}
    names = {doc_id: name for name, doc_id in ids.items()}
    rows = {names[row["doc_id"]]: row for row in Snapshot.load("duplicates", project).to_table().to_pylist()}
    found = {name: (row["how"], row["similarity"]) for name, row in rows.items() if not row["kept"]}
    assert found["near_0"] == ("url", None)  # near_0 and copy_of_near_1 are one page, and the latter equals near_1
    assert found["zh_1"] == ("url", None)
    assert found["copy_of_near_1"] == ("exact", 1.0)


def test_a_second_run_compares_nothing_again(ids: dict[str, str], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dedup.main()
    before = Snapshot.load("duplicates", project)
    monkeypatch.setattr("dataplane.kernels.minhash.jaccard", lambda *_: pytest.fail("compared again"))
    dedup.main()
    assert Snapshot.load("duplicates", project) == before
    assert sorted(path.name for path in project.glob("journal/dedup/*/*") if path.suffix != ".json") == ["about", "similarities.bin"]


def test_large_clusters_are_told(ids: dict[str, str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(ids, project, {"large_cluster": 4})
    metrics = json.loads((project / "metrics/dedup.json").read_text())
    assert (metrics["large_clusters"], metrics["largest_cluster"], metrics["full_buckets"]) == (1, 4, 0)
    assert "dedup: warning: 1 clusters of 4 documents or more, the largest of 4" in capsys.readouterr().err


def test_bands_are_chosen_for_the_threshold_and_told(ids: dict[str, str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept(ids, project, {"minhash": {"bands": "auto", "threshold": 0.7, "miss_weight": 0.9}}) == ALONE | {"near_1", "zh_0"}
    # The choice is that of datasketch: tests/corpus/test_minhash.py.
    assert "dedup: 18 bands of 6 rows" in capsys.readouterr().err


def test_simhash_is_another_method_of_the_same_stage(ids: dict[str, str], project: Path) -> None:
    """Single words as shingles see no order, so near_2, which has a quarter of other words, is 7 bits away or less."""
    assert kept(ids, project, {"method": "simhash", "simhash": {"distance": 7, "shingle_words": 1}}) == {
        "near_2",
        "alone",
        "zh_0",
        "short",
        "empty",
    }
    rows = Snapshot.load("duplicates", project).to_table().to_pylist()
    assert {row["how"] for row in rows if not row["kept"]} == {"simhash"}
    assert json.loads((project / "metrics/dedup.json").read_text())["simhash"] == {"distance": 7, "version": 1}


VECTORS = {  # near_0's and zh_0's text say the same; `short` is almost like `near_2`; `alone` has no vector
    "near_0": [4000, 0, 0], "near_1": [3990, 282, 0], "near_2": [0, 4000, 0], "copy_of_near_1": [3990, 282, 0],
    "copy_of_near_0": [4000, 0, 0], "alone": None, "zh_0": [3980, 400, 0], "zh_1": [3980, 399, 0], "short": [0, 3900, 889], "empty": None,
}  # fmt: skip


def with_vectors(put: Any, project: Path) -> None:
    table = Snapshot.load("documents", project).to_table()
    column = pa.array([VECTORS[name] for name in TEXTS], pa.list_(pa.int16()))
    put("documents", table.append_column(pa.field("embedding__vector", column.type), column))


def test_documents_of_one_meaning_go_behind_the_survivor_and_say_how_alike_they_are(ids: dict[str, str], put: Any, project: Path) -> None:
    with_vectors(put, project)
    of = {"minhash": {"threshold": 0.7}, "semantic": {"vectors": "embedding.vector", "threshold": 0.97}}
    assert kept(ids, project, of) == {"near_1", "near_2", "alone", "empty"}
    names = {doc_id: name for name, doc_id in ids.items()}
    rows = {names[row["doc_id"]]: row for row in Snapshot.load("duplicates", project).to_table().to_pylist()}
    # zh_1 went for zh_0 before, and stands behind its keeper now.
    for name, leader in (("zh_0", "near_1"), ("zh_1", "near_1"), ("short", "near_2")):
        a, b = VECTORS[name], VECTORS[leader]
        assert a is not None
        assert b is not None
        cosine = sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(x * x for x in b)) ** 0.5
        assert (names[rows[name]["representative"]], rows[name]["how"], rows[name]["kept"]) == (leader, "semantic", False)
        assert rows[name]["similarity"] == pytest.approx(cosine, abs=1e-12)
    told = json.loads((project / "metrics/dedup.json").read_text())["semantic"]
    assert told == {"compared": 4, "without_vector": 2, "parts": 1, "threshold": 0.97, "version": "1"}
    assert sorted(path.name for path in project.glob("journal/dedup/*/spill")) == []
    of["semantic"]["threshold"] = 0.98
    assert kept(ids, project, of) == {"near_1", "near_2", "alone", "short", "empty"}


def test_meanings_of_different_dumps_are_not_compared_and_a_missing_signal_is_told(ids: dict[str, str], put: Any, project: Path) -> None:
    with pytest.raises(ParamsError, match=r"embedding\.vector"):
        kept(ids, project, {"semantic": {"vectors": "embedding.vector"}})
    with_vectors(put, project)
    of = {"within": "meta.dump", "minhash": {"threshold": 0.7}, "semantic": {"vectors": "embedding.vector", "threshold": 0.97}}
    without = kept(ids, project, {**of, "semantic": {}})
    found = kept(ids, project, of)
    dump = {name: i % 2 for i, name in enumerate(TEXTS)}
    gone = without - found
    assert gone
    rows = {row["doc_id"]: row for row in Snapshot.load("duplicates", project).to_table().to_pylist()}
    names = {doc_id: name for name, doc_id in ids.items()}
    for name in gone:
        assert dump[names[rows[ids[name]]["representative"]]] == dump[name]
