"""Tombstones: the documents that are to be forgotten, in a file that Git keeps and that `ingest` depends on.

A tombstone holds an id, a reason and the day; of the file that held the record only a hash of its name, so that a run
reads again just the files in question. There is no text in it, no address and no name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from dataplane.errors import DataError
from dataplane.lake.objectstore import write_atomically

FILE = "forgotten.jsonl"


@dataclass(frozen=True)
class Tombstone:
    """One document that is to be forgotten.

    Attributes:
        doc_id: Its id.
        file: Hash of the name of the file that holds the record.
        why: The reason, as it was given.
        day: When it was asked for (UTC, ISO 8601).
    """

    doc_id: str
    file: str
    why: str
    day: str


def file_hash(uri: str) -> str:
    """What a tombstone knows a file by."""
    return xxhash.xxh3_128_hexdigest(uri.encode())


def read(root: Path = Path()) -> list[Tombstone]:
    """All tombstones, in the order in which they were set.

    Raises:
        DataError: The file is damaged; what is to be forgotten must not come back by that.
    """
    path = root / FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Tombstone(**json.loads(line)) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        raise DataError(f"{path} is damaged", fix=f"restore it: git checkout -- {FILE}") from None


def add(tombstones: Iterable[Tombstone], root: Path = Path()) -> None:
    """Sets tombstones; a document that has one keeps it."""
    have = {tombstone.doc_id: tombstone for tombstone in read(root)}
    for tombstone in tombstones:
        have.setdefault(tombstone.doc_id, tombstone)
    write_atomically(root / FILE, "".join(json.dumps(asdict(tombstone), ensure_ascii=False) + "\n" for tombstone in have.values()))
