"""One raw file to rows of `raw` and `ingest_quarantine`, in batches bounded by bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import xxhash

from dataplane import schema
from dataplane.errors import PluginError
from dataplane.registry import entries, source_class
from dataplane.source import Fault, Record, Source
from dataplane.sources.archive import READ_ERRORS, Stream, container, open_streams, plain_name
from dataplane.sources.files import InputFile, SourceSpec

BATCH_BYTES = 16 << 20
BATCH_ROWS = 4096
MAX_MESSAGE_CHARS = 200
# Names without an ending that hold text in every tree.
TEXT_NAMES = frozenset({"readme", "license", "licence", "copying", "authors", "changelog", "notice", "news", "todo", "contributing"})


def format_of(name: str) -> str | None:
    """The format that claims a plain file name, by its longest ending; None where none does."""
    lower = name.lower()
    best: tuple[int, str] | None = None
    for format_name in entries("dataplane.sources"):
        for suffix in source_class(format_name).suffixes:
            if lower.endswith(suffix) and (best is None or len(suffix) > best[0]):
                best = (len(suffix), format_name)
    if best:
        return best[1]
    base = lower.replace("\\", "/").rpartition("/")[2]
    if base in TEXT_NAMES:
        return "text"
    from dataplane.sources.code_language import language_of

    return "code" if language_of(name) else None


def check_formats(specs: Sequence[SourceSpec]) -> None:
    """Loads every stated format with its options, so that a misspelt one shows before any work.

    Raises:
        PluginError, ParamsError: An unknown format, or an option that its format does not have.
    """
    for i, spec in enumerate(specs):
        if spec.format != "auto":
            source_class(spec.format, where=f"sources[{i}].format").Params.parse(spec.options, where=f"sources[{i}].options")
        elif spec.options and not any(_takes(name, spec.options) for name in entries("dataplane.sources")):
            message = f"no format takes the options {sorted(spec.options)}"
            raise PluginError(message, where=f"sources[{i}]", fix="correct them, or state `format`")


def _takes(format_name: str, options: Mapping[str, Any]) -> bool:
    return set(options) <= set(source_class(format_name).Params.model_fields)


def format_for(name: str, spec: SourceSpec) -> str | None:
    """The format of a stream of this plain name: as stated, else by the name."""
    return spec.format if spec.format != "auto" else format_of(name)


def source_of(format_name: str, spec: SourceSpec) -> Source:
    """The reader of a format; under `auto` options go to the formats that have them."""
    cls = source_class(format_name)
    options = spec.options if spec.format != "auto" or _takes(format_name, spec.options) else {}
    return cls(cls.Params.parse(options, where=f"options of source {spec.name!r}"))


def as_it_lies(format_name: str | None, name: str) -> bool:
    """Whether the format reads this compressed file itself."""
    if format_name is None or container(name) or plain_name(name) == name:
        return False
    return name.lower().endswith(source_class(format_name).seekable_compression or ("\0",))


class Reader:
    """Reads one file.

    Args:
        spec: The source it belongs to.
        file: The file.
        run_id: For quarantine rows.
    """

    def __init__(self, spec: SourceSpec, file: InputFile, run_id: str) -> None:
        self.spec, self.file, self.run_id = spec, file, run_id
        self.found = 0  # records and faults met so far
        self._seen: set[int] = set()  # ids of records that declare one; places differ by themselves
        self._raw: list[dict[str, Any]] = []
        self._bytes = 0
        self._faults: list[dict[str, Any]] = []

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """("raw" | "ingest_quarantine", batch), in the order of the file."""
        for row in self._rows():
            self.found += 1
            if row is not None:
                self._raw.append(row)
                self._bytes += len(row["payload"])
            if self._bytes >= BATCH_BYTES or len(self._raw) + len(self._faults) >= BATCH_ROWS:
                yield from self._flush()
        yield from self._flush()

    def _flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._raw:
            yield "raw", pa.RecordBatch.from_pylist(self._raw, schema=schema.RAW)
        if self._faults:
            yield "ingest_quarantine", pa.RecordBatch.from_pylist(self._faults, schema=schema.QUARANTINE)
        self._raw, self._faults, self._bytes = [], [], 0

    def _rows(self) -> Iterator[dict[str, Any] | None]:
        """A row for each record, None for each fault."""
        for found in self._streams():
            if isinstance(found, Stream) and not _is_storable(found.member):
                found = Fault(0, "BadName", "the member's name is not text; repack the archive")
            if isinstance(found, Stream):
                yield from self._stream(found)
            else:
                self._fault("", "", found)
                yield None

    def _streams(self) -> Iterator[Stream | Fault]:
        """The streams of the file; damage to the archive itself is the last of them."""
        if not _is_storable(self.file.uri):
            yield Fault(0, "BadName", "the file's name is not UTF-8; rename it")
            return
        try:
            if self.file.path.stat().st_size == 0:
                yield Fault(0, "Empty", "the file is empty")
                return
            yield from open_streams(self.file.path, lambda name: as_it_lies(format_for(plain_name(name), self.spec), name))
        except READ_ERRORS as error:
            yield Fault(-1, _class_of(error), f"the file cannot be read further: {_short(error)}")

    def _stream(self, stream: Stream) -> Iterator[dict[str, Any] | None]:
        format_name = format_for(stream.name, self.spec)
        if format_name is None:
            message = f"no format claims {stream.name.rpartition('/')[2]!r}; state `format` for the source"
            self._fault(stream.member, "", Fault(0, "UnknownFormat", message))
            yield None
            return
        before = self.found
        for found in _records(source_of(format_name, self.spec), stream):
            if isinstance(found, Record):
                yield self._row(found, stream, format_name)
            else:
                self._fault(stream.member, format_name, found)
                yield None
        if self.found == before:
            self._fault(stream.member, format_name, Fault(0, "NoRecords", f"no record of format {format_name!r} is in it"))
            yield None

    def _row(self, record: Record, stream: Stream, format_name: str) -> dict[str, Any] | None:
        id_128 = self._id(record, stream.member)
        doc_id = f"{id_128:032x}"
        if record.key is not None:
            if id_128 in self._seen:
                message = f"id {record.key!r} came before in this file"
                self._fault(stream.member, format_name, Fault(record.offset, "DoubledId", message), doc_id)
                return None
            self._seen.add(id_128)
        meta = dict(record.meta or {}) | ({"license": self.spec.license} if self.spec.license else {})
        return {
            "doc_id": doc_id, "source": self.spec.name, "kind": self.spec.kind, "format": format_name, "uri": self.file.uri,
            "member": stream.member, "offset": record.offset, "length": record.length, "row": record.row, "url": record.url,
            "mime": record.mime, "charset": record.charset, "fetched_at": record.fetched_at,
            "meta": json.dumps(meta, ensure_ascii=False, sort_keys=True) if meta else None, "payload": record.payload,
        }  # fmt: skip

    def _id(self, record: Record, member: str) -> int:
        place = record.key if record.key is not None else f"@{record.row if record.row is not None else record.offset}"
        return xxhash.xxh3_128_intdigest("\0".join((self.spec.name, self.file.key, member, place)).encode())

    def _fault(self, member: str, format_name: str, fault: Fault, doc_id: str | None = None) -> None:
        self._faults.append({
            "doc_id": doc_id, "run_id": self.run_id, "stage": "ingest", "source": self.spec.name, "uri": _shown(self.file.uri),
            "member": _shown(member), "offset": fault.offset, "operator": format_name, "op_id": "", "error": fault.error,
            "message": _shown(fault.message)[:MAX_MESSAGE_CHARS],
        })  # fmt: skip


def _records(source: Source, stream: Stream) -> Iterator[Record | Fault]:
    """What is in a stream; damage to its compression is the last of it."""
    try:
        yield from source.read(stream.file, stream.name)
    except READ_ERRORS as error:
        yield Fault(-1, _class_of(error), f"the stream cannot be read further: {_short(error)}")


def _is_storable(name: str) -> bool:
    """Whether a name is text: bytes of it that are no UTF-8 come from the file system as lone surrogates."""
    return _shown(name) == name


def _shown(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _class_of(error: BaseException) -> str:
    name = type(error).__name__
    return "ZlibError" if name == "error" else name


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:MAX_MESSAGE_CHARS]
