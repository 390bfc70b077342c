"""Which lines stand on many pages of one site, or of the whole corpus.

A line counts once for each different text that it stands in, so that a page that was crawled ten times is one page. Pairs of line and
text are spread over files by the line's hash, and each file is counted alone: memory is that of the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.kernels.hashing import hash128
from dataplane.kernels.line_edits import cut
from dataplane.kernels.site_lines import U64, SiteLines, line_keys
from dataplane.operator import Transform
from dataplane.params import Params
from dataplane.pipeline import Pipeline, Step
from dataplane.registry import operator_class
from dataplane.snapshot import Snapshot
from dataplane.sources.decode import decode
from dataplane.transforms.site_lines import By, SiteLineRemoval, site_finder

BATCH_ROWS = 512
_PARTITION_BITS = np.uint64(6)
_COLUMNS = ["doc_id", "source", "kind", "url", "mime", "charset", "payload"]


class SiteLinesParams(Params):
    """What a repeated line is."""

    by: By = Field("domain", description="What a site is. corpus: all documents are one, with an address or without.")
    min_pages: int = Field(10, ge=2, description="Pages of a site with different texts on which a line has to stand; CCNet takes 2.")


@dataclass(frozen=True)
class Fitted:
    """What was found.

    Attributes:
        lines: The lines that repeat.
        pages: Documents with an address.
        different: Different pairs of site and line.
    """

    lines: SiteLines
    pages: int
    different: int


def fit(pages: Iterable[pa.RecordBatch], params: SiteLinesParams) -> Fitted:
    """Counts lines, and keeps those that repeat.

    Args:
        pages: Columns url (string) and text (large_string).
    """
    site = site_finder(params.by)
    n_pages = different = 0
    parts = []
    with TemporaryDirectory(prefix="site-lines-") as folder:
        for batch in pages:
            sites = pa.array(map(site, batch.column("url").to_pylist()), pa.string())
            n_pages += len(sites) - sites.null_count
            _spill(_pairs(batch.column("text"), sites), Path(folder))
        for path in sorted(Path(folder).iterdir()):
            keys, count = _counted(path)
            different += len(keys)
            parts.append(keys[count >= params.min_pages])
    return Fitted(SiteLines(np.concatenate(parts) if parts else np.zeros(0, np.uint64)), n_pages, different)


def _pairs(text: pa.Array, sites: pa.Array) -> U64:
    """Key of each line and hash of the text that it stands in: uint64 [lines, 2]."""
    lines = cut(text)
    keys, known = line_keys(lines, sites)
    texts = np.repeat(hash128(text)[:, 0], np.diff(lines.first))
    return np.stack([keys, texts], axis=1)[known]


def _spill(pairs: U64, folder: Path) -> None:
    """Appends pairs to the files of their keys; file names sort as the keys do."""
    place = (pairs[:, 0] >> (np.uint64(64) - _PARTITION_BITS)).astype(np.int64)
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange((1 << int(_PARTITION_BITS)) + 1))
    for i in np.flatnonzero(np.diff(bounds)):
        with (folder / f"{i:04}").open("ab") as stream:
            pairs[order[bounds[i] : bounds[i + 1]]].tofile(stream)


def _counted(path: Path) -> tuple[U64, npt.NDArray[np.int64]]:
    """The keys of a file, sorted, and in how many different texts each stands."""
    pairs = np.fromfile(path, np.uint64).reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    fresh = np.ones(len(pairs), np.bool_)
    fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    keys, count = np.unique(pairs[fresh, 0], return_counts=True)
    return keys, count.astype(np.int64)


def pages_of(raw: Snapshot, steps: Sequence[Step]) -> Iterator[pa.RecordBatch]:
    """The pages as they come to `site_lines`: through the operators above it; where it does not stand there, through the last transform."""
    pipeline = Pipeline(_above(steps), run_id="")
    pipeline.open()
    try:
        for batch in raw.batches(_COLUMNS, batch_size=BATCH_ROWS):
            payloads = zip(*(batch.column(name).to_pylist() for name in ("payload", "mime", "charset")), strict=True)
            text = pa.array([decode(*row).text for row in payloads], pa.large_string())
            kept = {name: batch.column(name) for name in ("doc_id", "source", "kind", "url", "mime")}
            documents = pipeline.run(pa.record_batch(kept | {"text": text})).documents
            if documents is not None:
                yield documents.select(["url", "text"])
    finally:
        pipeline.close()


def _above(steps: Sequence[Step]) -> Sequence[Step]:
    names = [step.use for step in steps]
    if SiteLineRemoval.name in names:
        return steps[: names.index(SiteLineRemoval.name)]
    transforms = [i for i, name in enumerate(names) if issubclass(operator_class(name), Transform)]
    return steps[: max(transforms, default=-1) + 1]
