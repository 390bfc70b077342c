"""How often the language of a text is named rightly: the Universal Declaration by paragraph, MGSM by problem, Han text by script.

    python -m benchmarks.quality language --data FOLDER [--json]

A model is scored on the languages that it has (`of its languages`) and on all. Right is the same language by ISO 639; `cmn`, `zho` and
`zh` are one.
"""

from __future__ import annotations

import argparse
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.quality.udhr import declarations

MODELS = ("lid.176", "py3langid")
MIN_CHARS, MIN_HAN_CHARS = 40, 15
PARAGRAPHS = 10  # of each declaration, so that no language counts for more than another
SCRIPTS = {"cmn_hans": "Hans", "cmn_hant": "Hant", "jpn": "Jpan"}


def labelled(data: Path) -> Iterator[tuple[str, str, str]]:
    """(set, language as BCP 47 without script, text)."""
    for found in declarations(data):
        least = MIN_HAN_CHARS if found.stem in SCRIPTS else MIN_CHARS
        lines = [line for line in found.text.split("\n") if len(line) >= least]
        for line in lines[:PARAGRAPHS]:
            yield "udhr", found.lang.partition("-")[0], line
    with tarfile.open(data / "language/mgsm/mgsm.tar.xz") as archive:
        for name in archive.getnames():
            stream = archive.extractfile(name) if name.endswith(".tsv") and "mgsm_" in name else None
            for line in stream.read().decode("utf-8").splitlines() if stream else ():
                yield "mgsm", name.rpartition("_")[2].removesuffix(".tsv"), line.split("\t")[0]


def score(model: str, rows: list[tuple[str, str, str]]) -> Iterator[dict[str, object]]:
    """One row for each set."""
    from dataplane.annotators.language import Language

    operator = Language({"model": model})
    operator.open()
    texts = pa.array([text for _, _, text in rows], pa.large_string())
    named = operator.annotate(pa.record_batch({"text": texts}))["lang"].to_pylist()
    has = set(named)  # a language that the model never names is not among its labels, or as good as not
    for name in ("udhr", "mgsm"):
        pairs = [(want, got) for (origin, want, _), got in zip(rows, named, strict=True) if origin == name]
        known = [(want, got) for want, got in pairs if want in has]
        right = sum(want == got for want, got in pairs)
        yield {
            "name": f"language/{model}/{name}", "texts": len(pairs), "accuracy": round(right / len(pairs), 4),
            "languages_named": len({want for want, _ in known}), "accuracy_of_its_languages": round(right / len(known), 4),
        }  # fmt: skip


def script_row(data: Path) -> dict[str, object]:
    """Script of each paragraph in Chinese and Japanese."""
    from dataplane.annotators.han import scripts

    pairs = [
        (SCRIPTS[d.stem], line)
        for d in declarations(data)
        if d.stem in SCRIPTS
        for line in d.text.split("\n")
        if len(line) >= MIN_HAN_CHARS
    ]
    got = scripts([line for _, line in pairs])
    right = sum(want == found for (want, _), found in zip(pairs, got, strict=True))
    return {"name": "language/script", "texts": len(pairs), "accuracy": round(right / len(pairs), 4)}


def main(arguments: list[str]) -> None:
    """Prints one line for each model and set, and one for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with language/")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    options = parser.parse_args(arguments)
    rows = list(labelled(options.data))
    for row in [row for model in MODELS for row in score(model, rows)] + [script_row(options.data)]:
        print(json.dumps(row) if options.json else f"{row['name']:30} {row}")
