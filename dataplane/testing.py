"""The conformance kit for plugin authors.

    from dataplane.testing import Example, conformance

    def test_emoji_ratio_conforms() -> None:
        conformance(EmojiRatio, examples=[Example("😀😀😀", {"too_many_emoji"}), Example("plain text")])

It raises `ContractError` with every fault it found.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.contract import check_class
from dataplane.deciding import Decider, Rule
from dataplane.errors import ContractError, TerraplaneError
from dataplane.isolated import Isolated, apply, said, short
from dataplane.operator import Filter, Operator

MAX_SECONDS_TEXT = 20.0  # for one hostile text, some of which are 1 MB
MAX_SECONDS_ALL = 60.0  # for all of them in one batch
MAX_SECONDS_START = 120.0  # for a new process: imports, compilation, models, and the examples
MAX_NAMED_CHARS = 20

# Surrogates are not here: Arrow's text is UTF-8, which cannot hold them.
HOSTILE = (
    "",
    " ",
    "\n\n\n\n",
    "\t \u3000\u00a0\u2003 \r\n",
    "\0\0\0",
    "before\0after",
    "a",
    "\ufeffa\ufeff",
    "\ufffd" * 50,
    "\u0301",
    "e" + "\u0301" * 2_000,
    "\u202e\u2066abc\u2069\u202c",
    "👨‍👩‍👧‍👦" * 100,
    "🏴\U000e0067\U000e0062\U000e007f\ufe0f\u200d",
    "\U0010ffff\ue000\ufdd0",
    "العربية 中文 русский हिन्दी ไทย 日本語 mixed",
    "٣٫١٤ １２３ ⅷ ²",
    "İıſßŉǰΐﬃ",
    "{{{{[[[[<<<<((((" * 200,
    "<div>" * 500,
    "a@" * 500,
    "1" * 5_000,
    "x" * 1_000_000,
    "1 " * 200_000,
    "中" * 300_000,
    "a\n" * 100_000,
    "\\x00\\u0000' OR 1=1; --",
    "\r\n\u2028\u2029\x85",
)


@dataclass(frozen=True)
class Example:
    """A document for the kit.

    Attributes:
        text: Its text.
        reasons: The reasons that should drop it; empty for one that stays.
        columns: Further columns that the operator reads (kind, mime, signals of other operators).
    """

    text: str
    reasons: frozenset[str] | set[str] = frozenset()
    columns: Mapping[str, Any] = field(default_factory=dict)


def conformance(
    cls: type[Operator], *, examples: Sequence[Example | str | tuple[str, set[str]]], params: Mapping[str, Any] | None = None
) -> None:
    """Holds an operator against the whole contract.

    Args:
        cls: The operator's class, at the top level of a module.
        examples: Documents, or (text, reasons); a text alone is one that stays. Together they reach every reason of a filter.
        params: Params to run with; defaults where left out.

    Raises:
        ContractError: Every fault found, by the name of its check.
    """
    check_class(cls)
    given = [_example(example) for example in examples]
    if not given:
        raise ContractError("no example was given", where=f"operator {cls.name!r}", fix="pass examples=[...] to conformance")
    operator = cls(params)
    operator.open()
    try:
        faults = [fault for check in _CHECKS for fault in _run(check, operator, given)]
    finally:
        operator.close()
    if faults:
        raise ContractError("; ".join(faults), where=f"operator {cls.name!r}", fix=f"mend {cls.__module__}.{cls.__qualname__}")


def _example(example: Example | str | tuple[str, set[str]]) -> Example:
    if isinstance(example, Example):
        return example
    return Example(example) if isinstance(example, str) else Example(*example)


Check = Callable[[Operator, list[Example]], list[str]]


def _run(check: Check, operator: Operator, examples: list[Example]) -> list[str]:
    title = (check.__doc__ or "").rstrip(".")
    try:
        return [f"{title}: {fault}" for fault in check(operator, examples)]
    # An operator under test may raise anything; what it raised is the finding.
    except Exception as error:  # noqa: BLE001
        return [f"{title}: {said(error)}"]


def batch_of(operator: Operator, examples: Sequence[Example]) -> pa.RecordBatch:
    """The examples as the operator is given them: exactly the columns of `reads`."""
    made = {"text": [e.text for e in examples], "doc_id": [f"{i:032x}" for i in range(len(examples))]}
    always = {"kind": "web", "source": "test"}
    columns = {
        name: pa.array(made[name] if name in made else [e.columns.get(name, always.get(name)) for e in examples], kind)
        for name, kind in operator.reads.items()
    }
    return pa.record_batch(columns)


def _shape(operator: Operator, examples: list[Example]) -> list[str]:
    """schema and length."""
    apply(operator, batch_of(operator, examples))
    return []


def _empty(operator: Operator, examples: list[Example]) -> list[str]:
    """empty batch."""
    apply(operator, batch_of(operator, examples).slice(0, 0))
    return []


def _untouched(operator: Operator, examples: list[Example]) -> list[str]:
    """input untouched."""
    batch = batch_of(operator, examples)
    before = batch.to_pylist()
    apply(operator, batch)
    return [] if batch.to_pylist() == before else ["the batch was changed in place"]


def _repeatable(operator: Operator, examples: list[Example]) -> list[str]:
    """same result twice."""
    batch = batch_of(operator, examples)
    return _differences(apply(operator, batch), apply(operator, batch))


def _split(operator: Operator, examples: list[Example]) -> list[str]:
    """same result however the batch is split."""
    batch = batch_of(operator, examples)
    return _differences(apply(operator, batch), _joined([apply(operator, batch.slice(i, 1)) for i in range(len(batch))]))


def _permuted(operator: Operator, examples: list[Example]) -> list[str]:
    """same result in any order."""
    batch = batch_of(operator, examples)
    orders = [np.arange(len(batch))[::-1], np.random.default_rng(0).permutation(len(batch))]
    expected = apply(operator, batch)
    for order in map(pa.array, orders):
        moved = {name: array.take(order) for name, array in expected.items()}
        if faults := _differences(moved, apply(operator, batch.take(order))):
            return faults
    return []


def _joined(parts: Sequence[Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
    return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def _differences(expected: Mapping[str, pa.Array], got: Mapping[str, pa.Array]) -> list[str]:
    """The first row in which each array differs. Values are compared as they are written: NaN is equal to NaN."""
    if expected.keys() != got.keys():
        return [f"{sorted(expected)} became {sorted(got)}"]
    faults = []
    for name, array in expected.items():
        if array.equals(got[name]):
            continue
        pairs = zip(array.to_pylist(), got[name].to_pylist(), strict=True)
        wrong = next(((i, a, b) for i, (a, b) in enumerate(pairs) if repr(a) != repr(b)), None)
        if wrong:
            faults.append(f"{name} of row {wrong[0]} was {short(wrong[1])}, then {short(wrong[2])}")
    return faults


def _named(text: str) -> str:
    """A hostile text in ASCII, since its marks and reorderings would garble the message."""
    return ascii(text) if len(text) <= MAX_NAMED_CHARS else f"{text[:MAX_NAMED_CHARS]!a}... ({len(text):,} characters)"


def _identity(operator: Operator, examples: list[Example]) -> list[str]:
    """identity."""
    values = operator.params.model_dump()
    faults = [] if type(operator)(values).op_id == operator.op_id else ["equal params give another op_id"]
    for name in operator.Params.model_fields:
        for other in _others(operator, name, values):
            # A param can name a file, and another name leads to none.
            with suppress(TerraplaneError, OSError):
                if type(operator)(values | {name: other}).op_id == operator.op_id:
                    faults.append(f"{name}={values[name]!r} and {name}={other!r} give the same op_id")
                break
    return faults


def _others(operator: Operator, name: str, values: Mapping[str, Any]) -> Iterator[Any]:
    """Valid values of a param other than the one it has."""
    now, kind = values[name], operator.Params.model_fields[name].annotation
    tried: list[Any] = list(get_args(kind)) if get_origin(kind) is Literal else []
    if isinstance(now, bool):
        tried = [not now]
    elif isinstance(now, int | float):
        tried = [now + 1, now - 1, now / 2, now * 2]
    elif isinstance(now, str):
        tried += [f"{now}x", now[:-1]]
    elif isinstance(now, tuple | list):
        tried = [now[1:], [*now, *now]]
    elif now is None:
        tried = [2, 2.5, "x"]
    for value in tried:
        with suppress(TerraplaneError):
            parsed = operator.Params.parse({**values, name: value}, where="params")
            if getattr(parsed, name) != now:
                yield getattr(parsed, name)


def _reasons(operator: Operator, examples: list[Example]) -> list[str]:
    """reasons."""
    if not isinstance(operator, Filter):
        return []
    got = reasons_of(operator, examples)
    faults = [
        f"{short(example.text)} is dropped for {sorted(found) or 'nothing'}, expected {sorted(example.reasons) or 'nothing'}"
        for example, found in zip(examples, got, strict=True)
        if found != set(example.reasons)
    ]
    unreached = sorted(set(operator.rules()) - {reason for found in got for reason in found})
    return faults + [f"no example reaches {reason!r}" for reason in unreached]


def reasons_of(operator: Filter, examples: Sequence[Example]) -> list[set[str]]:
    """The reasons that drop each example, found as the select stage finds them."""
    batch = batch_of(operator, examples)
    signals = {schema.signal_column(operator.name, name): array for name, array in apply(operator, batch).items()}
    given = {name: batch.column(name) for name in operator.reads if name not in ("text", "doc_id")}
    ids = pa.array([f"{i:032x}" for i in range(len(examples))])
    kinds = pa.array([example.columns.get("kind", "web") for example in examples], pa.string())
    full = pa.record_batch({"doc_id": ids, "kind": kinds, **given, **signals})
    rules = [Rule(operator.name, operator.op_id, reason, predicate) for reason, predicate in operator.rules().items()]
    _, decisions = Decider(rules, full.schema, stage="test", run_id="").decide(full)
    found: list[set[str]] = [set() for _ in examples]
    for row in decisions.to_pylist():
        found[int(row["doc_id"], 16)].add(row["reason"])
    return found


def _spawned(operator: Operator, examples: list[Example]) -> list[str]:
    """in a spawned process."""
    batch = batch_of(operator, examples)
    hostile = batch_of(operator, [Example(text, columns=examples[0].columns) for text in HOSTILE])
    singles = [hostile.slice(i, 1) for i in range(len(hostile))]
    try:
        child = Isolated(operator, [batch, *singles, hostile])
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        return [f"the class or its params cannot be sent there; does it stand at the top level of a module? ({error})"]
    with child:
        op_id, results = child.receive("the start", MAX_SECONDS_START), child.receive("the examples", MAX_SECONDS_START)
        faults = [] if op_id == operator.op_id else ["op_id is another there (is it made from a set, or from hash()?)"]
        faults += _differences(apply(operator, batch), results)
        alone = [child.receive(f"the hostile text {_named(text)}", MAX_SECONDS_TEXT) for text in HOSTILE]
        together = child.receive("all hostile texts in one batch", MAX_SECONDS_ALL)
    return faults + [f"hostile texts alone and in one batch: {fault}" for fault in _differences(_joined(alone), together)]


_CHECKS: tuple[Check, ...] = (_shape, _empty, _untouched, _repeatable, _split, _permuted, _identity, _reasons, _spawned)
