"""Lance tables: write fragments from any process, commit them as one version, open a version by its content digest.

A version exists once its manifest is renamed into place, so a reader sees all of a run or none of it. Fragments that
no version refers to (left by a killed run) are invisible, and `sweep` removes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError

# Lance reports on stderr that a data set is about to be created, once for each table. Errors still come through.
os.environ.setdefault("LANCE_LOG", "error")

MAX_ROWS_PER_FILE = 1 << 20


def write_fragments(uri: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Writes batches as data files that no version refers to yet.

    Returns:
        The fragments' metadata as JSON texts, for `commit`; none for no rows.
    """
    from lance.fragment import write_fragments as write

    rows = (batch for batch in batches if len(batch))
    first = next(rows, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(schema, _chain(first, rows))
    fragments = write(reader, uri, schema=schema, mode="overwrite", max_rows_per_file=MAX_ROWS_PER_FILE)
    return [json.dumps(fragment.to_json(), sort_keys=True) for fragment in fragments]


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def has_files(uri: str, fragment: str) -> bool:
    """Whether the data files of a fragment (its metadata as JSON) are there."""
    return all(Path(uri, "data", file["path"]).is_file() for file in json.loads(fragment)["files"])


def commit(uri: str, schema: pa.Schema, fragments: Sequence[str], tag: str) -> int:
    """Makes the fragments, in order, the whole of a new version, and tags it with its digest.

    Returns:
        The new version's number.
    """
    import lance
    from lance.fragment import FragmentMetadata

    Path(uri).parent.mkdir(parents=True, exist_ok=True)
    operation = lance.LanceOperation.Overwrite(schema, [FragmentMetadata.from_json(text) for text in fragments])
    dataset = lance.LanceDataset.commit(uri, operation)
    if tag in dataset.tags.list():
        dataset.tags.update(tag, dataset.version)
    else:
        dataset.tags.create(tag, dataset.version)
    return int(dataset.version)


def has_version(uri: str, tag: str) -> bool:
    """Whether a version with this content digest is there, and is the newest."""
    import lance

    if not Path(uri, "_versions").is_dir():
        return False
    dataset = lance.dataset(uri)
    known = dataset.tags.list()
    return tag in known and known[tag]["version"] == dataset.version


def open_version(uri: str, tag: str) -> Any:
    """The data set at the version with this content digest.

    Raises:
        DataError: The table or the version is not on this machine.
    """
    import lance

    fix = "run `dvc checkout`, or `dvc repro` to make it again"
    if not Path(uri, "_versions").is_dir():
        raise DataError(f"{uri} is not there", fix=fix)
    dataset = lance.dataset(uri)
    tags = dataset.tags.list()
    if tag not in tags:
        raise DataError(f"{uri} has no version with digest {tag}", fix=fix)
    return lance.dataset(uri, version=tags[tag]["version"])


def sweep(uri: str) -> int:
    """Removes data files that no version refers to. Only for the holder of the table's lock.

    Returns:
        How many files went.
    """
    import lance

    dataset = lance.dataset(uri)
    used = {
        Path(file.path).name
        for version in dataset.versions()
        for fragment in lance.dataset(uri, version=version["version"]).get_fragments()
        for file in fragment.metadata.files
    }
    orphans = [path for path in Path(uri, "data").glob("*.lance") if path.name not in used]
    for path in orphans:
        path.unlink()
    return len(orphans)
