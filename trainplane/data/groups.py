"""Which source and language each span of the training sequences is of, so that losses can be told by them.

Two bytes a span beside the local copy, made in one pass; while it is made, 18 bytes of memory for each document of the lake. This is for
watching alone: no weight and no hash depends on it, so pretraining is not run again when a document's language is measured anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataplane.schema import signal_column
from dataplane.snapshot import Snapshot
from trainplane.data.flat import FlatPacked

SOURCE, LANGUAGE = "source", signal_column("language", "lang")
SHOWN_AS = {SOURCE: "source", LANGUAGE: "lang"}  # column of `documents` -> what groups are told by
UNKNOWN = 0  # code of a document that the lake no longer has
SPANS_AT_ONCE = 1 << 20
ID_BYTES = 16


def columns(documents: Snapshot) -> list[str]:
    """The columns of `documents` that name groups, as far as they were measured."""
    there = documents.schema.names
    return [name for name in SHOWN_AS if name in there]


@dataclass(frozen=True)
class SpanGroups:
    """Groups of the spans of a local copy.

    Attributes:
        flat: The copy.
        codes: uint16 [spans], number of the group of each.
        names: What each number stands for: "source" and "lang", as far as they are known.
    """

    flat: FlatPacked
    codes: npt.NDArray[np.uint16]
    names: list[dict[str, str]]

    @classmethod
    def of(cls, flat: FlatPacked, documents: Snapshot) -> SpanGroups:
        """The groups of a copy, made where they are not there yet."""
        path = flat.folder / f"groups.{documents.digest}.npy"
        told = path.with_suffix(".json")
        if not (path.exists() and told.exists()):
            _make(flat, documents, path, told)
        return cls(flat, np.load(path, mmap_mode="r"), json.loads(told.read_text(encoding="utf-8")))

    def sums(self, seq_ids: npt.NDArray[np.int64], document_losses: Sequence[Sequence[float]]) -> dict[str, tuple[float, int]]:
        """Summed loss and predicted tokens of each group in a step.

        Args:
            seq_ids: int64 [b], of the global batch.
            document_losses: Mean of each document of each sequence, nats.

        Returns:
            "source/NAME" and "lang/NAME" -> (nats, tokens). All tokens of a document but one count as predicted, for masked models too.
        """
        rows, _ = self.flat.span_rows(seq_ids)
        tokens = self.flat.span_lengths(rows) - 1
        means = np.array([mean for of_sequence in document_losses for mean in of_sequence])
        codes = self.codes[rows].astype(np.int64)
        nats, counts = (np.bincount(codes, weights=values, minlength=len(self.names)) for values in (means * tokens, tokens))
        found: dict[str, tuple[float, int]] = {}
        for code in np.flatnonzero(counts).tolist():
            for by, name in self.names[code].items():
                before = found.get(f"{by}/{name}", (0.0, 0))
                found[f"{by}/{name}"] = before[0] + float(nats[code]), before[1] + int(counts[code])
        return found


@dataclass
class GroupLosses:
    """Losses by group since they were last told.

    Attributes:
        sums: Group -> [nats, tokens]; goes into checkpoints.
    """

    sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, more: Mapping[str, tuple[float, int]]) -> None:
        """Adds a step."""
        for name, (nats, tokens) in more.items():
            here = self.sums.setdefault(name, [0.0, 0])
            here[0] += nats
            here[1] += tokens

    def take(self) -> dict[str, float]:
        """The mean of each group, nats a token; begins anew."""
        means = {name: nats / tokens for name, (nats, tokens) in sorted(self.sums.items()) if tokens}
        self.sums = {}
        return means


def means_by_group(nats: Iterable[float], tokens: Iterable[int], names: Mapping[str, Sequence[str | None]]) -> dict[str, float]:
    """Token-weighted means of groups of documents.

    Args:
        nats: Summed loss of each document.
        tokens: Its predicted tokens.
        names: "source", "lang" -> name of each document's group, None where it is not known.
    """
    of, losses = list(zip(nats, tokens, strict=True)), GroupLosses()
    for by, groups in names.items():
        for name, (loss, count) in zip(groups, of, strict=True):
            if name is not None:
                losses.add({f"{by}/{name}": (float(loss), int(count))})
    return losses.take()


def _make(flat: FlatPacked, documents: Snapshot, path: Path, told: Path) -> None:
    keys, codes, names = _of_documents(documents)
    written = np.full(flat.n_spans, UNKNOWN, np.uint16)
    for start in range(0, flat.n_spans, SPANS_AT_ONCE):
        wanted = flat.doc_keys(slice(start, start + SPANS_AT_ONCE))
        places = np.searchsorted(keys, wanted)
        here = np.flatnonzero(places < len(keys))
        here = here[keys[places[here]] == wanted[here]]
        written[start + here] = codes[places[here]]
    partial = told.with_suffix(".partial")
    partial.write_text(json.dumps(names), encoding="utf-8")
    partial.replace(told)
    with partial.open("wb") as stream:
        np.save(stream, written)
    partial.replace(path)


def _of_documents(documents: Snapshot) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.uint16], list[dict[str, str]]]:
    """Sorted ids (16 bytes each) and the number of each one's group, with what the numbers stand for."""
    by, numbers = columns(documents), dict[tuple[str | None, ...], int]()
    keys, codes = [np.empty(0, f"S{ID_BYTES}")], [np.empty(0, np.uint16)]
    for batch in documents.batches(["doc_id", *by]):
        text = "".join(batch.column("doc_id").to_pylist())
        keys.append(np.frombuffer(bytes.fromhex(text), f"S{ID_BYTES}"))
        rows = zip(*(batch.column(name).to_pylist() for name in by), strict=True)
        codes.append(np.array([numbers.setdefault(row, len(numbers) + 1) for row in rows], np.uint16))
    whole, of = np.concatenate(keys), np.concatenate(codes)
    order = np.argsort(whole)
    names = [{}, *({SHOWN_AS[name]: value for name, value in zip(by, row, strict=True) if value is not None} for row in numbers)]
    return whole[order], of[order], names
