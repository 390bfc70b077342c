"""MB/s of UTF-8 per CPU second: removal of lines as C4 does it against datatrove, and addresses (thousands a second) against courlan.

python benchmarks/line_rules.py [--quick] [--corpus FILE_OR_FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

from importlib.metadata import version
from typing import Any

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show

BATCH_ROWS = 512
N_URLS = 20_000
URL = "http://WWW.example{}.com:80/a/./b/page{}.html?b=2&a=1&utm_source=news#part"


def ours(texts: list[str], *operators: Any) -> float:
    """CPU time of operators over the texts, in batches."""
    batches = [pa.record_batch({"text": pa.array(texts[i : i + BATCH_ROWS], pa.large_string())}) for i in range(0, len(texts), BATCH_ROWS)]
    calls = [getattr(operator, "transform", None) or operator.annotate for operator in operators]
    for call in calls:
        call(batches[0].slice(0, 1))
    return cpu_seconds(lambda: [call(batch) for call in calls for batch in batches])


def by_datatrove(texts: list[str], **arguments: Any) -> float:
    from datatrove.data import Document
    from datatrove.pipeline.filters import C4QualityFilter

    made = C4QualityFilter(**arguments)
    made.filter(Document("A warm start. It loads its models.", ""))
    return cpu_seconds(lambda: [made.filter(Document(text, "")) for text in texts])


def addresses() -> tuple[float, float]:
    """CPU time of ours and of courlan over made-up addresses."""
    from courlan import normalize_url

    from dataplane.annotators.canonical_url import CanonicalUrl

    urls = [URL.format(i % 100, i) for i in range(N_URLS)]
    operator = CanonicalUrl()
    operator.open()
    batch = pa.record_batch({"url": pa.array(urls)})
    operator.annotate(batch.slice(0, 1))
    return cpu_seconds(lambda: operator.annotate(batch)), cpu_seconds(lambda: [normalize_url(url) for url in urls])


def main() -> None:
    from dataplane.annotators.text_signals import TextSignals
    from dataplane.transforms.c4_lines import C4Lines
    from dataplane.transforms.refinedweb_lines import RefinedwebLines

    texts = documents(options(__doc__))
    size = sum(len(text.encode()) for text in texts) / 1e6
    peer = ("datatrove C4QualityFilter", version("datatrove"))
    lines = by_datatrove(texts, min_num_sentences=-1, filter_lorem_ipsum=False, filter_curly_bracket=False)
    whole = by_datatrove(texts)
    show("c4_lines", size / ours(texts, C4Lines()), size / lines, f"{peer[0]}, lines alone", peer[1], "MB/s")
    show("c4_lines + text_signals", size / ours(texts, C4Lines(), TextSignals()), size / whole, *peer, "MB/s")
    show("refinedweb_lines", size / ours(texts, RefinedwebLines()), size / lines, f"{peer[0]}, lines alone", peer[1], "MB/s")
    own, courlan = addresses()
    show("canonical_url", N_URLS / own / 1e3, N_URLS / courlan / 1e3, "courlan", version("courlan"), "1,000 addresses/s")


if __name__ == "__main__":
    main()
