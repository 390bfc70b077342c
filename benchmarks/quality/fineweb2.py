"""How often the rule set fineweb2 decides as datatrove's filters with FineWeb2's arguments do, document by document, by language.

    python -m benchmarks.quality fineweb2 --data FOLDER [--lang de ...] [--words exact] [--limit N] [--peer PYTHON] [--json]

FOLDER has the layout of the public data sets: pages of html/, the Universal Declaration of Human Rights in parts of 6 and of 14 lines,
TyDi's passages of Wikipedia and Chinese web text are taken, each in the language that it is named for or that `language` finds. Or it
holds LANG.jsonl with a column `text`. PYTHON is the interpreter of an environment with datatrove 0.10.1, spacy, jieba and
indic-nlp-library (`make bench-setup`).
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.quality import html
from benchmarks.quality.html_sets import gne, readability, segments, wcxb
from benchmarks.quality.parity import DEFAULT_PEER, compared, decisions, theirs
from benchmarks.quality.quality import jsonl
from benchmarks.quality.udhr import declarations
from dataplane.annotators.text_signals import TextSignals, published_stop_words
from dataplane.registry import operator_class
from dataplane.ruleset import load_rule_set

NAME = "fineweb2"
LABELS = {
    "ar": "arb_Arab", "da": "dan_Latn", "de": "deu_Latn", "el": "ell_Grek", "fa": "fas_Arab", "fr": "fra_Latn", "hi": "hin_Deva",
    "hu": "hun_Latn", "it": "ita_Latn", "ro": "ron_Latn", "ru": "rus_Cyrl", "sv": "swe_Latn", "zh": "cmn_Hani",
}  # fmt: skip
DECLARATIONS = {label.partition("_")[0]: lang for lang, label in LABELS.items()} | {"pes": "fa", "prs": "fa"}
PART_LINES = (6, 14)
MIN_SCORE = 0.65
# What `text_signals` and the rule set are given for each way to count words; segmented and exact words are words in Chinese too.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reference": ({}, {}),
    "paper": ({"words": "paper"}, {}),
    "segment": ({"cjk": "segment"}, {"min_cjk_share": 2.0}),
    "exact": ({"words": "exact"}, {"min_cjk_share": 2.0}),
}


def documents(data: Path) -> dict[str, list[str]]:
    """Language -> its documents, each once."""
    given = {lang: path for lang in LABELS if (path := data / f"{lang}.jsonl").is_file()}
    if given:
        return {lang: [row["text"] for row in jsonl(path) if row["text"].strip()] for lang, path in given.items()}
    found: dict[str, dict[str, None]] = {lang: {} for lang in LABELS}
    for lang, text in [*_named(_pages(data)), *_parts(data), *_named(_passages(data)), *(("zh", text) for text in _chinese(data))]:
        if text.strip():
            found[lang][text] = None
    return {lang: list(texts) for lang, texts in found.items() if texts}


def _pages(data: Path) -> list[str]:
    """The main content of pages."""
    extract = html.ours()
    return [text for pages in (wcxb, segments, readability, gne) for page in pages(data) if (text := extract(page.html))]


def _parts(data: Path) -> Iterator[tuple[str, str]]:
    for declaration in declarations(data):
        lines = declaration.text.split("\n")
        if lang := DECLARATIONS.get(declaration.iso6393):
            yield from ((lang, "\n".join(lines[i : i + size])) for size in PART_LINES for i in range(0, len(lines), size))


def _passages(data: Path) -> list[str]:
    with gzip.open(data / "instruct/tydiqa_tiny/tiny_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["document_plaintext"] for line in lines]


def _chinese(data: Path) -> Iterator[str]:
    yield from (row["text"] for side in ("clean", "dirty") for row in jsonl(data / f"quality/chinese_web_text/{side}.jsonl"))


def _named(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each text with the language that it is in, where the model is sure of one of ours."""
    known = list(texts)
    operator = operator_class("language")({})
    operator.open()
    made = operator.annotate(pa.record_batch({"text": pa.array(known, pa.large_string())}))  # type: ignore[attr-defined]
    for text, lang, score in zip(known, made["lang"].to_pylist(), made["score"].to_pylist(), strict=True):
        if lang in LABELS and score >= MIN_SCORE:
            yield lang, text


def arguments(lang: str) -> dict[str, Any]:
    """The numbers of the rule set as arguments of datatrove's filters."""
    of = {name: value[lang] if isinstance(value, dict) else value for name, value in _numbers().items()}
    return {
        "language": LABELS[lang],
        "repetition": {
            "dup_line_frac": of["max_duplicate_line_share"],
            "top_n_grams": [[n, of[f"max_top_{n}_gram_share"]] for n in (2, 3, 4)],
            "dup_n_grams": [[n, of[f"max_duplicate_{n}_gram_share"]] for n in range(5, 11)],
        },
        "fineweb": {"line_punct_thr": of["min_terminal_line_share"], "new_line_ratio": of["max_newline_ratio"]},
        "quality": {
            "min_avg_word_length": of["min_mean_word_length"],
            "max_avg_word_length": of["max_mean_word_length"],
            "max_non_alpha_words_ratio": of["min_alphabetic_word_share"],
            "stop_words": published_stop_words(NAME)[lang],
        },
    }


def _numbers() -> dict[str, Any]:
    named = load_rule_set(NAME).resolve().params.items()
    return {name: value for name, value in named if isinstance(value, dict) and "de" in value}


def rows(texts: Sequence[str], lang: str, ways: Sequence[str], peer: Path) -> Iterator[dict[str, Any]]:
    """A row for each way to count words."""
    other = [{NAME: ",".join(filter(None, row.values()))} for row in theirs(texts, peer, "--fineweb2", json.dumps(arguments(lang)))]
    for way in ways:
        counted, limits = WAYS[way]
        signals = TextSignals({"stop_words": NAME, "tokenizer_language": lang} | counted)
        predicates = load_rule_set(NAME).resolve({"count_single_grams": True} | limits).predicates()
        for row in compared(decisions(texts, lang, signals, {NAME: predicates}), other, way):
            yield row | {"name": f"{NAME}/{lang}"}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality fineweb2", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lang", action="append", choices=sorted(LABELS), help="all if left out")
    parser.add_argument("--words", action="append", choices=list(WAYS), help="how words are counted; reference if left out")
    parser.add_argument("--limit", type=int, default=10**9, help="documents of each language")
    parser.add_argument("--peer", type=Path, default=DEFAULT_PEER, help="interpreter with datatrove")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(argv)
    for lang, texts in documents(chosen.data).items():
        if not chosen.lang or lang in chosen.lang:
            for row in rows(texts[: chosen.limit], lang, chosen.words or ["reference"], chosen.peer):
                shown = " ".join(f"{key}={value}" for key, value in row.items())
                print(json.dumps(row, ensure_ascii=False) if chosen.json else shown, flush=True)
