"""Categories of a document's address under block lists of domains and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from dataplane.errors import ModelMissing, ParamsError
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams
from dataplane.ruleset import sql_literal

_COMPILED = ("keys.npy", "categories.json")


class UrlBlocklist(Filter):
    """Looks a document's address up in a block list: its host, the domains above it, and beginnings of its path.

    Source of the layout: the UT1 lists of the Université Toulouse Capitole, https://dsi.ut-capitole.fr/blacklists/.
    """

    name, version = "url_blocklist", "1"
    reads = {"url": pa.string()}
    writes = {"categories": pa.list_(pa.string())}

    class Params(BaseParams):
        """Params of the list."""

        path: str = Field(
            "", description="Folder in the UT1 layout (CATEGORY/domains, CATEGORY/urls), or what `dataplane compile-blocklist` made of one."
        )
        block: tuple[str, ...] = Field((), description="Categories that drop a document; empty means every category.")

    def files(self) -> list[Path]:
        """The files of the list.

        Raises:
            ParamsError: No list is named.
            ModelMissing: The folder holds none.
        """
        if not self.params.path:
            raise ParamsError("no block list is named", where="url_blocklist.path", fix="name a folder in the UT1 layout")
        folder = Path(self.params.path).expanduser()
        compiled = [folder / name for name in _COMPILED]
        found = compiled if compiled[0].is_file() else sorted(p for p in folder.glob("*/*") if p.name in ("domains", "urls"))
        if not found:
            fix = "unpack a block list there, in folders CATEGORY with the files domains and urls"
            raise ModelMissing(f"there is no block list in {folder}", where="url_blocklist.path", fix=fix)
        return found

    def open(self) -> None:
        """Maps a compiled list, or compiles one in memory."""
        from dataplane.kernels.url_blocklist import BlockList, compile_list

        folder = self.files()[0].parent
        self._list = BlockList.load(folder) if (folder / _COMPILED[0]).is_file() else compile_list(folder.parent)

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Categories of each address, sorted by name; none where there is no address."""
        bounds, found = self._list.lookup(batch.column("url"))
        names = pa.array(self._list.categories, pa.string()).take(pa.array(found))
        return {"categories": pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), names)}

    def rules(self) -> Mapping[str, str]:
        """blocked_url."""
        if not self.params.block:
            return {"blocked_url": "len(url_blocklist.categories) > 0"}
        wanted = ", ".join(sql_literal(category) for category in self.params.block)
        return {"blocked_url": f"list_has_any(url_blocklist.categories, [{wanted}])"}
