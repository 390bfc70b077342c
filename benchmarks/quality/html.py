"""Main content of pages: word F1 (characters in Chinese) and speed of html_text, trafilatura and resiliparse in one run.

Reads FOLDER/html/wcxb_dev (gold main content) and FOLDER/html/gne_zh (Chinese news without gold: agreement with trafilatura).
"""

import argparse
import gzip
import json
import re
import statistics
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from dataplane.sources.decode import decode
from dataplane.transforms.html_text import HtmlText

TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
MIME = "text/html"


@dataclass(frozen=True)
class Page:
    """One page, its kind, and the main content that people found in it; None where there is no gold."""

    html: str
    kind: str
    gold: str | None


def wcxb(folder: Path) -> Iterator[Page]:
    """The pages with gold."""
    with tarfile.open(next(folder.glob("html/wcxb_dev/*.tar.xz"))) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    for name in sorted(files):
        if "/ground-truth/" not in name:
            continue
        values = json.loads(files[name])
        gold = values["ground_truth"].get("main_content")
        if gold:
            html = gzip.decompress(files[name.replace("ground-truth", "html").replace(".json", ".html.gz")])
            yield Page(decode(html, MIME, None).text, values["_internal"]["page_type"]["primary"], gold)


def gne(folder: Path) -> Iterator[Page]:
    """Chinese news."""
    with tarfile.open(next(folder.glob("html/gne_zh/*.tar.xz"))) as archive:
        for member in archive:
            if member.name.endswith(".html"):
                yield Page(decode(archive.extractfile(member).read(), MIME, None).text, "news", None)


def ours() -> Callable[[str], str]:
    operator = HtmlText({"extractor": "cascade"})

    def extract(html: str) -> str:
        batch = pa.record_batch({"text": pa.array([html], pa.large_string()), "mime": [MIME]})
        return operator.transform(batch).text[0].as_py()

    return extract


def trafilatura() -> Callable[[str], str]:
    import trafilatura

    return lambda html: trafilatura.extract(html, include_comments=False, include_tables=True, deduplicate=False) or ""


def resiliparse() -> Callable[[str], str]:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda html: extract_plain_text(html, main_content=True, alt_texts=False, preserve_formatting=True)


def f1(got: str, want: str) -> float:
    """F1 of the two bags of words."""
    words, gold = Counter(TOKEN.findall(got.lower())), Counter(TOKEN.findall(want.lower()))
    return 2 * (words & gold).total() / max(1, words.total() + gold.total())


def timed(extract: Callable[[str], str], pages: list[Page]) -> tuple[list[str], float]:
    extract(pages[0].html)  # imports are no work
    start = time.process_time()
    texts = [extract(page.html) for page in pages]
    return texts, time.process_time() - start


def scores(texts: list[str], pages: list[Page], gold: list[str]) -> dict[str, float]:
    """Mean F1 by kind of page, and of all."""
    by_kind: dict[str, list[float]] = {"all": []}
    for text, page, want in zip(texts, pages, gold, strict=True):
        score = f1(text, want)
        by_kind["all"].append(score)
        by_kind.setdefault(page.kind, []).append(score)
    return {kind: round(statistics.mean(values), 4) for kind, values in by_kind.items()}


def rows(folder: Path) -> Iterator[dict[str, object]]:
    makers = {"html_text cascade": ours(), "trafilatura": trafilatura(), "resiliparse": resiliparse()}
    for name, read in {"wcxb_dev": wcxb, "gne_zh": gne}.items():
        pages = list(read(folder))
        n_bytes = sum(len(page.html.encode("utf-8", "replace")) for page in pages)
        found = {maker: timed(extract, pages) for maker, extract in makers.items()}
        gold = [page.gold or text for page, text in zip(pages, found["trafilatura"][0], strict=True)]
        against = "gold" if pages[0].gold else "agreement with trafilatura"
        for maker, (texts, seconds) in found.items():
            package = "terraplane" if maker.startswith("html_text") else maker
            yield {
                "name": "html", "set": name, "extractor": maker, "version": version(package),
                "pages": len(pages), "against": against, "f1": scores(texts, pages, gold), "empty": texts.count(""),
                "mb_per_second": round(n_bytes / 1e6 / seconds, 2), "ratio_to_trafilatura": round(found["trafilatura"][1] / seconds, 2),
            }  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder in the layout of the public data sets")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    options = parser.parse_args(arguments)
    for row in rows(options.data):
        print(
            json.dumps(row, ensure_ascii=False)
            if options.json
            else f"{row['set']:10} {row['extractor']:12} {row['f1']} {row['mb_per_second']} MB/s"
        )
