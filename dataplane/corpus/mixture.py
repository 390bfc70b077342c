"""Mixture: how often each document is trained on, and in what order, so that groups get the shares asked for.

A group (a kind, a language, whatever SQL tells apart) is sampled by whole epochs and a fraction of one more, chosen by hash.
Occurrences are spread evenly over the training order, or over each phase of it: every stretch has the shares of the whole, and a
document comes again only after about one epoch of its group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, FiniteFloat, model_validator

from dataplane.corpus.caps import CapParams
from dataplane.corpus.groups import coded, group_names
from dataplane.corpus.held_out import HeldOutParams
from dataplane.corpus.mixture_plan import GroupPlan, PhasePlan, Plan, Size
from dataplane.corpus.shares import SharesParams, shares
from dataplane.errors import DataError, ParamsError, did_you_mean
from dataplane.kernels.hash_order import order_keys, rekey, unit
from dataplane.schema import MIXTURE

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_NEAR_ENOUGH = 1e-3  # of what is wanted: the fraction of an epoch is not searched any closer
_ROUNDING = 1e-9  # epochs
_MAX_SKIPS = 4096  # documents passed over at most because they are larger than what is still missing


class Phase(SharesParams):
    """A stretch of training with shares of its own."""

    name: str = Field(min_length=1, description="Name in the plan.")
    share: float = Field(gt=0, description="Its part of the mixture's total, in any unit (parts are divided by their sum).")


class MixParams(SharesParams):
    """What the mixture is to be."""

    by: str = Field(
        "kind",
        min_length=1,
        description="What the groups are: SQL over the columns of documents and their signals, as source, language.lang or "
        "CASE WHEN kind = 'web' THEN language.lang ELSE kind END.",
    )
    unit: Literal["bytes", "documents", "tokens"] = Field(
        "bytes", description="What shares and total count; tokens are those of `tokenizer`."
    )
    tokenizer: str = Field("", description="A tokenizer.json made before, relative to the project, that tokens are counted with.")
    total: int | None = Field(
        None, ge=1, description="Size of the mixture; null takes the size of the corpus, or what max_epochs allows where that is less."
    )
    max_epochs: float = Field(4.0, gt=0, le=1000, description="How often a group is repeated at most. Source: arXiv:2305.16264.")
    max_epochs_of: dict[str, Annotated[FiniteFloat, Field(gt=0, le=1000)]] = Field(
        {}, description="Group -> how often it is repeated at most, where that is not max_epochs."
    )
    phases: list[Phase] = Field(
        [],
        description="Stretches of training in their order, each with shares of its own (a curriculum, or better text at the end): a group "
        "goes on in a phase where it stopped in the one before. Empty: one, with the shares above.",
    )
    seed: int = Field(0, ge=0, description="Changes which documents a fraction of an epoch takes, and the order.")
    cap: CapParams = Field(
        default_factory=lambda: CapParams.parse(None, where="mix.cap"),
        description="How many documents of one site are trained on at most.",
    )
    held_out: HeldOutParams = Field(
        default_factory=lambda: HeldOutParams.parse(None, where="mix.held_out"),
        description="What is kept out of training, to be measured on.",
    )

    @model_validator(mode="after")
    def _fit(self) -> MixParams:
        if self.phases and (self.targets or self.replay or self.rest is not None):
            raise ValueError("with phases, targets, rest and replay are those of each phase")
        if (self.unit == "tokens") != bool(self.tokenizer):
            raise ValueError("unit: tokens and a tokenizer to count them with go together")
        return self

    def most(self, group: str) -> float:
        """How often a group is repeated at most."""
        return self.max_epochs_of.get(group, self.max_epochs)


@dataclass(frozen=True)
class Mixture:
    """The rows of the table `mixture`, in training order, and the plan with what was achieved."""

    table: pa.Table
    plan: Plan


def sizes(documents: pa.Table, params: MixParams) -> dict[str, Size]:
    """What each group has: group -> documents and units available, sorted by name."""
    return _sizes(*coded(group_names(documents, params.by)), _units(documents, params))


def _sizes(names: list[str], codes: I64, weight: I64) -> dict[str, Size]:
    count = np.bincount(codes, minlength=len(names))
    units = np.bincount(codes, weights=weight, minlength=len(names))
    return {name: Size(int(count[i]), int(units[i])) for i, name in enumerate(names)}


def plan(available: Mapping[str, Size], params: MixParams, where: str = "mix") -> Plan:
    """What the mixture will be, before anything is done.

    Raises:
        ParamsError: A target or an own max_epochs names no group, or a group has no target and `rest` is null.
    """
    for name in params.max_epochs_of:
        if name not in available:
            message = f"{name!r} is no {params.by} of the documents that are left, {did_you_mean(name, available)}"
            raise ParamsError(message, where=f"{where}.max_epochs_of", fix="correct the name")
    phases = _phases(available, params, where)
    asked = {name: sum(part * of[name] for _, part, of in phases) for name in available}
    total = float(params.total) if params.total is not None else _largest_total(available, asked, params)
    groups = []
    for name, size in available.items():
        wanted = asked[name] * total
        epochs = _exact(wanted / size.units) if size.units else 0.0
        given = min(epochs, params.most(name))
        groups.append(GroupPlan(name, size.documents, size.units, asked[name], wanted, epochs, given, given * size.units))
    told = [PhasePlan(name, part, of, {}) for name, part, of in phases] if params.phases else []
    return Plan(params.by, params.unit, groups, told)


def _phases(available: Mapping[str, Size], params: MixParams, where: str) -> list[tuple[str, float, dict[str, float]]]:
    """Name, part of the whole and shares of the groups, of each phase."""
    whole = float(params.total or sum(size.units for size in available.values()))
    parts = sum(phase.share for phase in params.phases)
    if not params.phases:
        return [("", 1.0, shares(available, params, params.by, whole, params.most, where))]
    return [
        (phase.name, phase.share / parts, shares(available, phase, params.by, whole * phase.share / parts, params.most, where))
        for phase in params.phases
    ]


def mix(documents: pa.Table, params: MixParams, where: str = "mix") -> Mixture:
    """Samples the mixture.

    Args:
        documents: Columns doc_id, source, kind, n_bytes and what `by` looks at [n], n_tokens where tokens are counted; held-out documents
            left out, each doc_id once.
        params: What it is to be.
        where: Path of the params, for messages.

    Raises:
        ParamsError: As `plan`.
        DataError: There is no document.
    """
    if not documents.num_rows:
        raise DataError("no document is left to mix", where=where, fix="loosen the rules of `select`, or add sources")
    names, codes = coded(group_names(documents, params.by, where))
    weight = _units(documents, params)
    planned = plan(_sizes(names, codes, weight), params, where)
    keys = order_keys(documents.column("doc_id"), f"mixture {params.seed}")
    by_key = np.lexsort((keys, codes))
    bounds = np.searchsorted(codes[by_key], np.arange(len(names) + 1))
    rows, epochs, places, taken = [], [], [], []
    for i, group in enumerate(planned.groups):
        members = by_key[bounds[i] : bounds[i + 1]]
        row, epoch = _occurrences(members, weight, group.epochs)
        place = _places(unit(rekey(keys[row], "place")), row, epoch, weight)
        place = in_phases(place, weight[row], [phase.part * phase.asked[group.name] for phase in planned.phases])
        rows.append(row)
        epochs.append(epoch)
        places.append(place)
        taken.append(int(weight[row].sum()))
    asked = np.array([group.asked_epochs for group in planned.groups])
    made = [np.bincount(place.astype(np.int64), weight[row], len(planned.phases)) for place, row in zip(places, rows, strict=True)]
    achieved = planned.with_taken(taken).with_phases({name: units.tolist() for name, units in zip(names, made, strict=True)})
    table = _table(documents, np.concatenate(rows), np.concatenate(epochs), np.concatenate(places), asked[codes], keys)
    return Mixture(table, achieved)


def in_phases(places: F64, weight: I64, parts: Sequence[float]) -> F64:
    """Where in training each occurrence of one group comes, from 0 to the number of phases: float64 [m].

    The group's occurrences keep their order; each phase takes its part of their units, spread evenly over it.

    Args:
        places: Where they would come without phases: float64 [m].
        weight: Their units: int64 [m].
        parts: What each phase gets of the group, in any unit; none: there are no phases.
    """
    if not parts or not len(places) or not sum(parts):
        return places
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(weight[order], dtype=np.float64)
    middle = (ends - weight[order] / 2) / max(float(ends[-1]), 1.0)
    bounds = np.concatenate([np.zeros(1), np.cumsum(parts) / sum(parts)])
    phase = np.clip(np.searchsorted(bounds, middle, side="right") - 1, 0, len(parts) - 1)
    width = np.where(bounds[phase + 1] > bounds[phase], bounds[phase + 1] - bounds[phase], 1.0)
    out = np.empty(len(places), np.float64)
    # Below the next phase's begin, whatever rounding does.
    out[order] = phase + np.clip((middle - bounds[phase]) / width, 0, 1 - 1e-9)
    return out


def _units(documents: pa.Table, params: MixParams) -> I64:
    """What each document counts: int64 [n]."""
    if params.unit == "documents":
        return np.ones(documents.num_rows, np.int64)
    units: I64 = documents.column("n_tokens" if params.unit == "tokens" else "n_bytes").to_numpy().astype(np.int64)
    return units


def _largest_total(available: Mapping[str, Size], asked: Mapping[str, float], params: MixParams) -> float:
    """The corpus's size, or the largest one at which no group runs short."""
    whole = float(sum(size.units for size in available.values()))
    limits = [params.most(name) * size.units / asked[name] for name, size in available.items() if asked[name] > 0 and size.units]
    return min([whole, *limits])


