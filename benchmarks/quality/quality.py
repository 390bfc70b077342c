"""How well quality is told: the trained classifier beside perplexity alone and Gopher's rules alone, against human labels.

    python -m benchmarks.quality quality --data FOLDER [--json]

`auc` is that of a ranking of the labelled documents. The classifier is cross-validated within them; the perplexity is that of
a model trained on the books, wiki and technical texts of the same language in corpus.tar.xz; Gopher's score is the number of
its rules (both sets) that fail; `all` is a logistic regression over the three, cross-validated too. `interval` is the 95%
bootstrap interval of the classifier's advantage: few hundred documents leave wide ones.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.quality.show import show_rows
from dataplane.annotators.text_signals import TextSignals
from dataplane.annotators.web_topics import TOPICS, WebTopics
from dataplane.corpus.classification import auc
from dataplane.corpus.linear_model import TrainParams, fold_of, out_of_fold
from dataplane.corpus.ngram_lm import TrainLmParams
from dataplane.corpus.ngram_lm import train as train_lm
from dataplane.kernels.linear_model import matrix
from dataplane.kernels.logistic import Sparse
from dataplane.ruleset import load_rule_set

F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
FOLDS, BOOTSTRAPS = 10, 2000
TRUSTED = {"en": r"rust_book_en|pride_|alice_", "zh": r"niutrans_zh|d2l_zh|oiwiki|rust_book_zh"}
LM_BYTES = 8_000_000


def texts(values: Sequence[str]) -> pa.Array:
    return pa.array(values, pa.large_string())


def jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def trusted(corpus: Path, lang: str) -> pa.RecordBatch:
    with tarfile.open(corpus) as archive:
        members = [m for m in archive if m.isfile() and re.search(TRUSTED[lang], m.name)]
        found = [archive.extractfile(m).read().decode("utf-8", "replace") for m in members]  # type: ignore[union-attr]
    return pa.record_batch({"source": ["corpus"] * len(found), "text": texts(found)})


def perplexity(corpus: Path, lang: str, text: pa.Array) -> F64:
    params = TrainLmParams.parse({"max_bytes": LM_BYTES}, where="benchmark")
    log_probs, counts = train_lm([trusted(corpus, lang)], params).score(text)
    return -log_probs / np.maximum(counts, 1)


def failing_rules(text: pa.Array, lang: str) -> F64:
    """How many of Gopher's rules each document fails."""
    operator = TextSignals({})
    operator.open()
    batch = pa.record_batch({name: text if name == "text" else pa.nulls(len(text), kind) for name, kind in TextSignals.reads.items()})
    signals = operator.annotate(batch)
    struct = pa.StructArray.from_arrays([pa.array(array) for array in signals.values()], names=list(signals))
    language = pa.StructArray.from_arrays([pa.array([lang] * len(text))], names=["lang"])
    documents = pa.table({"text_signals": struct, "language": language, "kind": ["web"] * len(text)})  # noqa: F841  # DuckDB sees it
    rules = [rule for name in ("gopher_quality", "gopher_repetition") for rule in load_rule_set(name).resolve().predicates().values()]
    total = " + ".join(f"coalesce({rule}, false)::INT" for rule in rules)
    return np.asarray(duckdb.sql(f"SELECT {total} AS n FROM documents").fetchnumpy()["n"], np.float64)


def classifier(text: pa.Array, good: Bools) -> F64:
    params = TrainParams()
    documents = Sparse(*matrix(text, params.features()), 1 << params.bits)
    return out_of_fold(documents, good, fold_of(text, FOLDS), params.c)


def together(scores: Mapping[str, F64], good: Bools, folds: npt.NDArray[np.int64]) -> F64:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = np.stack(list(scores.values()), axis=1)
    out = np.zeros(len(good))
    for fold in np.unique(folds):
        inside = folds == fold
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(columns[~inside], good[~inside])
        out[inside] = model.decision_function(columns[inside])
    return out


def interval(ours: F64, theirs: F64, good: Bools) -> list[float]:
    """95% of the differences in AUC over resamplings of the documents."""
    draw = np.random.default_rng(0)
    found = []
    for _ in range(BOOTSTRAPS):
        rows = draw.integers(0, len(good), len(good))
        found.append(auc(ours[rows], good[rows]) - auc(theirs[rows], good[rows]))
    return [round(float(value), 3) for value in np.percentile(found, [2.5, 97.5])]


def compared(name: str, data: Path, lang: str, text: pa.Array, good: Bools) -> Iterator[dict[str, Any]]:
    scores = {"classifier": classifier(text, good), "gopher": -failing_rules(text, lang)}
    corpus = data / "corpus.tar.xz"
    if corpus.is_file():
        scores["perplexity"] = -perplexity(corpus, lang, text)
    scores["all"] = together(scores, good, fold_of(text, FOLDS))
    ranked = {f"auc_{of}": round(auc(score, good), 3) for of, score in scores.items()}
    gains = {f"interval_over_{of}": interval(scores["classifier"], scores[of], good) for of in ("gopher", "perplexity") if of in scores}
    yield {"name": name, "documents": len(good), "good": int(good.sum())} | ranked | gains


def topics(path: Path) -> Iterator[dict[str, Any]]:
    """How many pages of an unlabelled Chinese crawl the topics would drop, with the first title of each."""
    pages = jsonl(path)
    operator = WebTopics()
    operator.open()
    found = operator.annotate(pa.record_batch({"text": texts([page["raw_content"] for page in pages])}))
    for topic in TOPICS:
        limit = getattr(operator.params, f"max_{topic}")
        over = (found[f"n_{topic}"].to_numpy() >= operator.params.min_hits) & (found[topic].to_numpy() > limit)
        first = [page["title"] for page, hit in zip(pages, over, strict=True) if hit][:1]
        yield {"name": f"Chinese crawl, {topic}", "documents": len(pages), "dropped": int(over.sum()), "first": first}


def rows(data: Path) -> Iterator[dict[str, Any]]:
    human = jsonl(data / "quality" / "dclm_human" / "majority_minus_agreement.jsonl")
    good = np.array([str(row["label"]) == "1" for row in human])
    yield from compared("DCLM, human labels (English)", data, "en", texts([row["text"] for row in human]), good)
    folder = data / "quality" / "chinese_web_text"
    sides = [jsonl(folder / f"{side}.jsonl") for side in ("clean", "dirty")]
    both = texts([row["text"] for side in sides for row in side])
    yield from compared("ChineseWebText, clean and dirty", data, "zh", both, np.repeat([True, False], [len(side) for side in sides]))
    yield from topics(folder / "cleared1.jsonl")


def main(argv: list[str]) -> None:
    show_rows(__doc__, rows, argv)
