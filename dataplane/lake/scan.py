"""What DuckDB scans in place of a stored table, so that every filter is taken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads


class Scan(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A data set that applies a filter itself where the format refuses it.

    Lance refuses every filter on a table that has a column of large lists, because it hands the whole schema to
    Substrait, which knows no such type. https://substrait.io/types/type_classes/

    Args:
        stored: The data set of the format.
    """

    def __init__(self, stored: Any) -> None:
        self._stored = stored

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._stored.schema

    def scanner(self, *, columns: list[str] | None = None, filter: Any = None, **options: Any) -> Any:
        """A scanner, as DuckDB asks for it."""
        try:
            return self._stored.scanner(columns=columns, filter=filter, **options)
        except pa.ArrowNotImplementedError:
            names = self.schema.names if columns is None else columns
            # An expression does not tell its columns, but its text holds their names; one too many does no harm.
            wanted = [name for name in self.schema.names if name in names or name in str(filter)]
            reader = self._stored.scanner(columns=wanted, **options).to_reader()
            return pads.Scanner.from_batches(reader, columns=names, filter=filter)