def _exact(epochs: float) -> float:
    """Takes rounding errors off: 0.9999999999 epochs are one, and not all but one document."""
    whole = round(epochs)
    return float(whole) if abs(epochs - whole) < _ROUNDING else epochs


def _occurrences(members: I64, weight: I64, epochs: float) -> tuple[I64, npt.NDArray[np.int32]]:
    """Rows and epoch numbers of one group: whole epochs, then part of one.

    Args:
        members: Rows of the group, in the order of their keys: int64 [m].
        weight: Units of each row of the corpus: int64 [n].
    """
    whole = int(epochs)
    last = members[_fraction(weight[members], (epochs - whole) * float(weight[members].sum()))]
    rows = np.concatenate([*([members] * whole), last])
    numbers = np.concatenate([np.repeat(np.arange(whole, dtype=np.int32), len(members)), np.full(len(last), whole, np.int32)])
    return rows, numbers


def _fraction(weight: I64, wanted: float) -> I64:
    """Places of the first documents that together come nearest to `wanted` units, passing over those too large.

    Args:
        weight: Units of the documents in order: int64 [m].
    """
    if wanted <= 0 or not len(weight):
        return np.zeros(0, np.int64)
    ends = np.cumsum(weight)
    parts: list[I64] = []
    skipped: list[int] = []
    at, missing = 0, wanted
    while at < len(weight) and missing > wanted * _NEAR_ENOUGH and len(skipped) < _MAX_SKIPS:
        before = int(ends[at] - weight[at])
        stop = int(np.searchsorted(ends, before + missing, side="right"))
        if stop > at:
            parts.append(np.arange(at, stop))
            missing -= float(ends[stop - 1] - before)
        if stop < len(weight):
            skipped.append(stop)
        at = stop + 1
    if skipped:
        nearest = min(skipped, key=lambda place: (abs(float(weight[place]) - missing), place))
        if abs(float(weight[nearest]) - missing) < missing:
            parts.append(np.array([nearest]))
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _places(chance: F64, rows: I64, epochs: npt.NDArray[np.int32], weight: I64) -> F64:
    """Where in training, from 0 to 1, each occurrence of one group comes: float64 [m].

    Each epoch fills its part of the time, as large as its part of the group's units.
    """
    units = np.bincount(epochs, weights=weight[rows]) if len(rows) else np.zeros(0)
    if not units.sum():
        return chance
    starts = np.concatenate([np.zeros(1), np.cumsum(units)]) / units.sum()
    spread: F64 = starts[epochs] + chance * (starts[epochs + 1] - starts[epochs])
    return spread


def _table(
    documents: pa.Table, rows: I64, epochs: npt.NDArray[np.int32], places: F64, weight: F64, keys: npt.NDArray[np.uint64]
) -> pa.Table:
    order = np.lexsort((epochs, keys[rows], places))
    rows, epochs = rows[order], epochs[order]
    taken = documents.select(["doc_id", "source", "kind"]).take(pa.array(rows))
    columns = [*taken.columns, pa.array(weight[rows]), pa.array(epochs), pa.array(np.arange(len(rows), dtype=np.int64))]
    return pa.table(columns, names=MIXTURE.names).cast(MIXTURE)
