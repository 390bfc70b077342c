"""Where bytes lie: a folder on this machine or an object store (s3://...), behind one small interface.

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, ... as botocore reads them; AWS_ENDPOINT_URL for
servers other than Amazon's) and are passed on to nobody: they stand in no snapshot, run record or log. A store's own error
text may quote key ids and signed requests, so only its error code is told.
"""

from __future__ import annotations

import fcntl
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from dataplane.errors import EnvironmentFault

DEFAULT_REGION = "us-east-1"
PARTIAL = ".partial"  # ends the name of a small file that is being written
MAX_RETRIES = 8  # with the pauses between them about half a minute: a busy or restarted server is back by then
NO_BUCKET = ("NoSuchBucket", "NO_SUCH_BUCKET", "InvalidBucketName")
NO_FILE = ("NoSuchKey", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND")  # Arrow's words are in capitals
NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "CredentialsNotFound")
REFUSED = (
    "400", "401", "403", "AccessDenied", "ACCESS_DENIED", "ExpiredToken", "Forbidden", "InvalidAccessKeyId", "INVALID_ACCESS_KEY_ID",
    "INVALID_SIGNATURE", "InvalidToken", "SignatureDoesNotMatch", "SIGNATURE_DOES_NOT_MATCH",
)  # fmt: skip
CLIENT_SIGNS = ("botocore.", "AWS Error ")
CODES = (
    r"<Code>(\w+)</Code>",
    r"AWS Error (\w+)",
    r"An error occurred \((\w+)\)",
    r"status code: (\d+)",
    r"botocore\.exceptions\.(\w+)",
)
LANCE_SIGNS = ("S3 error", "AWS credentials", "necessary privileges")

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class File:
    """A file in a listing.

    Attributes:
        bytes: Its size.
        modified: When it was last written, in seconds since 1970.
    """

    bytes: int
    modified: float


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
        # Two runs may write side by side: a listing kept from before would hide the other's files. And Parquet's reader
        # asks for the ranges that it needs: reading ahead would fetch 50 MB for a row.
        options = {"use_listings_cache": False, "default_cache_type": "none", "endpoint_url": _endpoint()}
    try:
        return fsspec.filesystem(protocol, **options)
    except ImportError as error:
        raise EnvironmentFault(f"{protocol}:// cannot be used: {error}", where=uri, fix="pip install 'terraplane[s3]'") from None


def arrow_files(uris: list[str]) -> tuple[list[str], Any]:
    """Locations as Arrow's data sets take them, and the file system that they are on.

    For S3 it is Arrow's own: a data set over a file system in Python can wait for ever when a read fails, since the thread
    that starts a scan holds Python's lock while another needs it to report the failure.
    """
    if not (uris and uris[0].startswith("s3://")):
        return uris, filesystem(uris[0] if uris else "")
    from pyarrow import fs

    retries = fs.AwsStandardS3RetryStrategy(max_attempts=MAX_RETRIES)
    remote = fs.S3FileSystem(region=_region(), endpoint_override=_endpoint(), retry_strategy=retries)
    return [uri.removeprefix("s3://") for uri in uris], remote


def lance_options(uri: str) -> dict[str, str] | None:
    """Lance's storage options for a location; what Lance itself takes from the environment is left to it."""
    if not uri.startswith("s3://"):
        return None
    options = {"aws_region": _region(), "client_max_retries": str(MAX_RETRIES)}
    if endpoint := _endpoint():
        options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return options


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def _endpoint() -> str | None:
    """Where the S3 server is, if it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def join(uri: str, *parts: str) -> str:
    """A location below another."""
    return "/".join([uri.rstrip("/"), *parts])


def put_text(uri: str, text: str) -> None:
    """Writes a small file so that a reader sees the old content or the new."""
    if is_remote(uri):
        with faults(uri):
            filesystem(uri).pipe_file(uri, text.encode())
    else:
        write_atomically(Path(uri), text)


def get_text(uri: str) -> str:
    """Reads a small file.

    Raises:
        FileNotFoundError: It is not there.
    """
    with faults(uri):
        data: bytes = filesystem(uri).cat_file(uri)
    return data.decode()


def files(uri: str) -> dict[str, File]:
    """Name -> what a listing tells of the files directly in a folder; none where it is absent."""
    try:
        with faults(uri):
            entries = filesystem(uri).ls(uri, detail=True)
    except FileNotFoundError:
        return {}
    return {entry["name"].rsplit("/", 1)[-1]: File(int(entry["size"]), _modified(entry)) for entry in entries if entry["type"] == "file"}


def _modified(entry: dict[str, Any]) -> float:
    """When a listed file was written; file systems name and give it differently."""
    return float(entry["mtime"]) if "mtime" in entry else float(entry["LastModified"].timestamp())


def sizes(uri: str) -> dict[str, int]:
    """Name -> bytes of the files directly in a folder; none where it is absent."""
    return {name: file.bytes for name, file in files(uri).items()}


def remove(uri: str) -> None:
    """Removes a file, if it is there."""
    try:
        with faults(uri):
            filesystem(uri).rm_file(uri)
    except FileNotFoundError:
        return


@contextmanager
def faults(uri: str) -> Iterator[None]:
    """Turns what an object store or the way to it raises into an error that says how to mend it. A missing file is no such fault.

    Raises:
        EnvironmentFault: The store is away, busy for too long, without the bucket, or refuses access.
    """
    try:
        yield
    except Exception as error:
        if not is_fault(uri, error):
            raise
        raise _fault(uri, str(_code(error))) from None


def is_fault(uri: str, error: BaseException) -> bool:
    """Whether `faults` turns this error into one of its own."""
    code = _code(error) if is_remote(uri) else None
    return code is not None and (code in NO_BUCKET or not isinstance(error, FileNotFoundError))


def fault_told(where: str, text: str) -> EnvironmentFault | None:
    """The fault that an error's text tells of, for errors that come through DuckDB as text."""
    code = _code_in(text)
    return _fault(where, code) if code else None


