"""Decisions of datatrove's filters: reads documents as JSON lines on stdin, writes the reasons for dropping each on stdout.

Runs in the peers' environment, by its interpreter, so it imports nothing of this project. With --seconds it writes the CPU seconds of each
filter instead.
"""

import json
import sys
import time

from datatrove.data import Document
from datatrove.pipeline.filters import C4QualityFilter, FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter

FILTERS = {
    "gopher_quality": GopherQualityFilter(),
    "gopher_repetition": GopherRepetitionFilter(),
    "c4": C4QualityFilter(filter_no_terminal_punct=False),
    "c4_terminal": C4QualityFilter(),
    "fineweb": FineWebQualityFilter(),
}


def verdict(filter_: object, text: str) -> str:
    """Why a document is dropped, empty where it is kept."""
    found = filter_.filter(Document(text=text, id=""))  # type: ignore[attr-defined]
    return "" if found is True else found[1] if isinstance(found, tuple) else "dropped"


def main() -> None:
    texts = [json.loads(line) for line in sys.stdin]
    if "--seconds" in sys.argv:
        for filter_ in FILTERS.values():
            verdict(filter_, "Warm.")
        spent = {}
        for name, filter_ in FILTERS.items():
            started = time.process_time()
            for text in texts:
                verdict(filter_, text)
            spent[name] = time.process_time() - started
        print(json.dumps(spent))
        return
    for text in texts:
        print(json.dumps({name: verdict(filter_, text) for name, filter_ in FILTERS.items()}))


if __name__ == "__main__":
    main()
