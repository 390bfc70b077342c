"""MB/s of UTF-8 per CPU second: language identification on the first 1,000 characters against fastText and py3langid.

python benchmarks/language.py [--quick] [--corpus FILE_OR_FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

from importlib.metadata import version

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show

CHARS = 1000


def ours(texts: list[str], **params: object) -> float:
    from dataplane.annotators.language import Language

    operator = Language(params)
    operator.open()
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    operator.annotate(batch.slice(0, 1))
    return cpu_seconds(lambda: operator.annotate(batch))


def by_fasttext(texts: list[str]) -> float:
    import fasttext

    from dataplane.models import locate
    from dataplane.settings import load_settings

    model = fasttext.load_model(str(locate("lid.176", load_settings())))
    return cpu_seconds(lambda: [model.predict(text[:CHARS].replace("\n", " ")) for text in texts])


def by_py3langid(texts: list[str]) -> float:
    import py3langid

    py3langid.classify("warm")
    return cpu_seconds(lambda: [py3langid.classify(text[:CHARS]) for text in texts])


def main() -> None:
    texts = documents(options(__doc__))
    size = sum(len(text[:CHARS].encode()) for text in texts) / 1e6
    fasttext, langid = by_fasttext(texts), by_py3langid(texts)
    lid = ours(texts)
    show("lid.176", size / lid, size / fasttext, "fasttext lid.176", version("fasttext-numpy2-wheel"), "MB/s")
    show(
        "lid.176 + other languages",
        size / ours(texts, other_languages=True),
        size / fasttext,
        "fasttext lid.176",
        version("fasttext-numpy2-wheel"),
        "MB/s",
    )
    show("py3langid", size / ours(texts, model="py3langid"), size / langid, "py3langid", version("py3langid"), "MB/s")


if __name__ == "__main__":
    main()
