"""Which rows leave the lake: a version of a table, narrowed to the documents that a stage kept, in an order of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.engine.cuts import Cuts
from dataplane.errors import DataError, UsageError, did_you_mean
from dataplane.kernels.members import Members
from dataplane.pipeline import text_hash
from dataplane.snapshot import Snapshot, read_tags, resolve, tables

ALL = "all"
MIXTURE = "mixture"
CUTS = "cuts"
# Each names the table of ids that chooses.
SELECTIONS = ("selected", "deduplicated", "decontaminated", MIXTURE, "held_out")
# What nobody should publish or train on by oversight is left out unless it is asked for.
DEFAULT_SELECTION = {"documents": "decontaminated", "tokens": MIXTURE}
CUT = ("decontaminated", MIXTURE, "held_out")  # selections whose texts have passages cut out
# What is told of a text, and has to be told of what is left of it.
OF_TEXT = {"n_bytes": pc.binary_length, "text_hash": lambda text: pa.array(map(text_hash, text.to_pylist()), pa.string())}
# Output is cut at multiples of this, wherever the lake's fragments end: equal rows give equal files.
CHUNK_ROWS = 1024
OTHER_TOKENIZER = "the tokenizer is not the one that made this version: `dvc checkout` the commit that did"
_SHOWN_IDS = 3


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        table: Table whose rows are wanted.
        select: One of SELECTIONS, or `all`; empty takes the table's default.
        at: Version of the table: `current`, a tag, or a digest or its start.
        columns: What to keep; empty keeps all.
    """

    table: str
    select: str = ""
    at: str = "current"
    columns: tuple[str, ...] = ()

    def selection(self) -> str:
        """What chooses, the default filled in."""
        return self.select or DEFAULT_SELECTION.get(self.table, ALL)


class Rows:
    """The rows, in batches whose borders depend on nothing but the rows.

    Args:
        snapshot: The version of the table.
        ids: The version of the table that chooses; None takes all rows.
        columns: What to read; empty reads all.
        cuts: The version of the table that tells which passages are left out of the texts; None leaves them whole.

    Attributes:
        schema: Columns of the rows, without the lake's own notes on storage.
        watch: Told of each batch's rows as it goes out.
    """

    def __init__(self, snapshot: Snapshot, ids: Snapshot | None = None, columns: Sequence[str] = (), cuts: Snapshot | None = None) -> None:
        self.snapshot, self.ids, self.cuts = snapshot, ids, cuts
        self.watch: Callable[[int], object] = _ignore
        self._data = snapshot.open()
        self.columns = _columns(self._data.schema, columns, snapshot.table)
        if ids is not None and "doc_id" not in self._data.schema.names:
            known = ", ".join(name for name in tables(snapshot.root))
            raise UsageError(f"{snapshot.table!r} has no doc_id to select by", fix=f"leave --select out, or name another table: {known}")
        self.schema = pa.schema([pa.field(name, self._data.schema.field(name).type) for name in self.columns])

    @property
    def select(self) -> str:
        """Name of what chooses."""
        return self.ids.table if self.ids is not None else ALL

    @property
    def total(self) -> int:
        """Number of rows."""
        return self.ids.rows if self.ids is not None else self.snapshot.rows

    @cached_property
    def chosen(self) -> pa.Array:
        """The doc_ids that are chosen, in the order of their table; in training order for the mixture."""
        if self.ids is None:
            return _whole(self.snapshot.to_table(["doc_id"]).column("doc_id"))
        if self.ids.table != MIXTURE:
            return _whole(self.ids.to_table(["doc_id"]).column("doc_id"))
        rows = self.ids.to_table(["doc_id", "position"])
        order = np.argsort(rows.column("position").to_numpy(), kind="stable")
        return _whole(rows.column("doc_id")).take(pa.array(order))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, CHUNK_ROWS at a time.

        Raises:
            DataError: A chosen document is not in the table.
        """
        if self.ids is None:
            found = self._data.batches(self.columns, None, CHUNK_ROWS, 0, None)
        elif self.ids.table == MIXTURE:
            found = self._in_training_order(self.ids)
        else:
            found = self._filtered(self.ids)
        for batch in rechunk(found, self.schema):
            self.watch(len(batch))
            yield batch

    def _filtered(self, ids: Snapshot) -> Iterator[pa.RecordBatch]:
        """Chosen rows in stored order."""
        wanted = Members.of(self.chosen)
        count = 0
        for batch in self._data.batches(self._read(), None, CHUNK_ROWS, 0, None):
            part = wanted.rows(batch)
            count += len(part)
            yield self._cut(part).select(self.columns)
        if count != len(wanted):
            raise self._missing(ids, f"{len(wanted) - count} of {len(wanted)} documents")

    def _in_training_order(self, ids: Snapshot) -> Iterator[pa.RecordBatch]:
        """A row for each place in the mixture: a document comes as often as it is trained on."""
        stored = _whole(self.snapshot.to_table(["doc_id"]).column("doc_id"))
        places = pc.index_in(self.chosen, value_set=stored)
        if places.null_count:
            absent = self.chosen.filter(places.is_null()).unique()
            raise self._missing(ids, f"{len(absent)} documents ({', '.join(absent.slice(0, _SHOWN_IDS).to_pylist())})")
        for start in range(0, len(places), CHUNK_ROWS):
            taken = self._data.take(places.slice(start, CHUNK_ROWS).to_pylist(), self._read())
            for batch in taken.to_batches():
                yield self._cut(batch).select(self.columns)

    def _read(self) -> list[str]:
        """Columns that the rows are made of."""
        texts = ["text"] if self.cuts is not None and set(OF_TEXT) & set(self.columns) else []
        return list(dict.fromkeys(["doc_id", *self.columns, *texts]))

    def _cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Documents as they are trained on: without what decontaminate and dedup cut out of those that it left."""
        if self.cuts is None or not {"text", *OF_TEXT} & set(self.columns):
            return batch
        cuts = Cuts.load(self.cuts)
        cut, shorter = cuts.batch(batch), pa.array(cuts.places(batch.column("doc_id")) >= 0)
        for name in OF_TEXT.keys() & set(self.columns):
            field = cut.schema.field(name)
            told = pc.if_else(shorter, OF_TEXT[name](cut.column("text")).cast(field.type), cut.column(name))
            cut = cut.set_column(cut.schema.get_field_index(name), field, told)
        return cut

    def _missing(self, ids: Snapshot, what: str) -> DataError:
        return DataError(
            f"{what} of {ids.table} {ids.digest} are not in {self.snapshot.table} {self.snapshot.digest}",
            fix="export both at one tag (--at TAG), or run `dvc repro` so that the current versions belong together",
        )


