"""Pages with what people found to be their main content, in the layouts of the public data sets (FOLDER/html/NAME)."""

import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataplane.sources.decode import decode

MIME = "text/html"


@dataclass(frozen=True)
class Page:
    """One page, its kind, and the gold: its text, or segments that belong to it and segments that do not."""

    html: str
    kind: str
    gold: str | None = None
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def wcxb(folder: Path) -> Iterator[Page]:
    """Pages of seven kinds: https://github.com/murroughfoley/wcx."""
    files = _files(folder / "html/wcxb_dev")
    for name in sorted(name for name in files if "/ground-truth/" in name):
        values = json.loads(files[name])
        gold = values["ground_truth"].get("main_content")
        if gold:
            html = gzip.decompress(files[name.replace("ground-truth", "html").replace(".json", ".html.gz")])
            yield Page(_text(html), values["_internal"]["page_type"]["primary"], gold)


def zyte(folder: Path) -> Iterator[Page]:
    """Articles: https://github.com/scrapinghub/article-extraction-benchmark."""
    files = _files(folder / "html/zyte")
    for key, values in sorted(json.loads(files["ground-truth.json"]).items()):
        yield Page(_text(gzip.decompress(files[f"html/{key}.html.gz"])), "article", values["articleBody"])


def segments(folder: Path) -> Iterator[Page]:
    """Trafilatura's own test: https://github.com/adbar/trafilatura/tree/master/tests."""
    files = _files(folder / "html/trafilatura_eval")
    pages = {name.rpartition("/")[2]: html for name, html in files.items()}
    for _, values in sorted(json.loads(files["tests/evaldata.json"]).items()):
        yield Page(_text(pages[values["file"]]), "mixed", None, tuple(values["with"]), tuple(values["without"]))


def readability(folder: Path) -> Iterator[Page]:
    """What Readability.js makes of its test pages, as its authors expect it: https://github.com/mozilla/readability."""
    from lxml import html

    files = _files(folder / "html/readability")
    for name in sorted(name for name in files if name.endswith("/source.html")):
        expected = files[name.replace("source.html", "expected.html")].decode()
        gold = " ".join(html.fromstring(expected).itertext()) if expected.strip() else ""
        yield Page(_text(files[name]), "article", gold)


def gne(folder: Path) -> Iterator[Page]:
    """Chinese news without gold: https://github.com/GeneralNewsExtractor/GeneralNewsExtractor."""
    files = _files(folder / "html/gne_zh")
    yield from (Page(_text(files[name]), "news") for name in sorted(files) if name.endswith(".html"))


SETS: dict[str, Callable[[Path], Iterator[Page]]] = {
    "wcxb_dev": wcxb, "zyte": zyte, "trafilatura_eval": segments, "readability": readability, "gne_zh": gne,
}  # fmt: skip


def _files(folder: Path) -> dict[str, bytes]:
    with tarfile.open(next(folder.glob("*.tar.xz"))) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def _text(html: bytes) -> str:
    return decode(html, MIME, None).text
