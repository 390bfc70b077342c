"""Near-duplicates against brute force: precision 1, recall as the formula says, no chains, blind to order."""

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.corpus import clusters, minhash
from dataplane.corpus.exact import survival_rank
from dataplane.corpus.minhash import DedupParams, MinHashParams, bucket_ids, candidate_probability, find_duplicates, signatures
from dataplane.errors import ParamsError


def shingle_set(text: str, k: int = 5) -> set[tuple[str, ...]]:
    """Own definition: lower-case ASCII words and single Han characters."""
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower())
    return {tuple(words[i : i + k]) for i in range(max(len(words) - k, 0) + 1)} if words else set()


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def search(texts: dict[str, str], params: MinHashParams, asked: list[int] | None = None) -> pa.Table:
    ids, column = pa.array(list(texts)), pa.array(list(texts.values()), pa.large_string())
    rank = survival_rank(ids, pa.array(["s"] * len(ids)), pa.array([len(t.encode()) for t in texts.values()]), [])

    def texts_of(wanted: np.ndarray) -> pa.Array:
        if asked is not None:
            asked.extend(wanted.tolist())
        return column.take(pa.array(wanted))

    return find_duplicates(ids, signatures(column, params), rank, texts_of, params)


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
    missed = sum(1 - candidate_probability(s, params) for _, _, s in near)
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
    got = find_duplicates(pa.array(list(texts)), signatures(column, params), rank, lambda i: column.take(pa.array(i)), params)
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


def test_thousands_of_documents_in_one_bucket_cost_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """All share the bucket and none is alike: each is compared with so many, and no more."""
    n, compared = 5000, []
    buckets = np.zeros((n, 1), np.int32)

    def similar(doc: int, others: np.ndarray) -> np.ndarray:
        compared.append(len(others))
        return np.zeros(len(others))

    leader, _ = clusters.greedy_stars(buckets, np.arange(n), similar, 0.8)
    assert leader.tolist() == list(range(n))
    assert max(compared) == clusters.MAX_LEADERS_IN_BUCKET


def test_buckets_are_those_of_equal_bands() -> None:
    rng = np.random.default_rng(0)
    signed = rng.integers(0, 3, (200, 6)).astype(np.uint32)
    got = bucket_ids(signed, MinHashParams(bands=3, rows=2))
    for band in range(3):
        keys = [tuple(row) for row in signed[:, 2 * band : 2 * band + 2].tolist()]
        for i in range(200):
            same = [j for j in range(200) if keys[j] == keys[i]]
            assert got[i, band] == -1 if len(same) == 1 else set(np.flatnonzero(got[:, band] == got[i, band])) == set(same)
    shared = got[got >= 0]
    assert len({(value, band) for band in range(3) for value in got[:, band] if value >= 0}) == len(set(shared.tolist()))


def test_the_probability_is_the_published_one() -> None:
    """FineWeb's bands: arXiv:2406.17557, 3.4."""
    got = [round(candidate_probability(s, MinHashParams()), 2) for s in (0.70, 0.75, 0.80)]
    assert got == [0.56, 0.77, 0.92]
    assert round(candidate_probability(0.85, MinHashParams()), 3) == 0.988


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
