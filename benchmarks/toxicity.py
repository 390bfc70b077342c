"""MB of UTF-8 per CPU second on one core: word lists, the classifier, block lists; beside what does the same elsewhere.

    python benchmarks/toxicity.py [--quick] [--corpus FOLDER]

Prints one JSON object a line. Word lists: the kernel beside an Aho-Corasick automaton in Rust over lower-cased Python strings, without
word borders, folds or evasions. Classifier: features and score beside scikit-learn's HashingVectorizer (character 1- to
4-grams) and a matrix product. Block list: addresses per second in a list of a million domains, beside a Python set. The corpus is
the text files of a folder; without one, Python's own documentation strings, and for Chinese the packaged lists themselves, where
every line is a hit: measure Chinese with --corpus.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds
from dataplane.annotators.toxicity import PACKAGED, Toxicity
from dataplane.annotators.url_blocklist import UrlBlocklist
from dataplane.annotators.word_lists import packaged, read_terms
from dataplane.kernels.linear_model import Features, Model

REPEATS, QUICK_REPEATS = 5, 2
MB = 1_000_000
DOMAINS, QUICK_DOMAINS = 1_000_000, 100_000


def row(name: str, amount: float, unit: str, ours: float, peer: float, peer_name: str, peer_version: str) -> dict[str, Any]:
    rates = {"ours": round(amount / ours, 1), "peer": round(amount / peer, 1)}
    return {"name": name, **rates, "peer_name": peer_name, "peer_version": peer_version, "ratio": round(peer / ours, 1), "unit": unit}


def word_lists(text: pa.Array, name: str, repeats: int) -> dict[str, Any]:
    import ahocorasick_rs

    operator = Toxicity()
    operator.open()
    batch = pa.record_batch({"text": text})
    terms = [term.lower() for file in PACKAGED for term in read_terms(packaged(file))]
    automaton = ahocorasick_rs.AhoCorasick(terms, implementation=ahocorasick_rs.Implementation.DFA)

    def peer() -> list[int]:
        return [len(automaton.find_matches_as_indexes(value.lower())) for value in text.to_pylist()]

    taken = (cpu_seconds(lambda: operator.annotate(batch), repeats), cpu_seconds(peer, repeats))
    return row(f"word lists, {name}", text.nbytes / MB, "MB/s", *taken, "ahocorasick_rs", version("ahocorasick_rs"))


def classifier(text: pa.Array, name: str, repeats: int) -> dict[str, Any]:
    from sklearn.feature_extraction.text import HashingVectorizer

    features = Features(max_chars=1 << 30)
    weights = np.random.default_rng(0).normal(size=(1 << features.bits, 1)).astype(np.float32)
    model = Model(features, ("any",), weights, np.zeros(1), np.ones(1), np.zeros(1))
    vectorizer = HashingVectorizer(analyzer="char", ngram_range=(1, features.char_n), n_features=1 << features.bits)

    def peer() -> Any:
        return vectorizer.transform(text.to_pylist()) @ weights

    taken = (cpu_seconds(lambda: model.probabilities(text), repeats), cpu_seconds(peer, 1))
    return row(f"classifier, {name}", text.nbytes / MB, "MB/s", *taken, "scikit-learn", version("scikit-learn"))


def block_list(n: int, repeats: int) -> dict[str, Any]:
    from urllib.parse import urlsplit

    domains = [f"site{i * 7919 % n}.example{i % 97}.com" for i in range(n)]
    urls = [f"https://www.{domain}/page?id={i}" for i, domain in enumerate(domains[:50_000])]
    urls += [url.replace("site", "fine") for url in urls]
    blocked = set(domains)

    def suffixes(url: str) -> bool:
        host = urlsplit(url).hostname or ""
        return any(host.split(".", skip)[-1] in blocked for skip in range(host.count(".") + 1))

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "adult").mkdir()
        (Path(folder) / "adult" / "domains").write_text("\n".join(domains))
        operator = UrlBlocklist({"path": folder})
        operator.open()
    batch = pa.record_batch({"url": pa.array(urls)})
    found = int((operator.annotate(batch)["categories"].value_lengths().to_numpy() > 0).sum())
    if found != sum(map(suffixes, urls)):
        sys.exit("the block list and the plain set do not agree")
    taken = (cpu_seconds(lambda: operator.annotate(batch), repeats), cpu_seconds(lambda: [suffixes(url) for url in urls], 1))
    return row(f"block list of {n:,} domains", len(urls) / 1000, "1,000 addresses/s", *taken, "Python set", sys.version.split()[0])


def documents(folder: Path | None) -> dict[str, pa.Array]:
    """Texts in English and in Chinese, by their share of ASCII."""
    if folder is None:
        english = [module.__doc__ for module in list(sys.modules.values()) if module.__doc__]
        chinese = [file.read_text(encoding="utf-8") for file in Path(str(packaged(""))).glob("*_zh.txt")]
        sides = {"English": english * 20, "Chinese": chinese * 200}
    else:
        found = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*")) if path.suffix in (".txt", ".md")]
        ascii_share = [sum(char < "\x80" for char in text[:2000]) / max(1, len(text[:2000])) for text in found]
        sides = {"English": [], "Chinese": []}
        for text, share in zip(found, ascii_share, strict=True):
            sides["English" if share > 0.95 else "Chinese"].append(text)
    return {name: pa.array(texts, pa.large_string()) for name, texts in sides.items() if texts}


def rows(folder: Path | None, quick: bool) -> Iterator[dict[str, Any]]:
    repeats = QUICK_REPEATS if quick else REPEATS
    for name, text in documents(folder).items():
        yield word_lists(text, name, repeats)
        yield classifier(text, name, repeats)
    yield block_list(QUICK_DOMAINS if quick else DOMAINS, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and a smaller list")
    parser.add_argument("--corpus", type=Path, help="folder of .txt and .md files")
    arguments = parser.parse_args()
    for found in rows(arguments.corpus, arguments.quick):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
