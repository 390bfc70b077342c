"""Decisions of datatrove's filters: reads documents as JSON lines on stdin, writes the reasons for dropping each on stdout.

Runs in the peers' environment, by its interpreter, so it imports nothing of this project. With --seconds it writes the CPU seconds of each
filter instead. With --fineweb2 JSON the filters are those of FineWeb2's pipeline, with the arguments that JSON gives.
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


def fineweb2(arguments: dict) -> dict[str, object]:
    """The filters of FineWeb2 for one language, as fineweb-2-pipeline.py of huggingface/fineweb-2 sets them up."""
    lang = {"language": arguments["language"]}
    off = {"dup_para_frac": 0, "dup_line_char_frac": 0, "dup_para_char_frac": 0}
    return {
        "repetition": GopherRepetitionFilter(**off, **arguments["repetition"], **lang),
        "fineweb": FineWebQualityFilter(short_line_thr=999, char_duplicates_ratio=0.1, **arguments["fineweb"], **lang),
        "quality": GopherQualityFilter(min_stop_words=2, **arguments["quality"], **lang),
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
    filters = fineweb2(json.loads(sys.argv[sys.argv.index("--fineweb2") + 1])) if "--fineweb2" in sys.argv else FILTERS
    for text in texts:
        print(json.dumps({name: verdict(filter_, text) for name, filter_ in filters.items()}))


if __name__ == "__main__":
    main()
