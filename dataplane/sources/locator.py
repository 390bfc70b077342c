"""From a row of `raw` back to the very bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import SourceError
from dataplane.source import Fault
from dataplane.sources.archive import READ_ERRORS, open_streams
from dataplane.sources.files import SourceSpec
from dataplane.sources.records import as_it_lies, source_of

FIX = "the raw file has changed since it was ingested: restore it, or run `dvc repro`"


def read_payload(root: Path, row: Mapping[str, Any], specs: Sequence[SourceSpec]) -> bytes:
    """The payload of a record, read again from its file.

    Args:
        root: Folder of the project.
        row: source, format, uri, member, offset, length, row of a record of `raw`.
        specs: The project's sources, whose options say which field is the text.

    Raises:
        SourceError: The file is gone or no longer holds the record.
    """
    spec = next((spec for spec in specs if spec.name == row["source"]), None)
    if spec is None:
        raise SourceError(f"source {row['source']!r} is no longer in params.yaml", fix="put it back, or run `dvc repro`")
    try:
        for stream in open_streams(root / row["uri"], lambda name: as_it_lies(row["format"], name)):
            if not isinstance(stream, Fault) and stream.member == row["member"]:
                return source_of(row["format"], spec).reread(stream.file, stream.name, row["offset"], row["length"], row["row"])
    except FileNotFoundError:
        raise SourceError(f"{row['uri']} is gone", fix="restore the raw file (`dvc checkout`)") from None
    except SourceError:
        raise
    except READ_ERRORS as error:
        raise SourceError(f"{row['uri']} cannot be read: {error}", fix=FIX) from None
    raise SourceError(f"{row['uri']} has no member {row['member']!r} any more", fix=FIX)
