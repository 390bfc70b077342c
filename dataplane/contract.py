"""Checks on what an operator returns, and on its class. A broken contract fails the run: it is a fault of code, not of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import ContractError
from dataplane.operator import READABLE, Annotator, Filter, Operator, Rewrite, Transform
from dataplane.params import Params
from dataplane.schema import DOCUMENTS, EDIT_SPANS, NAME, SIGNAL_SEPARATOR

SHOWN_IDS = 3
NAME_RULE = "lower case letters, digits and single underscores"
# `documents` shows an operator's signals as a struct of its name beside these columns.
TAKEN_NAMES = frozenset(DOCUMENTS.names)


def check_annotation(operator: Operator, batch: pa.RecordBatch, signals: Mapping[str, pa.Array]) -> None:
    """Holds signals against `writes`.

    Arrow batches cannot be written to from Python, so that the input is untouched is left to the conformance kit.

    Args:
        operator: Who made them.
        batch: What it was given, [n] rows.
        signals: What it returned.

    Raises:
        ContractError: Names, types or lengths differ, or an array is damaged; every fault is named.
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
    for kind, spans in rewrite.spans.items():
        faults += [] if kind in rewrite.edits else [f"spans of {kind!r}, which counts no edits"]
        faults += _array_faults(f"spans of {kind!r}", spans, EDIT_SPANS, len(batch))
    if faults:
        raise _fault(operator, batch, faults)
    check_annotation(operator, batch, rewrite.signals)


def _array_faults(what: str, array: Any, kind: pa.DataType, rows: int) -> list[str]:
    if not isinstance(array, pa.Array):
        return [f"{what} is {type(array).__name__}, expected a pyarrow Array"]
    # A cast would hide a mistake of the plugin until a value does not fit.
    faults = [] if array.type == kind else [f"{what} is {array.type}, expected {kind}"]
    faults += [] if len(array) == rows else [f"{what} has {len(array)} values for {rows} rows"]
    return faults or _damage(what, array)


def _damage(what: str, array: pa.Array) -> list[str]:
    """Wrong offsets or invalid UTF-8: an array made from buffers can hold both, and would break a later stage."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        return [f"{what} is damaged: {error}"]
    return []


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
    """Holds an operator's class against the contract, without running it on text.

    Raises:
        ContractError: Every fault is named.
    """
    faults = [*_name_faults(cls), *_base_faults(cls)]
    columns = _column_faults(cls)
    params = _param_faults(cls)
    faults += columns + params
    # Rules are asked of an instance, which needs sound params.
    if not faults and issubclass(cls, Filter):
        faults += _rule_faults(cls)
    if faults:
        name = getattr(cls, "name", cls.__name__)
        raise ContractError("; ".join(faults), where=f"operator {name!r}", fix=f"mend {cls.__module__}.{cls.__qualname__}")


def _name_faults(cls: type[Operator]) -> list[str]:
    faults = []
    name, version = getattr(cls, "name", None), getattr(cls, "version", None)
    if not _is_name(name):
        faults.append(f"name {name!r} is not {NAME_RULE}")
    elif name in TAKEN_NAMES:
        faults.append(f"name {name!r} is a column of `documents`, so its signals could not be shown beside it")
    if not (isinstance(version, str) and version):
        faults.append(f"version {version!r} is not a text")
    return faults


def _is_name(name: object) -> bool:
    return isinstance(name, str) and NAME.match(name) is not None


def _base_faults(cls: type[Operator]) -> list[str]:
    faults = [f"method {name!r} is missing" for name in sorted(getattr(cls, "__abstractmethods__", ()))]
    if not issubclass(cls, Annotator | Transform):
        faults.append("it is neither an Annotator nor a Transform")
    if issubclass(cls, Transform):
        faults += [] if cls.edits else ["a Transform declares the kinds of its edits"]
        faults += [f"edit {kind!r} is not {NAME_RULE}" for kind in cls.edits if not _is_name(kind)]
    return faults


def _column_faults(cls: type[Operator]) -> list[str]:
    maps = {"reads": cls.reads, "writes": cls.writes}
    if faults := [
        f"`{what}` is {type(m).__name__}, expected a dict of Arrow types" for what, m in maps.items() if not isinstance(m, Mapping)
    ]:
        return faults
    faults = [fault for name, kind in cls.reads.items() for fault in _read_faults(name, kind)]
    faults += [f"signal name {name!r} is not {NAME_RULE}" for name in cls.writes if not _is_name(name)]
    faults += [f"signal {name!r} has no Arrow type, but {kind!r}" for name, kind in cls.writes.items() if not isinstance(kind, pa.DataType)]
    if issubclass(cls, Annotator) and not cls.writes:
        faults.append("an Annotator writes at least one signal")
    if issubclass(cls, Transform) and "text" not in cls.reads:
        faults.append("a Transform reads text")
    return faults


def _read_faults(name: object, kind: object) -> list[str]:
    if not isinstance(kind, pa.DataType):
        return [f"reads {name!r} as {kind!r}, which is no Arrow type"]
    if name in READABLE:
        expected = DOCUMENTS.field(name).type
        return [] if kind == expected else [f"reads {name!r} as {kind}, but it is {expected}"]
    parts = str(name).split(SIGNAL_SEPARATOR)
    if len(parts) == 2 and all(map(_is_name, parts)):
        return []
    columns = ", ".join(sorted(READABLE))
    return [f"reads {name!r}, which is no column ({columns}) and no signal of another operator (operator{SIGNAL_SEPARATOR}signal)"]


def _param_faults(cls: type[Operator]) -> list[str]:
    if not (isinstance(cls.Params, type) and issubclass(cls.Params, Params)):
        return ["`Params` is not derived from dataplane.Params"]
    fields = cls.Params.model_fields
    faults = [f"param {name!r} has no description" for name, info in fields.items() if not info.description]
    return faults + [f"param {name!r} has no default" for name, info in fields.items() if info.is_required()]


def _rule_faults(cls: type[Filter]) -> list[str]:
    try:
        rules = dict(cls().rules())
    # A foreign class may raise anything; that it does with its own defaults is the finding.
    except Exception as error:  # noqa: BLE001
        return [f"rules() with default params raises {type(error).__name__}: {error}"]
    faults = [f"reason {reason!r} is not {NAME_RULE}" for reason in rules if not _is_name(reason)]
    return faults + [fault for reason, predicate in rules.items() for fault in _predicate_faults(cls, reason, predicate)]


def _predicate_faults(cls: type[Filter], reason: object, predicate: object) -> list[str]:
    if not isinstance(predicate, str):
        return [f"rule {reason!r} is {type(predicate).__name__}, expected a SQL predicate"]
    used = re.findall(rf'\b{cls.name}"?\."?(\w+)', predicate)
    unknown = sorted(set(used).difference(cls.writes))
    if used and not unknown:
        return []
    own = ", ".join(f"{cls.name}.{signal}" for signal in cls.writes)
    what = f"{cls.name}.{unknown[0]}, which it does not write" if unknown else "no signal of its own"
    return [f"rule {reason!r} looks at {what} (it writes {own}): {predicate}"]
