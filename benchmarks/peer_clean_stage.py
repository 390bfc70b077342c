"""datatrove's side of benchmarks/clean_stage.py: run by the interpreter of .venv-peers, it prints one JSON line.

    .venv-peers/bin/python benchmarks/peer_clean_stage.py TEXTS.jsonl LID_MODEL

Every step is datatrove's own, with its defaults; a document that one filter drops is not shown to the next, as there. Texts come
from memory and go nowhere, so that reading and writing are for nothing.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import time
from importlib.metadata import version


def steps(model: str) -> list:
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
    )
    from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter
    from fasttext.FastText import _FastText

    language = LanguageFilter(label_only=True)
    language.model._model = _FastText(model)  # the file that our side reads too
    filters = [GopherRepetitionFilter(), GopherQualityFilter(), C4QualityFilter(filter_no_terminal_punct=False), FineWebQualityFilter()]
    return [FTFYFormatter(), PIIFormatter(), language, *filters]


def run(pipeline: list, texts: list[str]) -> int:
    from datatrove.data import Document

    documents = (Document(text=text, id=str(i)) for i, text in enumerate(texts))
    for step in pipeline:
        documents = step.run(documents, 0, 1)
    return sum(1 for _ in documents)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        texts = [json.loads(line) for line in file]
    pipeline = steps(sys.argv[2])
    run(pipeline, texts[:5])  # loads the tokenizers
    started = time.process_time()
    kept = run(pipeline, texts)
    seconds = time.process_time() - started
    print(json.dumps({"seconds": seconds, "kept": kept, "documents": len(texts), "version": version("datatrove")}))


if __name__ == "__main__":
    main()
