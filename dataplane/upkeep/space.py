"""What the tables and their history cost, and how to get some of it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataplane import dvc
from dataplane.engine.journal import stage_lock
from dataplane.errors import DataError, UsageError
from dataplane.history import named_by_git
from dataplane.lake.store import Version
from dataplane.settings import load_settings
from dataplane.snapshot import Snapshot, open_store, read_tags, tables


@dataclass(frozen=True)
class Space:
    """What one table takes on disk.

    Attributes:
        table: Its name.
        versions: How many are kept.
        current_bytes: Data files of the current version.
        history_bytes: Data files that only earlier versions need.
        orphan_bytes: Data files that no version needs.
    """

    table: str
    versions: int
    current_bytes: int
    history_bytes: int
    orphan_bytes: int


def measure(root: Path = Path()) -> list[Space]:
    """What each table takes."""
    return [_measure(table, root) for table in tables(root)]


def _measure(table: str, root: Path) -> Space:
    store = open_store(root)
    sizes, versions, current = store.data_files(table), store.versions(table), Snapshot.load(table, root).digest
    of_current = {name for version in versions if version.digest == current for name in _files(version, root)}
    used = store.used(table)
    return Space(
        table,
        len(versions),
        sum(size for name, size in sizes.items() if name in of_current),
        sum(size for name, size in sizes.items() if name in used - of_current),
        sum(size for name, size in sizes.items() if name not in used | of_current),
    )


def _files(version: Version, root: Path) -> list[str]:
    store = open_store(root)
    return [name for fragment in version.fragments for name in store.files(fragment.data)]


def dvc_cache_bytes(root: Path = Path()) -> int:
    """What DVC's cache takes; copies of the tables are in it where DVC holds them."""
    if not dvc.is_repository(root):
        return 0
    return sum(path.stat().st_size for path in dvc.cache_dir(root).glob("*/*") if path.is_file())


@dataclass(frozen=True)
class Dropped:
    """Versions of one table that were taken away, and the bytes that this freed."""

    table: str
    digests: list[str]
    freed_bytes: int


def unreferenced(root: Path = Path(), *, sole_owner: bool = False) -> dict[str, list[Version]]:
    """Table -> the versions that nothing refers to: not current, without a tag, and named by no commit.

    Args:
        root: Folder of the project.
        sole_owner: Whether no other project uses this lake; asked where it lies outside the project.

    Raises:
        UsageError: Another project may refer to versions.
        DataError: A commit names a version that cannot be told, so that nothing can be said.
    """
    if (uri := load_settings(root).lake.uri) and not sole_owner:
        raise UsageError(f"another project may refer to versions in {uri}", fix="say --sole-owner if none does")
    named = named_by_git(root)
    if named.unknown:
        raise DataError(
            f"Git names {len(named.unknown)} versions that DVC's cache cannot tell, such as {named.unknown[0]}",
            where="lake compact",
            fix="`dvc fetch --all-commits` brings them back; nothing was removed",
        )
    tags = read_tags(root).values()
    found = {}
    for table in tables(root):
        kept = {Snapshot.load(table, root).digest, *named.digests.get(table, ()), *(tag[table] for tag in tags if table in tag)}
        found[table] = [version for version in open_store(root).versions(table) if version.digest not in kept]
    return {table: versions for table, versions in found.items() if versions}


def drop(versions: Mapping[str, Sequence[Version]], root: Path = Path()) -> list[Dropped]:
    """Removes versions of tables with all that only they need, and tells DVC; ends what an earlier call that was killed began.

    Raises:
        LakeBusy: A stage that writes one of the tables is at work.
        UsageError: The project is not up to date, so that DVC could not be told.
    """
    store = open_store(root)
    begun: dict[str, list[Version]] = {table: [] for table in tables(root) if table not in versions and store.half_dropped(table)}
    versions = {**versions, **begun}
    held = dvc.is_repository(root) and load_settings(root).lake.held
    writers = sorted({dvc.writer(root, table) for table in versions})
    if held:
        dvc.require_up_to_date(root, writers)
    dropped = [_drop(table, of_table, root) for table, of_table in versions.items()]
    if dvc.is_repository(root):
        md5s = {Snapshot(table, version.digest, version.rows).md5 for table, of_table in versions.items() for version in of_table}
        dvc.forget_runs(root, md5s)
    if held:
        dvc.commit(root, writers)
    return dropped


def _drop(table: str, versions: Sequence[Version], root: Path) -> Dropped:
    store = open_store(root)
    with stage_lock(root, dvc.writer(root, table)):
        before = sum(store.data_files(table).values())
        store.drop(table, [version.digest for version in versions])
        return Dropped(table, [version.digest for version in versions], before - sum(store.data_files(table).values()))
