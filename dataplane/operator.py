"""What an outsider writes: an Annotator measures, a Filter also decides, a Transform rewrites text.

An operator is a class registered under the entry-point group ``dataplane.operators`` by its own `name`.
The runner makes one instance for each worker, calls `open` once, then hands it Arrow batches that hold
exactly the columns of `reads`. It must return one value for each row, in order, and leave the batch alone.

    class EmojiRatio(Filter):
        name, version = "emoji_ratio", "1"
        reads = {"text": pa.large_string()}
        writes = {"ratio": pa.float32()}

        class Params(dataplane.Params):
            max_ratio: float = Field(0.1, ge=0, le=1, description="Highest share of emoji kept, by character.")

        def annotate(self, batch): ...
        def rules(self):
            return {"too_many_emoji": f"emoji_ratio.ratio > {self.params.max_ratio}"}
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dataplane.params import DIGEST_HEX_CHARS, digest
from dataplane.params import Params as BaseParams

# What `reads` may name beside signals of earlier operators ("language__lang").
READABLE = frozenset({"doc_id", "source", "kind", "url", "mime", "text"})


class Operator(ABC):
    """Common ground of annotators, filters and transforms.

    Class attributes:
        name: Lower-case name; the entry point and the SQL struct carry it.
        version: Bump when any output can change.
        reads: Column -> Arrow type of what the batch must hold.
        writes: Signal -> Arrow type of what it adds, stored as ``name__signal``.
        Params: The operator's params class; every field has a description and a default.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    reads: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}
    writes: ClassVar[Mapping[str, pa.DataType]] = {}
    Params: ClassVar[type[BaseParams]] = BaseParams

    def __init__(self, params: Mapping[str, Any] | BaseParams | None = None) -> None:
        parsed = params if isinstance(params, BaseParams) else self.Params.parse(params, where=f"params of operator {self.name!r}")
        # Any: each subclass's own Params class types its fields, which the base cannot know.
        self.params: Any = parsed

    def files(self) -> list[Path]:
        """Files that change the output (models, word lists); their content is part of the identity."""
        return []

    def open(self) -> None:
        """Loads models. Called once in each worker before the first batch."""

    def close(self) -> None:
        """Lets go of what `open` took."""

    @property
    def op_id(self) -> str:
        """128-bit identity: digest of name, version, resolved params and the content of `files`."""
        return digest(
            {
                "name": self.name,
                "version": self.version,
                "params": self.params.model_dump(mode="json"),
                "files": [file_digest(path) for path in self.files()],
            }
        )


class Annotator(Operator):
    """Measures: adds signals, leaves text alone."""

    @abstractmethod
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Signals of each row: the keys and types of `writes`, each `len(batch)` long."""


class Filter(Annotator):
    """Measures and decides."""

    @abstractmethod
    def rules(self) -> Mapping[str, str]:
        """Reason -> SQL predicate over signals that is true where the document is dropped."""


@dataclass(frozen=True)
class Rewrite:
    """What a transform returns.

    Attributes:
        text: large_string [n], the new text; null sends the row to quarantine.
        edits: Kind of edit -> integers [n], how often it was made in each row.
        signals: The arrays of `writes`, if the transform also measures.
        spans: Kind of edit -> list<struct<start, stop>> [n] (`dataplane.schema.EDIT_SPANS`), where it was made, in code points of the text
            before; for transforms that can tell.
    """

    text: pa.Array
    edits: Mapping[str, pa.Array] = field(default_factory=dict)
    signals: Mapping[str, pa.Array] = field(default_factory=dict)
    spans: Mapping[str, pa.Array] = field(default_factory=dict)


class Transform(Operator):
    """Rewrites text, for the same documents, and counts its edits by kind.

    Class attributes:
        edits: The kinds of edit it can make (a closed set).
    """

    edits: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text and edit counts of each row."""


def file_digest(path: Path) -> str:
    """128-bit hex digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:DIGEST_HEX_CHARS]
