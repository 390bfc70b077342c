"""Speed of html_text and its peers, MB of HTML per CPU second: `python benchmarks/html_text.py --corpus FOLDER [--quick]`.

FOLDER is in the layout of the public data sets (html/wcxb_dev, html/zyte and so on). One JSON line a set and peer.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import itertools
import json
from importlib.metadata import version

from benchmarks.quality.html import ours, resiliparse, timed, trafilatura
from benchmarks.quality.html_sets import SETS

QUICK_PAGES = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAGES} pages of each set")
    options = parser.parse_args()
    for name, read in SETS.items():
        pages = list(itertools.islice(read(options.corpus), QUICK_PAGES if options.quick else None))
        megabytes = sum(len(page.html.encode("utf-8", "replace")) for page in pages) / 1e6
        own = megabytes / timed(ours(), pages)[1]
        for peer_name, peer in {"trafilatura": trafilatura(), "resiliparse": resiliparse()}.items():
            speed = megabytes / timed(peer, pages)[1]
            row = {"name": f"html_text cascade {name}", "ours": round(own, 2), "peer": round(speed, 2), "peer_name": peer_name}
            print(json.dumps(row | {"peer_version": version(peer_name), "ratio": round(own / speed, 2), "unit": "MB/s"}), flush=True)


if __name__ == "__main__":
    main()
