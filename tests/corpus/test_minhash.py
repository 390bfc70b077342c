"""Near-duplicates against brute force: precision 1, recall as the formula says, no chains, blind to order."""

import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.corpus import banding, clusters, minhash
from dataplane.corpus.banding import Sharers, Work, find_sharers
from dataplane.corpus.bands import Bands, chosen_bands
from dataplane.corpus.clusters import Standing, Stars, duplicate_rows
from dataplane.corpus.dedup_params import DedupParams
from dataplane.corpus.minhash import MinHashParams, find_duplicates, signatures
from dataplane.corpus.similarities import Similarities
from dataplane.corpus.survival import LONGEST, survival_rank
from dataplane.errors import ParamsError
from dataplane.kernels.stars import MAX_LEADERS_IN_BUCKET

NO_GROUPS = np.zeros(0, np.uint64)


def shingle_set(text: str, k: int = 5) -> set[tuple[str, ...]]:
    """Own definition: lower-case ASCII words and single Han characters."""
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower())
    return {tuple(words[i : i + k]) for i in range(max(len(words) - k, 0) + 1)} if words else set()


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def blocks(signed: np.ndarray, size: int = 50) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for at in range(0, len(signed), size):
        yield np.arange(at, min(at + size, len(signed))), signed[at : at + size]


def stars_of(column: pa.Array, rank: np.ndarray, params: MinHashParams, asked: list[int] | None = None, groups: Any = NO_GROUPS) -> Stars:
    def texts_of(wanted: np.ndarray) -> pa.Array:
        if asked is not None:
            asked.extend(wanted.tolist())
        return column.take(pa.array(wanted))

    signed = signatures(column, params)
    work = Work(lambda: blocks(signed), rank, groups)
    with tempfile.TemporaryDirectory() as folder:
        known = Similarities(Path(folder) / "pairs.bin", np.arange(2 * len(column), dtype=np.uint64).reshape(-1, 2))
        return find_duplicates(work, texts_of, known, params, Path(folder) / "spill")


def search(texts: dict[str, str], params: MinHashParams, asked: list[int] | None = None) -> pa.Table:
    ids, column = pa.array(list(texts)), pa.array(list(texts.values()), pa.large_string())
    lengths = pa.array([len(t.encode()) for t in texts.values()])
    stars = stars_of(column, survival_rank(ids, [LONGEST], lambda _: lengths), params, asked)
    return duplicate_rows(ids, Standing.alone(len(ids)).then(stars.leader, stars.similarity, "minhash"))


def edits(kind: str, n_bases: int, seed: int) -> dict[str, str]:
    """Bases with copies of 1-20% changed words or characters."""
    rng = random.Random(seed)
    if kind == "en":
        alphabet, joiner, size = [f"w{i}" for i in range(3000)], " ", 250
    else:
        alphabet, joiner, size = [chr(0x4E00 + i) for i in range(3000)], "", 400
    texts = {}
    for base in range(n_bases):
        units = rng.choices(alphabet, k=size)
        for rate in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2):
            changed = [rng.choice(alphabet) if rng.random() < rate else unit for unit in units]
            texts[f"{base:04x}{int(rate * 100):028x}"] = joiner.join(changed)
    return texts


@pytest.mark.parametrize("kind", ["en", "zh"])
def test_every_dropped_document_is_as_similar_as_said_and_recall_is_that_of_the_formula(kind: str) -> None:
    params = MinHashParams(threshold=0.7)
    texts = edits(kind, 120, seed=5)
    got = search(texts, params).to_pylist()
    sets = {name: shingle_set(text) for name, text in texts.items()}
    for row in got:
        similarity = jaccard(sets[row["doc_id"]], sets[row["representative"]])
        assert row["similarity"] == pytest.approx(similarity, abs=1e-12)
        assert similarity >= 0.7
    dropped = {row["doc_id"] for row in got if not row["kept"]}
    names = sorted(texts)
    near = [
        (a, b, s)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if a[:4] == b[:4] and (s := jaccard(sets[a], sets[b])) >= 0.7  # of other bases, no pair is alike
    ]
    left = sum(a not in dropped and b not in dropped for a, b, _ in near)
    missed = sum(1 - params.cut().probability(s) for _, _, s in near)
    assert len(near) > 200
    assert left <= missed + 3 * missed**0.5


