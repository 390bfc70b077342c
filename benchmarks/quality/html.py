"""Main content of pages: quality and speed of html_text, trafilatura and resiliparse, side by side in one run.

Each set has its own measure: word F1 (characters in Chinese) on wcxb_dev and readability, F1 of runs of four words on zyte, F1 of wanted
and unwanted segments on trafilatura_eval, and on gne_zh, which has no gold, word F1 against trafilatura.
"""

import argparse
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.quality.html_sets import MIME, SETS, Page
from dataplane.transforms.html_text import HtmlText

TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
RUN = 4
Extract = Callable[[str], str]


def ours(extractor: str = "cascade") -> Extract:
    operator = HtmlText({"extractor": extractor})

    def extract(html: str) -> str:
        batch = pa.record_batch({"text": pa.array([html], pa.large_string()), "mime": [MIME]})
        return operator.transform(batch).text[0].as_py()

    return extract


def trafilatura() -> Extract:
    import trafilatura

    return lambda html: trafilatura.extract(html, include_comments=False, include_tables=True, deduplicate=False) or ""


def resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda html: extract_plain_text(html, main_content=True, alt_texts=False, preserve_formatting=True)


def words(text: str) -> list[str]:
    return TOKEN.findall(text.lower())


def f1(got: str, want: str) -> float:
    """F1 of the two bags of words."""
    found, gold = Counter(words(got)), Counter(words(want))
    total = found.total() + gold.total()
    return 2 * (found & gold).total() / total if total else 1.0


def mean_f1(texts: Sequence[str], pages: Sequence[Page]) -> float:
    """Mean over pages of the F1 of words."""
    return statistics.mean(f1(text, page.gold or "") for text, page in zip(texts, pages, strict=True))


def run_f1(texts: Sequence[str], pages: Sequence[Page]) -> float:
    """F1 of mean precision and mean recall of the runs of four words: the measure of the Zyte benchmark."""
    precisions, recalls = [], []
    for text, page in zip(texts, pages, strict=True):
        found, gold = _runs(text), _runs(page.gold or "")
        right = (found & gold).total()
        if found:
            precisions.append(right / found.total())
        recalls.append(right / max(1, gold.total()))
    return _harmonic(statistics.mean(precisions or [0.0]), statistics.mean(recalls))


def _runs(text: str) -> Counter[tuple[str, ...]]:
    found = words(text)
    return Counter(tuple(found[at : at + RUN]) for at in range(max(1, len(found) - RUN + 1)) if found)


def segment_f1(texts: Sequence[str], pages: Sequence[Page]) -> float:
    """F1 over all segments: wanted ones that are there against unwanted ones that are there too."""
    right = wrong = wanted = 0
    for text, page in zip(texts, pages, strict=True):
        folded = " ".join(text.split())
        right += sum(" ".join(segment.split()) in folded for segment in page.wanted)
        wrong += sum(" ".join(segment.split()) in folded for segment in page.unwanted)
        wanted += len(page.wanted)
    return _harmonic(right / max(1, right + wrong), right / max(1, wanted))


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


MEASURES = {"zyte": run_f1, "trafilatura_eval": segment_f1}


def timed(extract: Extract, pages: Sequence[Page]) -> tuple[list[str], float]:
    extract(pages[0].html)  # imports are no work
    start = time.process_time()
    texts = [extract(page.html) for page in pages]
    return texts, time.process_time() - start


def by_kind(measure: Callable[[Sequence[str], Sequence[Page]], float], texts: list[str], pages: list[Page]) -> dict[str, float]:
    """The measure of all pages, and of each kind where there are several."""
    kinds = sorted({page.kind for page in pages})
    scores = {"all": measure(texts, pages)}
    for kind in kinds if len(kinds) > 1 else ():
        chosen = [at for at, page in enumerate(pages) if page.kind == kind]
        scores[kind] = measure([texts[at] for at in chosen], [pages[at] for at in chosen])
    return {kind: round(score, 4) for kind, score in scores.items()}


def rows(folder: Path, names: Sequence[str], half: int | None) -> Iterator[dict[str, Any]]:
    """One row a set and extractor."""
    makers = {"html_text cascade": ours(), "trafilatura": trafilatura(), "resiliparse": resiliparse()}
    for name in names:
        pages = list(SETS[name](folder))[half :: 1 if half is None else 2]
        n_bytes = sum(len(page.html.encode("utf-8", "replace")) for page in pages)
        found = {maker: timed(extract, pages) for maker, extract in makers.items()}
        if name == "gne_zh":
            pages = [replace(page, gold=text) for page, text in zip(pages, found["trafilatura"][0], strict=True)]
        measure = MEASURES.get(name, mean_f1)
        for maker, (texts, seconds) in found.items():
            package = "terraplane" if maker.startswith("html_text") else maker
            yield {
                "name": "html", "set": name, "extractor": maker, "version": version(package), "pages": len(pages), "half": half,
                "measure": measure.__name__, "against": "agreement with trafilatura" if name == "gne_zh" else "gold",
                "f1": by_kind(measure, texts, pages), "empty": texts.count(""),
                "mb_per_second": round(n_bytes / 1e6 / seconds, 2), "ratio_to_trafilatura": round(found["trafilatura"][1] / seconds, 2),
            }  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder in the layout of the public data sets")
    parser.add_argument("--set", choices=list(SETS), action="append", help="these sets alone")
    parser.add_argument("--half", type=int, choices=[0, 1], help="every second page: one half to develop on, the other to report")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    options = parser.parse_args(arguments)
    for row in rows(options.data, options.set or list(SETS), options.half):
        print(json.dumps(row, ensure_ascii=False) if options.json else _line(row), flush=True)


def _line(row: dict[str, Any]) -> str:
    return f"{row['set']:16} {row['extractor']:18} {row['f1']['all']:.4f} {row['mb_per_second']:6} MB/s x{row['ratio_to_trafilatura']}"
