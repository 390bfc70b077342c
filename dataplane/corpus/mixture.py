"""Mixture: how often each document is trained on, and in what order, so that groups get the shares asked for.

A group (a kind or a source) is sampled by whole epochs and a fraction of one more, chosen by hash. Occurrences are spread
evenly over the training order: every stretch of it has the shares of the whole, and a document comes again only after
about one epoch of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, FiniteFloat, field_validator

from dataplane.corpus.caps import CapParams
from dataplane.corpus.held_out import HeldOutParams
from dataplane.corpus.mixture_plan import GroupPlan, Plan, Size
from dataplane.errors import DataError, ParamsError, did_you_mean
from dataplane.kernels.hash_order import order_keys, rekey, unit
from dataplane.params import Params
from dataplane.schema import MIXTURE

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_NEAR_ENOUGH = 1e-3  # of what is wanted: the fraction of an epoch is not searched any closer
_ROUNDING = 1e-9  # epochs
_MAX_SKIPS = 4096  # documents passed over at most because they are larger than what is still missing


class MixParams(Params):
    """What the mixture is to be."""

    by: Literal["kind", "source"] = Field("kind", description="Column whose values are the groups.")
    targets: dict[str, FiniteFloat] = Field(
        {}, description="Group -> its share, in any unit (shares are divided by their sum); empty takes every group by `temperature`."
    )
    rest: float | None = Field(
        None,
        ge=0,
        description="Share that the groups not named in `targets` get together, in the same unit, split by `temperature`; 0 leaves them "
        "out; null refuses them.",
    )
    temperature: float = Field(
        1.0, gt=0, description="Groups without a target of their own get shares by size ** (1 / temperature): 1 by size, large: equal."
    )
    unit: Literal["bytes", "documents"] = Field("bytes", description="What shares and total count.")
    total: int | None = Field(
        None, ge=1, description="Size of the mixture; null takes the size of the corpus, or what max_epochs allows where that is less."
    )
    max_epochs: float = Field(4.0, gt=0, le=1000, description="How often a group is repeated at most. Source: arXiv:2305.16264.")
    seed: int = Field(0, ge=0, description="Changes which documents a fraction of an epoch takes, and the order.")
    cap: CapParams = Field(
        default_factory=lambda: CapParams.parse(None, where="mix.cap"),
        description="How many documents of one site are trained on at most.",
    )
    held_out: HeldOutParams = Field(
        default_factory=lambda: HeldOutParams.parse(None, where="mix.held_out"),
        description="What is kept out of training, to be measured on.",
    )

    @field_validator("targets")
    @classmethod
    def _not_negative(cls, targets: dict[str, float]) -> dict[str, float]:
        for group, share in targets.items():
            if share < 0:
                raise ValueError(f"the share of {group!r} is negative")
        if targets and not sum(targets.values()) > 0:
            raise ValueError("no group has a share above 0")
        return targets


@dataclass(frozen=True)
class Mixture:
    """The rows of the table `mixture`, in training order, and the plan with what was achieved."""

    table: pa.Table
    plan: Plan


def sizes(documents: pa.Table, params: MixParams) -> dict[str, Size]:
    """What each group has: group -> documents and units available, sorted by name."""
    names, codes = _groups(documents, params)
    weight = _units(documents, params)
    count = np.bincount(codes, minlength=len(names))
    units = np.bincount(codes, weights=weight, minlength=len(names))
    return {name: Size(int(count[i]), int(units[i])) for i, name in enumerate(names)}


def plan(available: Mapping[str, Size], params: MixParams) -> Plan:
    """What the mixture will be, before anything is done.

    Raises:
        ParamsError: A target names no group, or a group has no target and `rest` is null.
    """
    shares = _shares(available, params)
    total = float(params.total) if params.total is not None else _largest_total(available, shares, params)
    groups = []
    for name, size in available.items():
        wanted = shares[name] * total
        asked = _exact(wanted / size.units) if size.units else 0.0
        epochs = min(asked, params.max_epochs)
        groups.append(GroupPlan(name, size.documents, size.units, shares[name], wanted, asked, epochs, epochs * size.units))
    return Plan(params.by, params.unit, groups)


def mix(documents: pa.Table, params: MixParams) -> Mixture:
    """Samples the mixture.

    Args:
        documents: Columns doc_id, source, kind, n_bytes [n], held-out documents left out, each doc_id once.

    Raises:
        ParamsError: As `plan`.
        DataError: There is no document.
    """
    if not documents.num_rows:
        raise DataError("no document is left to mix", where="mix", fix="loosen the rules of `select`, or add sources")
    planned = plan(sizes(documents, params), params)
    names, codes = _groups(documents, params)
    weight = _units(documents, params)
    keys = order_keys(documents.column("doc_id"), f"mixture {params.seed}")
    by_key = np.lexsort((keys, codes))
    bounds = np.searchsorted(codes[by_key], np.arange(len(names) + 1))
    rows, epochs, places, taken = [], [], [], []
    for i, group in enumerate(planned.groups):
        members = by_key[bounds[i] : bounds[i + 1]]
        row, epoch = _occurrences(members, weight, group.epochs)
        rows.append(row)
        epochs.append(epoch)
        places.append(_places(unit(rekey(keys[row], "place")), row, epoch, weight))
        taken.append(int(weight[row].sum()))
    asked = np.array([group.asked_epochs for group in planned.groups])
    table = _table(documents, np.concatenate(rows), np.concatenate(epochs), np.concatenate(places), asked[codes], keys)
    return Mixture(table, planned.with_taken(taken))


def _groups(documents: pa.Table, params: MixParams) -> tuple[list[str], I64]:
    """Names of the groups, sorted, and the place of each document's group among them (int64 [n])."""
    encoded = documents.column(params.by).combine_chunks().fill_null("").dictionary_encode()
    names = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=lambda i: names[i])
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    return [names[i] for i in order], place[encoded.indices.to_numpy(zero_copy_only=False)]


def _units(documents: pa.Table, params: MixParams) -> I64:
    """What each document counts: int64 [n]."""
    if params.unit == "documents":
        return np.ones(documents.num_rows, np.int64)
    units: I64 = documents.column("n_bytes").to_numpy().astype(np.int64)
    return units


def _shares(available: Mapping[str, Size], params: MixParams) -> dict[str, float]:
    """Share of each group, which add up to 1."""
    for name in params.targets:
        if name not in available:
            message = f"target {name!r} is no {params.by} of the documents that are left, {did_you_mean(name, available)}"
            raise ParamsError(message, where="mix.targets", fix="correct the name, or take it out of mix.targets in params.yaml")
    others = [name for name in available if name not in params.targets]
    rest = params.rest if params.targets else 1.0
    if others and rest is None:
        message = f"no target for {params.by} {', '.join(map(repr, others))}"
        raise ParamsError(message, where="mix.targets", fix="name them in mix.targets, or set mix.rest (0 leaves them out)")
    powers = {name: float(available[name].units) ** (1 / params.temperature) for name in others}
    scale = (rest or 0.0) / (sum(powers.values()) or 1.0)
    shares = {name: params.targets[name] if name in params.targets else powers[name] * scale for name in available}
    total = sum(shares.values()) or 1.0
    return {name: share / total for name, share in shares.items()}


def _largest_total(available: Mapping[str, Size], shares: Mapping[str, float], params: MixParams) -> float:
    """The corpus's size, or the largest one at which no group runs short."""
    whole = float(sum(size.units for size in available.values()))
    limits = [params.max_epochs * size.units / shares[name] for name, size in available.items() if shares[name] > 0 and size.units]
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