def test_a_chain_is_not_a_cluster() -> None:
    """a ~ b ~ c, but a and c are not alike: c stays, though the components of the graph would drop it."""
    units = [f"u{i}" for i in range(120)]
    texts = {
        "b": " ".join(units[5:105]),  # the middle one
        "a": " ".join(units[:100]),
        "c": " ".join(units[10:110]),
    }
    params = MinHashParams(threshold=0.85, bands=112, rows=1)
    sets = {name: shingle_set(text) for name, text in texts.items()}
    assert jaccard(sets["a"], sets["b"]) > 0.85
    assert jaccard(sets["b"], sets["c"]) > 0.85
    assert jaccard(sets["a"], sets["c"]) < 0.85
    column = pa.array(list(texts.values()), pa.large_string())
    rank = np.array([1, 0, 2])  # a before b before c
    stars = stars_of(column, rank, params)
    got = duplicate_rows(pa.array(list(texts)), Standing.alone(3).then(stars.leader, stars.similarity, "minhash"))
    assert got.schema == schema.DUPLICATES
    assert [(r["doc_id"], r["representative"], r["kept"], r["how"]) for r in got.to_pylist()] == [
        ("a", "a", True, "minhash"),
        ("b", "a", False, "minhash"),
    ]


def test_the_result_is_blind_to_order() -> None:
    texts = edits("en", 15, seed=2)
    shuffled = list(texts.items())
    random.Random(1).shuffle(shuffled)
    want = search(texts, MinHashParams(threshold=0.6))
    assert want.num_rows > 20
    assert search(dict(shuffled), MinHashParams(threshold=0.6)).equals(want)


def test_texts_are_read_only_where_the_estimate_leaves_a_chance() -> None:
    asked: list[int] = []
    texts = {f"{i:032x}": " ".join(f"a{i}b{j}" for j in range(50)) for i in range(300)}
    assert search(texts, MinHashParams(), asked).num_rows == 0
    assert asked == []
    search(edits("en", 5, seed=9), MinHashParams(verify="estimate"), asked)
    assert asked == []


def test_texts_without_words_are_nobodys_duplicates_and_short_ones_are_compared_whole() -> None:
    texts = {"a": "...", "b": "!!", "c": "", "d": "two words", "e": "Two  words!", "f": "two other", "g": "好的", "h": "好的。"}
    got = search(texts, MinHashParams())
    assert [(r["doc_id"], r["representative"]) for r in got.to_pylist()] == [("e", "e"), ("d", "e"), ("h", "h"), ("g", "h")]


def sharers_of(buckets: np.ndarray, rank: np.ndarray, signed: np.ndarray) -> Sharers:
    """As `banding` makes them, from the bucket of each document in each band, -1 where it is alone."""
    docs = np.flatnonzero((buckets >= 0).any(axis=1))
    docs = docs[np.argsort(rank[docs])]
    lists = [[b for b in buckets[doc].tolist() if b >= 0] for doc in docs]
    starts = np.cumsum([0, *map(len, lists)])
    sizes = np.bincount(buckets[buckets >= 0], minlength=1).astype(np.int32)
    flat = np.array([b for own in lists for b in own], np.int32)
    return Sharers(docs, starts, flat, sizes, signed[docs], np.arange(len(docs), dtype=np.int32), NO_GROUPS)


def plain_stars(buckets: np.ndarray, rank: np.ndarray, similar: Any, threshold: float, most: int) -> tuple[list[int], list[float]]:
    """The definition, in Python: by rank, each behind the most similar of the first `most` kept documents of its buckets."""
    leader, similarity = list(range(len(rank))), [1.0] * len(rank)
    leaders: dict[int, list[int]] = {}
    for doc in np.argsort(rank).tolist():
        own = [b for b in buckets[doc].tolist() if b >= 0]
        candidates = sorted({other for b in own for other in leaders.get(b, ())}, key=lambda other: rank[other])
        best = max(candidates, key=lambda other: similar(doc, other), default=None)
        if best is not None and similar(doc, best) >= threshold:
            leader[doc], similarity[doc] = best, similar(doc, best)
            continue
        for b in own:
            if len(leaders.setdefault(b, [])) < most:
                leaders[b].append(doc)
    return leader, similarity


