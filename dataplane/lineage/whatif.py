"""What changed thresholds would gain and lose in the select stage, from the stored signals alone.

A document's verdict can only flip where a changed rule says something else than before and every unchanged rule lets it
through. Where select has decided on these documents by the rules of params.yaml, its decisions say the latter; else the rules
are asked. Either takes one pass over the columns that they look at; no text is read but that of the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dataplane.lake.store import Data
from dataplane.lineage.flips import SPREAD, Flips, flag
from dataplane.lineage.signals import LANGUAGE, check
from dataplane.lineage.thresholds import WHERE, Change, change
from dataplane.schema import SIGNAL_SEPARATOR
from dataplane.snapshot import Snapshot, snapshot_path

SAMPLE_CHARS = 200
SAMPLES = 5
SIDES = {"gained": True, "lost": False}
SHOWN = ("doc_id", "source", "url", "text")


def whatif(question: str, root: Path = Path(), samples: int = SAMPLES) -> dict[str, Any]:
    """What the thresholds of a question would gain and lose.

    Args:
        question: ``gopher_quality.min_words=100, language.min_score=0.8``.
        root: Folder of the project.
        samples: Most documents shown of each side.

    Returns:
        The thresholds in their places, notes, and for `gained` and `lost` the documents, bytes and tokens in all, by
        source, by language (empty where none was measured) and by reason, with samples. Tokens are null without `tokens`.

    Raises:
        ParamsError: An unknown name or threshold, or a value that it does not take.
        DataError: `documents` is not there yet.
    """
    changed = change(question, root)
    snapshot = Snapshot.load("documents", root)
    data = snapshot.open()
    check([*changed.gone, *changed.new], data.schema, WHERE)
    flips = Flips(snapshot, data, changed, samples) if changed.gone or changed.new else None
    return {
        "documents": {"rows": snapshot.rows, "digest": snapshot.digest},
        "thresholds": [asdict(threshold) for threshold in changed.thresholds],
        "notes": _notes(changed, root),
        **{side: Side(data, flips, gained, samples).answer() for side, gained in SIDES.items()},
    }


def _notes(changed: Change, root: Path) -> list[str]:
    notes = []
    if not changed.gone and not changed.new:
        notes.append("no rule changes: these values are in force already, or say what is measured and not what is decided")
    for name in sorted({threshold.name for threshold in changed.thresholds if threshold.drops_now}):
        absent = _dropped_now(name, root)
        notes.append(
            f"{name} has `drop: now` in clean.pipeline: the {absent:,} documents that it left out are not in `documents`, so only what a"
            f" stricter threshold would lose is known here; what a looser one would gain, `dvc repro` tells"
        )
    return notes


def _dropped_now(name: str, root: Path) -> int:
    if not snapshot_path("clean_decisions", root).exists():
        return 0
    decisions = Snapshot.load("clean_decisions", root).to_table(columns=["doc_id"], among={"operator": [name]})
    return len(decisions.column("doc_id").unique())


class Side:
    """What is gained, or lost.

    Args:
        data: The table `documents`.
        flips: What flips; None where no rule changes.
        gained: Which side.
        samples: Most documents shown.
    """

    def __init__(self, data: Data, flips: Flips | None, gained: bool, samples: int) -> None:
        self._data, self._flips, self._gained, self._samples = data, flips, gained, samples
        self._cells = [cell for cell in flips.cells if cell["gained"] == gained] if flips else []
        self._reasons = flips.reasons[gained] if flips else {}

    def answer(self) -> dict[str, Any]:
        """Numbers and samples."""
        reasons = [(reason, [cell for cell in self._cells if self._holds(i, cell)]) for i, reason in enumerate(self._reasons)]
        has_language = LANGUAGE in self._data.schema.names
        return {
            **self._total(self._cells),
            "by_source": self._grouped("source"),
            "by_language": self._grouped("language") if has_language else [],
            "by_reason": _largest_first([{"reason": reason, **self._total(cells)} for reason, cells in reasons if cells]),
            "samples": self._shown(),
        }

    def _holds(self, i: int, cell: Mapping[str, Any]) -> bool:
        """Whether the i-th reason holds for a cell's documents."""
        return bool(cell[flag(self._gained, i)])

    def _grouped(self, name: str) -> list[dict[str, Any]]:
        groups: dict[Any, list[Mapping[str, Any]]] = {}
        for cell in self._cells:
            groups.setdefault(cell[name], []).append(cell)
        return _largest_first([{name: value, **self._total(members)} for value, members in groups.items()])

    def _total(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Sums of cells; `estimated_tokens` are among the tokens, and both are null where nothing tells bytes per token."""
        n_tokens = estimated = None
        if self._flips and self._flips.counted and all(cell["estimated"] is not None for cell in cells):
            estimated = round(sum(cell["estimated"] for cell in cells))
            n_tokens = sum(cell["known_tokens"] for cell in cells) + estimated
        return {
            "documents": sum(cell["documents"] for cell in cells),
            "bytes": sum(cell["bytes"] for cell in cells),
            "tokens": n_tokens,
            "estimated_tokens": estimated,
        }

    def _shown(self) -> list[dict[str, Any]]:
        """Some of the documents, with the signals that decide on them."""
        cell_of = {place: cell for cell in self._cells for place in cell["places"]}
        places = sorted(cell_of, key=lambda place: place * SPREAD % (1 << 32))[: self._samples]
        if not places or self._flips is None:
            return []
        looked_at = {reason: self._flips.flat.columns(rules) for reason, rules in self._reasons.items()}
        columns = list(dict.fromkeys([*SHOWN, *(name for names in looked_at.values() for name in names)]))
        documents = self._data.take(places, columns).to_pylist()
        return [self._sample(document, cell_of[place], looked_at) for place, document in zip(places, documents, strict=True)]

    def _sample(self, document: Mapping[str, Any], cell: Mapping[str, Any], looked_at: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        reasons = [reason for i, reason in enumerate(looked_at) if self._holds(i, cell)]
        signals = dict.fromkeys(name for reason in reasons for name in looked_at[reason])
        return {
            **{name: document[name] for name in SHOWN if name != "text"},
            "reasons": reasons,
            "signals": {name.replace(SIGNAL_SEPARATOR, "."): document[name] for name in signals},
            "text": document["text"][:SAMPLE_CHARS],
        }


def _largest_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["documents"], str(next(iter(row.values())))))