def open_rows(request: Request, root: Path = Path()) -> Rows:
    """The rows that are asked for.

    A tag fixes the versions of the table and of what chooses; a digest only that of the table.

    Raises:
        UsageError: An unknown table, selection or column.
        DataError: An unknown version.
    """
    if request.table not in tables(root):
        raise UsageError(f"no table {request.table!r}, {did_you_mean(request.table, tables(root))}", fix="`dataplane sql 'SHOW TABLES'`")
    select = request.selection()
    if select not in (ALL, *SELECTIONS):
        raise UsageError(f"no selection {select!r}, {did_you_mean(select, (ALL, *SELECTIONS))}", fix="correct --select")
    at = request.at if request.at in read_tags(root) else "current"
    ids = resolve(select, at, root) if select != ALL else None
    cuts = resolve(CUTS, at, root) if request.table == "documents" and select in CUT and _has_cuts(at, root) else None
    return Rows(resolve(request.table, request.at, root), ids, request.columns, cuts)


def _has_cuts(at: str, root: Path) -> bool:
    """Whether there are cuts at a tag, or now; a lake of earlier days has none."""
    return CUTS in (tables(root) if at == "current" else read_tags(root)[at])


def rechunk(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of CHUNK_ROWS, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        while count >= CHUNK_ROWS:
            whole, rest = _split(waiting, schema)
            yield whole
            waiting, count = [rest], len(rest)
    if count:
        yield _split(waiting, schema)[0]


def _split(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The first CHUNK_ROWS rows in buffers of their own, and the rest."""
    joined = pa.concat_batches([pa.record_batch(batch.columns, schema=schema) for batch in batches])
    return joined.slice(0, CHUNK_ROWS), joined.slice(CHUNK_ROWS)


def _ignore(count: int) -> None:
    """Nobody watches."""


def _columns(schema: pa.Schema, wanted: Sequence[str], table: str) -> list[str]:
    """Names as stored; ``operator.signal`` is understood too."""
    names = [name.replace(".", "__") for name in wanted] or list(schema.names)
    for name in names:
        if name not in schema.names:
            raise UsageError(f"{table!r} has no column {name!r}, {did_you_mean(name, schema.names)}", fix="correct --columns")
    return names


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