@pytest.mark.parametrize("seed", range(4))
def test_stars_are_those_of_the_definition(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n, bands = 600, 3
    values = rng.integers(0, 12 if seed % 2 else 120, (n, bands))
    buckets = np.full((n, bands), -1, np.int32)
    used = 0
    for band in range(bands):
        for value in range(200):
            members = np.flatnonzero(values[:, band] == value)
            if len(members) > 1:
                buckets[members, band], used = used, used + 1
    signed = rng.integers(0, 3, (n, 10)).astype(np.uint32)
    rank = rng.permutation(n)
    signed_of = signed.tolist()

    def similar(doc: int, other: int) -> float:
        return sum(a == b for a, b in zip(signed_of[doc], signed_of[other], strict=True)) / 10

    got = clusters.greedy_stars([sharers_of(buckets, rank, signed)], n, lambda _, __, shares: shares, 0.7, 0.7, tmp_path)
    leader, similarity = plain_stars(buckets, rank, similar, 0.7, MAX_LEADERS_IN_BUCKET)
    assert (got.leader.tolist(), got.similarity.tolist()) == (leader, similarity)


def test_thousands_of_documents_in_one_bucket_cost_no_square(tmp_path: Path) -> None:
    """All share the bucket and none is alike: each is compared with so many, and no more; how often is said."""
    n, compared = 5000, []

    def similar(doc: int, others: np.ndarray, _: np.ndarray) -> np.ndarray:
        compared.append(len(others))
        return np.zeros(len(others))

    sharers = sharers_of(np.zeros((n, 1), np.int32), np.arange(n), np.zeros((n, 1), np.uint32))
    stars = clusters.greedy_stars([sharers], n, similar, 0.5, 0.8, tmp_path)
    assert stars.leader.tolist() == list(range(n))
    assert max(compared) == MAX_LEADERS_IN_BUCKET
    assert stars.full == n - MAX_LEADERS_IN_BUCKET


def same_bands(signed: np.ndarray, groups: np.ndarray) -> list[tuple[list[int], int]]:
    """The documents of each band of 2 of 3 that several share, and which band it is, in Python."""
    want: dict[tuple[int, ...], list[int]] = {}
    for doc, row in enumerate(signed.tolist()):
        for band in range(3):
            want.setdefault((band, int(groups[doc]), *row[2 * band : 2 * band + 2]), []).append(doc)
    return sorted((members, key[0]) for key, members in want.items() if len(members) > 1)


@pytest.mark.parametrize("keys", [1 << 21, 64])
@pytest.mark.parametrize("size", [1 << 20, 1])
@pytest.mark.parametrize("values", [4, 40])
def test_buckets_are_those_of_equal_bands(keys: int, size: int, values: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banding, "_PARTITION_KEYS", keys)
    monkeypatch.setattr(banding, "_PARTITION_BYTES", size)
    rng = np.random.default_rng(0)
    signed = rng.integers(0, values, (300, 6)).astype(np.uint32)
    groups, rank = rng.integers(0, 2, 300).astype(np.uint64), rng.permutation(300)
    sharing = find_sharers(Work(lambda: blocks(signed), rank, groups), Bands(3, 2), tmp_path)
    all_found, seen = [], list[int]()
    for got in sharing:
        found: dict[int, list[int]] = {}
        for i, doc in enumerate(got.docs.tolist()):
            assert got.signatures[got.rows[i]].tolist() == signed[doc].tolist()
            for bucket in got.buckets[got.starts[i] : got.starts[i + 1]].tolist():
                found.setdefault(bucket, []).append(doc)
        all_found += [sorted(members) for members in found.values()]
        assert got.sizes.tolist() == [len(found[bucket]) for bucket in range(len(found))]
        assert rank[got.docs].tolist() == sorted(rank[got.docs].tolist())
        assert got.groups.tolist() == groups[got.docs].tolist()
        seen += got.docs.tolist()
    assert sorted(all_found) == [members for members, _ in same_bands(signed, groups)]
    assert seen == sharing.docs.tolist()
    assert len(set(seen)) == len(seen)
    assert (len(sharing.bounds) > 20) == (size == 1 and values == 40)  # two groups of documents that all hang together, or many small ones
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1 << 20, 500, 1])
def test_how_documents_fall_into_partitions_changes_nothing(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banding, "_PARTITION_BYTES", size)
    monkeypatch.setattr(clusters, "_HELD_BYTES", 1000)
    monkeypatch.setattr(clusters, "_STEP", 3)
    rng = np.random.default_rng(5)
    bases = rng.integers(0, 1 << 32, (150, 6), np.uint32)
    signed = np.where(rng.random((600, 6)) < 0.2, rng.integers(0, 1 << 32, (600, 6), np.uint32), bases[rng.integers(0, 150, 600)])
    rank, groups = rng.permutation(600), np.zeros(600, np.uint64)
    buckets = np.full((600, 3), -1, np.int32)
    for number, (members, band) in enumerate(same_bands(signed, groups)):
        buckets[members, band] = number
    leader, similarity = plain_stars(
        buckets, rank, lambda doc, other: float((signed[doc] == signed[other]).mean()), 0.6, MAX_LEADERS_IN_BUCKET
    )
    sharing = find_sharers(Work(lambda: blocks(signed), rank, NO_GROUPS), Bands(3, 2), tmp_path)
    got = clusters.greedy_stars(sharing, 600, lambda _, __, shares: shares, 0.6, 0.6, tmp_path)
    assert (got.leader.tolist(), got.similarity.tolist()) == (leader, pytest.approx(similarity))
    assert sum(i != doc for doc, i in enumerate(leader)) > 100


