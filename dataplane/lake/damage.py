"""Names the file that a read failed at: what the formats' own readers raise says little about that, and not to a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError
from dataplane.lake import objectstore

FIX = "`dataplane lake verify` names all that is damaged, and what restores it"
MESSAGE_CHARS = 200


@contextmanager
def named(uri: str, damaged: Callable[[], str | None]) -> Iterator[None]:
    """Turns what a reader raises at a damaged file into an error that names the file.

    Args:
        uri: Where the table lies.
        damaged: The location of a file that is missing or cannot be read, None where all can; asked only after a failure.

    Raises:
        DataError: A file is damaged.
    """
    try:
        yield
    except BaseException as error:
        if not of_reader(error) or objectstore.is_fault(uri, error):
            raise
        file = damaged()
        if file is None:
            raise
        raise DataError(f"{file} cannot be read: {first_line(error)}", fix=FIX) from None


def of_reader(error: BaseException) -> bool:
    """Whether Lance, Arrow or the file system raise such an error at bytes that they do not understand."""
    # A panic of Lance's is no Exception, and its class can be imported from nowhere.
    return isinstance(error, OSError | ValueError | RuntimeError | pa.ArrowException) or type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """What an error says, without the place in somebody's source code that it says it from."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    return text.partition(", /")[0][:MESSAGE_CHARS]


def first_unreadable(files: Sequence[str], *probes: Callable[[str], Any]) -> str | None:
    """The first file at which a probe fails; the cheap probes are tried on all files before the dear ones."""
    for probe in probes:
        for file in files:
            try:
                probe(file)
            except BaseException as error:
                if not of_reader(error):
                    raise
                return file
    return None
