"""Lance tables: fragments are written from any process and committed as one version, which a tag names by its content.

A version exists once its manifest is in place, so a reader sees all of a run or none of it. A fragment may hold its
columns in several files: that is how an operator's signals are added without rewriting the text.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError, LakeBusy
from dataplane.lake import damage, objectstore
from dataplane.lake.store import FIX, Among, Data, Store, Version

# Lance reports on stderr that a data set is about to be created, once for each table. Errors still come through.
os.environ.setdefault("LANCE_LOG", "error")

MAX_ROWS_PER_FILE = 1 << 21  # above what a fragment is given: one call makes one file
COMMIT_ATTEMPTS = 30
NEWEST_FIRST = (1 << 64) - 1  # Lance names the list of a version's files by this less its number
# What a scan of local files holds at once. Lance's own limits are for far stores, and let a wide scan take gigabytes.
NEAR = {"io_buffer_size": 64 << 20, "batch_readahead": 4, "fragment_readahead": 1}
REMOVED_FIELD = -2  # what Lance writes in place of a field id whose column in this file is no longer read


@objectstore.reports_faults
class LanceData(Data):
    """A version of a Lance table."""

    def __init__(self, uri: str, dataset: Any) -> None:
        self.uri, self.relation, self.schema = uri, dataset, dataset.schema

    def batches(
        self, columns: Sequence[str] | None, among: Among, batch_size: int, offset: int, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order."""
        options: dict[str, Any] = {"offset": offset, "limit": limit} if offset or limit is not None else {}
        options |= {"batch_size": batch_size} | ({} if objectstore.is_remote(self.uri) else NEAR)
        names = list(columns) if columns is not None else None
        chosen = _sql(among) if among else None
        with damage.named(self.uri, self.damaged):
            yield from self.relation.scanner(columns=names, filter=chosen, scan_in_order=True, **options).to_batches()

    def take(self, rows: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        """Rows by their place."""
        with damage.named(self.uri, self.damaged):
            return self.relation.take(list(rows), columns=list(columns) if columns is not None else None)

    def damaged(self) -> str | None:
        """The first data file that cannot be read."""
        from lance.file import LanceFileReader

        options = objectstore.lance_options(self.uri)
        names = [file.path for fragment in self.relation.get_fragments() for file in fragment.metadata.files]
        files = [objectstore.join(self.uri, "data", name) for name in dict.fromkeys(names)]

        def read(file: str) -> None:
            for _ in LanceFileReader(file, options).read_all().to_batches():
                pass

        return damage.first_unreadable(files, lambda file: LanceFileReader(file, options), read)


@objectstore.reports_faults
class LanceStore(Store):
    """Tables as Lance data sets."""

    suffix = "lance"
    adds_columns = True

    def write(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Writes batches as data files that no version refers to yet."""
        from lance.fragment import write_fragments

        rows = (batch for batch in batches if len(batch))
        first = next(rows, None)
        if first is None:
            return []
        reader = pa.RecordBatchReader.from_batches(schema, _chain(first, rows))
        uri = self.table_uri(table)
        fragments = write_fragments(
            reader,
            uri,
            schema=schema,
            mode="overwrite",
            max_rows_per_file=MAX_ROWS_PER_FILE,
            storage_options=objectstore.lance_options(uri),
        )
        return [json.dumps(fragment.to_json(), sort_keys=True) for fragment in fragments]

    def files(self, data: str) -> list[str]:
        """Names of a fragment's data files."""
        return [file["path"] for file in json.loads(data)["files"]]

    def publish(self, table: str, schema: pa.Schema, version: Version) -> None:
        """Makes the fragments the newest version and tags it with its digest."""
        from lance.fragment import FragmentMetadata

        uri = self.table_uri(table)
        if not objectstore.is_remote(uri):
            Path(uri).parent.mkdir(parents=True, exist_ok=True)
        fragments = [FragmentMetadata.from_json(fragment.data) for fragment in version.fragments]
        dataset = _overwrite(uri, schema, fragments)
        try:
            dataset.tags.create(version.digest, dataset.version)
        except ValueError:  # it is there: an earlier version has this content, or another run is committing it
            dataset.tags.update(version.digest, dataset.version)

    def open(self, table: str, digest: str) -> LanceData:
        """The version with this content."""
        dataset = self._dataset(table)
        if dataset is None:
            raise DataError(f"{self.table_uri(table)} is not there", fix=FIX)
        uri = self.table_uri(table)
        with damage.named(uri, lambda: objectstore.join(uri, "_refs", "tags", f"{digest}.json")):
            number = _tagged(dataset, digest)
        if number is None:
            raise DataError(f"{uri} has no version with digest {digest}", fix=FIX)
        with damage.named(uri, lambda: objectstore.join(uri, "_versions", f"{NEWEST_FIRST - number}.manifest")):
            return LanceData(uri, dataset.checkout_version(number))

    def is_newest(self, table: str, digest: str) -> bool:
        """Whether the newest version has this digest."""
        dataset = self._dataset(table)
        return dataset is not None and _tagged(dataset, digest) == dataset.version

    def used(self, table: str) -> set[str]:
        """Names of the data files that some version refers to."""
        dataset = self._dataset(table)
        if dataset is None:
            return set()
        # Newest first: neighbours share most fragments, and a version that a killed run left untagged counts as well.
        versions = [dataset.checkout_version(version["version"]) for version in dataset.versions()]
        return {file.path for version in versions for fragment in version.get_fragments() for file in fragment.metadata.files}

    def forget(self, table: str, digests: Sequence[str]) -> None:
        """Removes versions: those of the digests, and those that no tag names once they are older than the grace."""
        dataset = self._dataset(table)
        if dataset is None:
            return
        tags = {digest: tag["version"] for digest, tag in dataset.tags.list().items()}
        for digest in tags.keys() & set(digests):
            dataset.tags.delete(digest)
        dropped = {tags.pop(digest) for digest in digests if digest in tags}
        kept = {*tags.values(), dataset.version}
        # Another run that shares the lake may have committed a version and not tagged it yet, or be about to commit a file.
        limit = time.time() - self.grace_seconds if self.grace_seconds else math.inf
        old = {version["version"] for version in dataset.versions() if version["timestamp"].timestamp() < limit}
        stale = sorted((old | dropped) - kept)
        if stale:
            dataset.cleanup_old_versions(versions=stale, delete_unverified=not self.grace_seconds, error_if_tagged_old_versions=False)

    def fragment_batches(self, table: str, digest: str, data: str, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Rows of one fragment of a version, in stored order."""
        wanted = self.files(data)
        for fragment in self.open(table, digest).relation.get_fragments():
            if [file.path for file in fragment.metadata.files] == wanted:
                yield from fragment.to_batches(columns=list(columns), batch_size=batch_size)
                return
        raise DataError(f"{self.table_uri(table)} has no fragment {wanted} at {digest}", fix=FIX)

    def add_columns(self, table: str, data: str, before: pa.Schema, after: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        """A fragment with some columns added or replaced and others gone; the files that hold the rest are not touched.

        Args:
            table: Name of the table.
            data: The fragment as it is.
            before: Schema of the table that it belongs to.
            after: Schema of the table that it will belong to.
            batches: The new columns, for all rows in order.
        """
        given = iter(batches)
        first = next(given)
        new = pa.schema([after.field(name) for name in first.schema.names])
        (written,) = self.write(table, new, _chain(first, given))
        (file,) = json.loads(written)["files"]
        fragment = json.loads(_regrouped(data, before, pa.schema([field for field in after if field.name not in new.names]), after))
        fragment["files"].append(_renumbered(file, _field_ids(new), _field_ids(after)))
        return json.dumps(fragment, sort_keys=True)

    def keep_columns(self, data: str, before: pa.Schema, after: pa.Schema) -> str:
        """A fragment with only the columns of `after`, all of which it has; nothing is written."""
        return _regrouped(data, before, after, after)

    def _dataset(self, table: str) -> Any:
        import lance

        uri = self.table_uri(table)
        try:
            with damage.named(uri, lambda: _newest_manifest(uri)):
                return lance.dataset(uri, storage_options=objectstore.lance_options(uri))
        except ValueError as error:  # no such table; but Lance gives a store that does not answer this class as well
            if objectstore.is_fault(uri, error):
                raise
            return None


def _newest_manifest(uri: str) -> str | None:
    """The file that Lance opens a table by; None where the table has no version."""
    folder = objectstore.join(uri, "_versions")
    names = [name for name in objectstore.sizes(folder) if name.endswith(".manifest")]
    return objectstore.join(folder, min(names)) if names else None


def _overwrite(uri: str, schema: pa.Schema, fragments: Sequence[Any]) -> Any:
    """Commits the fragments as a version that holds nothing else."""
    import lance
    from lance.commit import CommitConflictError

    operation, attempts = lance.LanceOperation.Overwrite(schema, fragments), 0
    while True:
        try:
            return lance.LanceDataset.commit(uri, operation, storage_options=objectstore.lance_options(uri))
        except OSError as error:
            begun = "Dataset already exists" in str(error)  # what is said where two runs begin a table
            if not (begun or isinstance(error, CommitConflictError)):
                raise
            # Another run was first. Its version stays, older than ours: an overwrite needs nothing of what was before.
            attempts += 1
            if attempts == COMMIT_ATTEMPTS:
                raise LakeBusy(f"{attempts} commits of other runs came first", where=uri, fix="run again: finished work is kept") from None
            time.sleep(random.uniform(0, attempts / 10))


def _tagged(dataset: Any, digest: str) -> int | None:
    """The number of the version that a tag names; asked for by name, since listing reads every tag."""
    try:
        number: int = dataset.tags.get_version(digest)
    except ValueError:
        return None
    return number


def _sql(among: Mapping[str, Sequence[str | int]]) -> str:
    """The choice as Lance's SQL."""
    # False where no value is allowed: IN with an empty list is no SQL.
    parts = [f"{name} IN ({', '.join(_literal(value) for value in values)})" if values else "false" for name, values in among.items()]
    return " AND ".join(parts)


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _field_ids(schema: pa.Schema) -> dict[str, list[int]]:
    """Column -> the field ids that Lance gives it and what is nested in it: numbers in the order of the schema, outside in."""
    ids: dict[str, list[int]] = {}
    start = 0
    for field in schema:
        size = _n_fields(field.type)
        ids[field.name] = list(range(start, start + size))
        start += size
    return ids


def _n_fields(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_nested(kind.value_type):
        return 1
    return 1 + sum(_n_fields(kind.field(i).type) for i in range(kind.num_fields))


def _renumbered(file: dict[str, Any], before: dict[str, list[int]], after: dict[str, list[int]]) -> dict[str, Any]:
    """A data file's description under another schema's field ids; a column that is not in it is marked as removed."""
    moved = {REMOVED_FIELD: REMOVED_FIELD}
    for name, ids in before.items():
        moved |= dict(zip(ids, after.get(name, [REMOVED_FIELD] * len(ids)), strict=True))
    return file | {"fields": [moved[field] for field in file["fields"]]}


def _regrouped(data: str, before: pa.Schema, kept: pa.Schema, after: pa.Schema) -> str:
    """A fragment's description under the field ids of `after`, with the columns that are in `kept`."""
    fragment, ids = json.loads(data), _field_ids(after)
    moved = [_renumbered(file, _field_ids(before), {name: ids[name] for name in kept.names}) for file in fragment["files"]]
    fragment["files"] = [file for file in moved if any(field != REMOVED_FIELD for field in file["fields"])]
    return json.dumps(fragment, sort_keys=True)