def test_documents_of_different_groups_are_not_compared() -> None:
    texts = pa.array([" ".join(f"w{i}" for i in range(50))] * 4, pa.large_string())
    stars = stars_of(texts, np.arange(4), MinHashParams(), groups=np.array([1, 2, 1, 2], np.uint64))
    assert stars.leader.tolist() == [0, 1, 0, 1]


def test_similarities_are_kept_for_the_next_run_and_those_that_nobody_asks_for_are_forgotten(tmp_path: Path) -> None:
    texts = np.arange(20, dtype=np.uint64).reshape(10, 2)
    path = tmp_path / "pairs.bin"
    first = Similarities(path, texts)
    for i in range(9):
        first.put(i, i + 1, i / 10)
    first.close()
    with path.open("ab") as stream:
        stream.write(b"cut off")  # a run was killed here
    second = Similarities(path, texts[::-1].copy())  # the same texts in another order
    assert [second.get(8 - i, 9 - i) for i in range(5)] == [i / 10 for i in range(5)]
    assert second.get(0, 9) is None
    second.put(0, 9, 0.5)
    second.close()
    third = Similarities(path, texts)
    assert [third.get(i, i + 1) for i in range(9)] == [0.0, 0.1, 0.2, 0.3, 0.4, None, None, None, None]
    assert third.get(9, 0) == 0.5


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("miss_weight", [0.5, 0.9])
def test_chosen_bands_are_those_of_datasketch(threshold: float, miss_weight: float) -> None:
    datasketch = pytest.importorskip("datasketch.lsh")
    want = datasketch._optimal_param(threshold, 112, 1 - miss_weight, miss_weight)
    got = chosen_bands(threshold, 112, miss_weight)
    assert (got.bands, got.rows) == want


def test_the_probability_is_the_published_one() -> None:
    """FineWeb's bands: arXiv:2406.17557, 3.4."""
    got = [round(MinHashParams().cut().probability(s), 2) for s in (0.70, 0.75, 0.80)]
    assert got == [0.56, 0.77, 0.92]
    assert round(MinHashParams().cut().probability(0.85), 3) == 0.988


def test_params_are_checked() -> None:
    assert DedupParams.parse(None, where="dedup").minhash == MinHashParams()
    with pytest.raises(ParamsError, match="did you mean 'threshold'"):
        DedupParams.parse({"minhash": {"treshold": 0.8}}, where="dedup")


@pytest.mark.slow
def test_editions_of_a_real_book_against_brute_force(shared_data: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(shared_data / "duplicates" / "rust_book_editions" / "rust_book_editions.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    pages = {p.read_text(encoding="utf-8") for p in tmp_path.rglob("*.md")}
    texts = {f"{i:032x}": text for i, text in enumerate(sorted(pages))}
    params = MinHashParams(threshold=0.8)
    got = search(texts, params).to_pylist()
    values, bounds = minhash.minhash.shingle_sets(pa.array(list(texts.values()), pa.large_string()), words=5)
    sets = {name: set(values[bounds[i] : bounds[i + 1]].tolist()) for i, name in enumerate(texts)}
    dropped = {row["doc_id"] for row in got if not row["kept"]}
    assert all(jaccard(sets[r["doc_id"]], sets[r["representative"]]) == pytest.approx(r["similarity"]) for r in got)
    names = list(texts)
    sized = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if 0.8 <= len(sets[a]) / max(len(sets[b]), 1) <= 1.25]
    near = [(a, b) for a, b in sized if jaccard(sets[a], sets[b]) >= 0.8]
    assert len(near) > 50
    assert sum(a not in dropped and b not in dropped for a, b in near) == 0