def reports_faults(cls: _Class) -> _Class:
    """Class decorator: the public methods of a class with a `uri` raise the object store's faults as `faults` does."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, _streaming(member) if inspect.isgeneratorfunction(member) else _calling(member))
    return cls


def _calling(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        with faults(self.uri):
            return method(self, *args, **options)

    return call


def _streaming(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(method)
    def stream(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        with faults(self.uri):
            yield from method(self, *args, **options)

    return stream


def _code(error: BaseException) -> str | None:
    """The object store's own word for what went wrong, or the name of its client's error; None for errors of other kinds."""
    module = type(error).__module__.partition(".")[0]
    response = getattr(error, "response", None)
    if module == "botocore" and isinstance(response, dict):
        return str(response["Error"].get("Code"))
    if module in ("aiohttp", "botocore") or type(error).__name__ == "FSTimeoutError":
        return type(error).__name__
    if code := _code_in(str(error)):
        return code
    return _code(error.__cause__) if error.__cause__ is not None else None


def _code_in(text: str) -> str | None:
    """The code in the text of an error, for what hands on no more than that; None where it tells of no object store."""
    if not (any(sign in text for sign in CLIENT_SIGNS) or ("LanceError" in text and any(sign in text for sign in LANCE_SIGNS))):
        return None
    for pattern in CODES:
        if found := re.search(pattern, text):
            return None if found[1] in NO_FILE else found[1]
    if "necessary privileges" in text:
        return "AccessDenied"
    return "CredentialsNotFound" if "AWS credentials" in text else "ConnectionError"


def _fault(uri: str, code: str) -> EnvironmentFault:
    if code in NO_BUCKET:
        what, fix = "the bucket is not there", "create it, or correct lake.uri (settings.yaml or TERRAPLANE_LAKE_URI)"
    elif code in NO_CREDENTIALS:
        what, fix = "no credentials were found", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    elif code in REFUSED:
        what, fix = "the object store refuses access", "check the credentials and that they may list, read, write and delete here"
    elif code == "RequestTimeTooSkewed":
        what, fix = "this machine's clock differs from the object store's", "set the clock"
    else:
        what, fix = (
            "the object store does not answer",
            "check the network and AWS_ENDPOINT_URL, then run the same again: finished work is kept",
        )
    return EnvironmentFault(f"{what} ({code})", where=uri, fix=fix)


def write_atomically(path: Path, text: str, owner: str = "") -> None:
    """Writes a local file so that a reader sees the old content or the new, also after a power cut.

    Args:
        path: The file.
        text: What it will hold.
        owner: Name of what is half-written, for all files that one writes to this folder; by default the file's own. What a killed
            process left under it is overwritten by the next; of two at once the second waits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{owner or path.name}{PARTIAL}")
    with _alone(partial) as stream:
        try:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def _alone(path: Path) -> Iterator[TextIO]:
    """An empty file to write to, which nobody else writes to meanwhile; the lock ends with its process."""
    while True:
        with path.open("a", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            # Whoever held the lock has renamed the file that we opened.
            if _inode(path) != os.fstat(stream.fileno()).st_ino:
                continue
            stream.truncate(0)
            yield stream
            return


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
