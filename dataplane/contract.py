"""Checks on what an operator returns, and on its class. A broken contract fails the run: it is a fault of code, not of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import ContractError
from dataplane.operator import READABLE, Annotator, Filter, Operator, Rewrite, Transform
from dataplane.schema import NAME, SIGNAL_SEPARATOR

SHOWN_IDS = 3


def check_annotation(operator: Operator, batch: pa.RecordBatch, signals: Mapping[str, pa.Array]) -> None:
    """Holds signals against `writes`.

    Args:
        operator: Who made them.
        batch: What it was given, [n] rows.
        signals: What it returned.

    Raises:
        ContractError: Names, types or lengths differ; every fault is named.
    """
    if not isinstance(signals, Mapping):
        raise _fault(operator, batch, [f"returned {type(signals).__name__}, expected a dict of arrays"])
    faults = [f"signal {name!r} is missing" for name in operator.writes if name not in signals]
    faults += [f"signal {name!r} is not in `writes`" for name in signals if name not in operator.writes]
    for name, kind in operator.writes.items():
        if name in signals:
            faults += _array_faults(f"signal {name!r}", signals[name], kind, len(batch))
    if faults:
        raise _fault(operator, batch, faults)


def check_rewrite(operator: Transform, batch: pa.RecordBatch, rewrite: Rewrite) -> None:
    """Holds a rewrite against the declared edits and signals.

    Args:
        operator: Who made it.
        batch: What it was given, [n] rows.
        rewrite: What it returned.

    Raises:
        ContractError: As `check_annotation`, or an edit kind is not declared, or a count is null or negative.
    """
    if not isinstance(rewrite, Rewrite):
        raise _fault(operator, batch, [f"returned {type(rewrite).__name__}, expected a dataplane.Rewrite"])
    faults = _array_faults("text", rewrite.text, pa.large_string(), len(batch))
    for kind, counts in rewrite.edits.items():
        if kind not in operator.edits:
            faults.append(f"edit {kind!r} is not in `edits` ({', '.join(operator.edits)})")
            continue
        faults += _count_faults(kind, counts, len(batch))
    if faults:
        raise _fault(operator, batch, faults)
    check_annotation(operator, batch, rewrite.signals)


def _array_faults(what: str, array: Any, kind: pa.DataType, rows: int) -> list[str]:
    if not isinstance(array, pa.Array):
        return [f"{what} is {type(array).__name__}, expected a pyarrow Array"]
    faults = [] if array.type == kind else [f"{what} is {array.type}, expected {kind}"]
    return faults + ([] if len(array) == rows else [f"{what} has {len(array)} values for {rows} rows"])


def _count_faults(kind: str, counts: Any, rows: int) -> list[str]:
    if not (isinstance(counts, pa.Array) and pa.types.is_integer(counts.type)):
        got = counts.type if isinstance(counts, pa.Array) else type(counts).__name__
        return [f"edit {kind!r} is {got}, expected integers"]
    if len(counts) != rows:
        return [f"edit {kind!r} has {len(counts)} counts for {rows} rows"]
    lowest = pc.min(counts).as_py()
    return [f"edit {kind!r} has null or negative counts"] if counts.null_count or (lowest is not None and lowest < 0) else []


def _fault(operator: Operator, batch: pa.RecordBatch, faults: Iterable[str]) -> ContractError:
    ids = batch.column("doc_id").slice(0, SHOWN_IDS).to_pylist() if "doc_id" in batch.schema.names else []
    shown = f" (first documents: {', '.join(map(str, ids))})" if ids else ""
    return ContractError(
        "; ".join(faults) + shown,
        where=f"operator {operator.name!r}",
        fix=f"mend {type(operator).__module__}, or take it out of clean.pipeline",
    )


def check_class(cls: type[Operator]) -> None:
    """Holds an operator's class against the contract, without running it.

    Raises:
        ContractError: Every fault is named.
    """
    faults = [*_name_faults(cls), *_column_faults(cls), *_param_faults(cls), *_rule_faults(cls)]
    if faults:
        name = getattr(cls, "name", cls.__name__)
        raise ContractError("; ".join(faults), where=f"operator {name!r}", fix=f"mend {cls.__module__}.{cls.__qualname__}")


def _name_faults(cls: type[Operator]) -> list[str]:
    faults = []
    name, version = getattr(cls, "name", None), getattr(cls, "version", None)
    if not (isinstance(name, str) and NAME.match(name)):
        faults.append(f"name {name!r} is not lower case, digits and single underscores")
    if not (isinstance(version, str) and version):
        faults.append(f"version {version!r} is not a text")
    if not issubclass(cls, Annotator | Transform):
        faults.append("it is neither an Annotator nor a Transform")
    if issubclass(cls, Transform) and not cls.edits:
        faults.append("a Transform declares the kinds of its edits")
    return faults


def _column_faults(cls: type[Operator]) -> list[str]:
    faults = [
        f"reads {name!r}, which is no column or signal" for name in cls.reads if name not in READABLE and SIGNAL_SEPARATOR not in name
    ]
    faults += [f"signal name {name!r} is not lower case, digits and single underscores" for name in cls.writes if not NAME.match(name)]
    faults += [f"{name!r} has no Arrow type" for name, kind in {**cls.reads, **cls.writes}.items() if not isinstance(kind, pa.DataType)]
    if issubclass(cls, Annotator) and not cls.writes:
        faults.append("an Annotator writes at least one signal")
    if issubclass(cls, Transform) and "text" not in cls.reads:
        faults.append("a Transform reads text")
    return faults


def _param_faults(cls: type[Operator]) -> list[str]:
    fields = cls.Params.model_fields
    faults = [f"param {name!r} has no description" for name, info in fields.items() if not info.description]
    return faults + [f"param {name!r} has no default" for name, info in fields.items() if info.is_required()]


def _rule_faults(cls: type[Operator]) -> list[str]:
    if not issubclass(cls, Filter) or _param_faults(cls):
        return []
    faults = []
    for reason, predicate in cls().rules().items():
        if not NAME.match(reason):
            faults.append(f"reason {reason!r} is not lower case, digits and single underscores")
        if not any(re.search(rf"\b{cls.name}\.{signal}\b", predicate) for signal in cls.writes):
            faults.append(f"rule {reason!r} looks at no signal of its own ({predicate})")
    return faults
