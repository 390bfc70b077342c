"""Where bytes lie: a folder on this machine or an object store (s3://...), behind one small interface.

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, ... as botocore reads them; AWS_ENDPOINT_URL for
servers other than Amazon's) and are passed on to nobody: they stand in no snapshot, run record or log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault

DEFAULT_REGION = "us-east-1"


def is_remote(uri: str) -> bool:
    """Whether a location is an object store rather than a folder."""
    return "://" in uri and not uri.startswith("file://")


def filesystem(uri: str) -> Any:
    """The fsspec file system that a location is on.

    Raises:
        EnvironmentFault: The package for this kind of store is not installed.
    """
    import fsspec

    if not is_remote(uri):
        return fsspec.filesystem("file")
    protocol = uri.partition("://")[0]
    options: dict[str, Any] = {}
    if protocol == "s3":
        # Two runs may write side by side: a listing kept from before would hide the other's files.
        options = {"use_listings_cache": False, "endpoint_url": os.environ.get("AWS_ENDPOINT_URL") or None}
    try:
        return fsspec.filesystem(protocol, **options)
    except ImportError as error:
        raise EnvironmentFault(f"{protocol}:// cannot be used: {error}", where=uri, fix="pip install 'terraplane[s3]'") from None


def lance_options(uri: str) -> dict[str, str] | None:
    """Lance's storage options for a location; what Lance itself takes from the environment is left to it."""
    if not uri.startswith("s3://"):
        return None
    options = {"aws_region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return options


def join(uri: str, *parts: str) -> str:
    """A location below another."""
    return "/".join([uri.rstrip("/"), *parts])


def put_text(uri: str, text: str) -> None:
    """Writes a small file so that a reader sees the old content or the new."""
    if is_remote(uri):
        filesystem(uri).pipe_file(uri, text.encode())
    else:
        write_atomically(Path(uri), text)


def get_text(uri: str) -> str:
    """Reads a small file.

    Raises:
        FileNotFoundError: It is not there.
    """
    data: bytes = filesystem(uri).cat_file(uri)
    return data.decode()


def sizes(uri: str) -> dict[str, int]:
    """Name -> bytes of the files directly in a folder; none where it is absent."""
    try:
        entries = filesystem(uri).ls(uri, detail=True)
    except FileNotFoundError:
        return {}
    return {entry["name"].rsplit("/", 1)[-1]: int(entry["size"]) for entry in entries if entry["type"] == "file"}


def modified_at(uri: str) -> float:
    """When a file was last written, in seconds since 1970."""
    return float(filesystem(uri).modified(uri).timestamp())


def remove(uri: str) -> None:
    """Removes a file, if it is there."""
    try:
        filesystem(uri).rm_file(uri)
    except FileNotFoundError:
        return


def write_atomically(path: Path, text: str) -> None:
    """Writes a local file so that a reader sees the old content or the new, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
