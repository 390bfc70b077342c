"""Any filter of datatrove, or of a package that builds on it, unchanged as one of ours.

Each filter is given a document of its own with the text, the doc_id, and url, source and kind as metadata. What it says is a signal;
changes that it makes to text or metadata are not taken: an annotator leaves text alone (`c4_lines` removes lines as C4QualityFilter does).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field

from dataplane.errors import EnvironmentFault, ParamsError
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

PACKAGE = "datatrove.pipeline.filters"
_WHERE = "datatrove.filters"
_METADATA = ("url", "source", "kind")


class Use(BaseParams):
    """One filter and what it is made with."""

    filter: str = Field(description=f"Its class: module.Class, or Class alone for one of {PACKAGE}.")
    arguments: dict[str, Any] = Field({}, description="Arguments of its constructor; defaults where left out.")


class Datatrove(Filter):
    """Asks filters of datatrove; a document is dropped where one of them drops it.

    `reasons` has one text for each filter that drops the document, in the order of the params: "GopherQualityFilter: gopher_short_doc",
    or the class alone where the filter gives no reason.

    Source: https://github.com/huggingface/datatrove
    """

    name, version = "datatrove", "1"
    reads = {"doc_id": pa.string(), "text": pa.large_string(), **dict.fromkeys(_METADATA, pa.string())}
    writes = {"reasons": pa.list_(pa.string())}

    class Params(BaseParams):
        """Which filters."""

        filters: tuple[Use, ...] = Field((), description="Filters, each of which sees the whole document.")

    def files(self) -> list[Path]:
        """The modules of the filters, so that another release of one is another operator."""
        return sorted({Path(inspect.getfile(filter_class(use.filter))) for use in self._uses()})

    def open(self) -> None:
        """Makes the filters.

        Raises:
            ParamsError: None is named, a name leads to no filter, the arguments are wrong, or the filter draws at random.
            EnvironmentFault: datatrove, or what a filter needs beside it, is not installed.
        """
        self._filters = [_made(use) for use in self._uses()]

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The reasons of each document."""
        rows = batch.to_pylist()
        found: list[list[str]] = [[] for _ in rows]
        for made in self._filters:
            for reasons, result in zip(found, _results(made, rows), strict=True):
                kept, reason = result if isinstance(result, tuple) else (result, None)
                if not kept:
                    reasons.append(f"{type(made).__name__}: {reason}" if reason else type(made).__name__)
        return {"reasons": pa.array(found, self.writes["reasons"])}

    def rules(self) -> Mapping[str, str]:
        """dropped_by_datatrove."""
        return {"dropped_by_datatrove": "len(datatrove.reasons) > 0"}

    def _uses(self) -> Sequence[Use]:
        if not self.params.filters:
            raise ParamsError("no filter is named", where=_WHERE, fix="name one, as in `filters: [{filter: GopherQualityFilter}]`")
        uses: Sequence[Use] = self.params.filters
        return uses


def filter_class(name: str) -> Any:
    """The class of a filter.

    Args:
        name: module.Class, or the name of a class of `PACKAGE`.

    Raises:
        ParamsError: There is none, or it is no filter of datatrove.
        EnvironmentFault: datatrove is not installed.
    """
    base = _base_filter()
    module, _, last = name.rpartition(".")
    try:
        cls = getattr(import_module(module or PACKAGE), last)
    except (ImportError, AttributeError) as error:
        raise ParamsError(f"there is no filter {name!r}: {error}", where=_WHERE, fix="write module.Class of an installed package") from None
    if not (isinstance(cls, type) and issubclass(cls, base)) or inspect.isabstract(cls):
        raise ParamsError(f"{name!r} is no filter of datatrove", where=_WHERE, fix=f"name a class that is derived from {base.__qualname__}")
    return cls


def _base_filter() -> Any:
    try:
        from datatrove.pipeline.filters.base_filter import BaseFilter
    except ImportError as error:
        raise EnvironmentFault(f"{error}", where=_WHERE, fix="pip install 'terraplane[datatrove]'") from None
    return BaseFilter


def _made(use: Use) -> Any:
    cls = filter_class(use.filter)
    where = f"{_WHERE}: {use.filter}"
    try:
        made = cls(**use.arguments)
    except ImportError as error:
        raise EnvironmentFault(f"{error}", where=where, fix="pip install 'terraplane[datatrove]', or what it names") from None
    # A constructor may raise anything at values of the wrong kind.
    except Exception as error:
        raise ParamsError(f"{type(error).__name__}: {error}", where=where, fix="correct its arguments") from error
    # SamplerFilter, and C4BadWordsFilter that is to keep some: which documents, depends on the batches.
    if hasattr(made, "uniform") and getattr(made, "keep_fraction", True):
        raise ParamsError("it draws at random, so no run could be repeated", where=where, fix="sample with the stage `mix` instead")
    return made


def _results(made: Any, rows: Sequence[Mapping[str, Any]]) -> Iterable[Any]:
    """What a filter says of each document, asked in batches of the size that it wants."""
    for start in range(0, len(rows), made.batch_size):
        yield from made.filter_batch([_document(row) for row in rows[start : start + made.batch_size]])


def _document(row: Mapping[str, Any]) -> Any:
    from datatrove.data import Document

    metadata = {name: row[name] for name in _METADATA if row[name] is not None}
    return Document(text=row["text"], id=row["doc_id"], metadata=metadata)
