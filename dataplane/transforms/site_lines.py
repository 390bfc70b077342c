"""Takes out the lines that stand on many pages of one site: menus, footers, notices that main-content extraction let through.

Which lines those are takes a look at the whole corpus: `dataplane fit-site-lines` counts them and writes the file that is read here. A
stage could not take them out, since text is written once, by the stage clean; and the file is part of the operator's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.canonical_url import domain_finder
from dataplane.errors import ModelMissing, ParamsError
from dataplane.kernels.line_edits import SOLID_WORDS, cut, join, tidy
from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams

By = Literal["domain", "host", "corpus"]


class SiteLineRemoval(Transform):
    """Removes repeated lines of a site, or of the whole corpus. Without an address a document has no site and is left as it is.

    Source: a choice of ours, near the paragraphs that CCNet (Wenzek et al. 2019, arXiv:1911.00359, 3.1) takes out of a whole shard.
    """

    name, version = "site_lines", "1"
    reads = {"text": pa.large_string(), "url": pa.string()}
    writes = {"removed_share": pa.float32()}
    edits = ("site_line",)

    class Params(BaseParams):
        """Where the lines are."""

        path: str = Field("", description="File that `dataplane fit-site-lines` made.")
        by: By = Field("domain", description="What a site is; it has to be what the file was made with. corpus: all documents are one.")

    def files(self) -> list[Path]:
        """The file of the lines.

        Raises:
            ParamsError: No file is named.
            ModelMissing: It is not there.
        """
        if not self.params.path:
            raise ParamsError("no file of repeated lines is named", where="site_lines.path", fix="make one with `dataplane fit-site-lines`")
        path = Path(self.params.path).expanduser()
        if not path.is_file():
            raise ModelMissing(f"there is no file {path}", where="site_lines.path", fix="make it with `dataplane fit-site-lines`")
        return [path]

    def open(self) -> None:
        """Maps the file."""
        from dataplane.kernels.site_lines import SiteLines

        self._repeated = SiteLines.load(self.files()[0])
        self._site = site_finder(self.params.by)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, the count of lines that went, and the signal removed_share: share of the words in them."""
        from dataplane.kernels.site_lines import line_keys

        lines = cut(batch.column("text"))
        keys, known = line_keys(lines, pa.array(map(self._site, batch.column("url").to_pylist()), pa.string()))
        repeated = known & self._repeated.holds(keys)
        kept = tidy(~repeated, lines.blank, lines.first)
        made = join(lines.whole(), kept, lines.first, newline=False)
        words = lines.counts()[:, SOLID_WORDS] if repeated.any() else np.zeros(len(kept), np.int32)
        signals = {"removed_share": lines.lost_share(~repeated, words)}
        return Rewrite(made, {"site_line": lines.per_document(repeated)}, signals)


def site_finder(by: By) -> Callable[[str | None], str | None]:
    """A function from an address to its site, None where it has none; where a host has no domain, the host is the site."""
    if by == "corpus":
        return lambda url: ""
    domain_of = domain_finder()

    def site(url: str | None) -> str | None:
        try:
            host = urlsplit(url or "").hostname
        except ValueError:
            return None
        if not host:
            return None
        host = host.removeprefix("www.")
        return host if by == "host" else domain_of(host) or host

    return site
