"""The conformance kit for plugin authors.

    from dataplane.testing import Example, conformance

    def test_emoji_ratio_conforms() -> None:
        conformance(EmojiRatio, examples=[Example("😀😀😀", {"too_many_emoji"}), Example("plain text")])

It raises `ContractError` with every fault it found.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.contract import check_annotation, check_class, check_rewrite
from dataplane.deciding import Decider, Rule
from dataplane.errors import ContractError, TerraplaneError
from dataplane.operator import Annotator, Filter, Operator, Rewrite, Transform

MAX_SECONDS_HOSTILE = 20.0  # for all hostile texts together, some of them 1 MB
MAX_SECONDS_SPAWN = 120.0

HOSTILE = (
    "",
    " ",
    "\n\n\n\n",
    "\0\0\0",
    "a",
    "�" * 50,
    "e" + "\u0301" * 2_000,
    "\u202e\u2066abc\u2069\u202c",
    "👨‍👩‍👧‍👦" * 100,
    "العربية 中文 русский हिन्दी ไทย 日本語 mixed",
    "٣٫١٤ １２３ ⅷ ²",
    "{{{{[[[[<<<<((((" * 200,
    "<div>" * 500,
    "a@" * 500,
    "1" * 5_000,
    "x" * 1_000_000,
    "1 " * 200_000,
    "中" * 300_000,
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


def conformance(cls: type[Operator], *, examples: Sequence[Example | str], params: Mapping[str, Any] | None = None) -> None:
    """Holds an operator against the whole contract.

    Args:
        cls: The operator's class.
        examples: Documents; together they reach every reason of a filter.
        params: Params to run with; defaults where left out.

    Raises:
        ContractError: Every fault found, by the name of its check.
    """
    check_class(cls)
    given = [example if isinstance(example, Example) else Example(example) for example in examples]
    operator = cls(params)
    operator.open()
    try:
        faults = [fault for check in _CHECKS for fault in _run(check, operator, given, params)]
    finally:
        operator.close()
    if faults:
        raise ContractError("; ".join(faults), where=f"operator {cls.name!r}", fix=f"mend {cls.__module__}.{cls.__qualname__}")


Check = Callable[[Operator, list[Example], Mapping[str, Any] | None], list[str]]


def _run(check: Check, operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    title = (check.__doc__ or "").rstrip(".")
    try:
        return [f"{title}: {fault}" for fault in check(operator, examples, params)]
    # An operator under test may raise anything; what it raised is the finding.
    except Exception as error:  # noqa: BLE001
        return [f"{title}: {type(error).__name__}: {error}"]


def batch_of(operator: Operator, examples: Sequence[Example]) -> pa.RecordBatch:
    """The examples as the operator is given them: exactly the columns of `reads`."""
    columns: dict[str, pa.Array] = {}
    for name, kind in operator.reads.items():
        defaults = {"text": [e.text for e in examples], "doc_id": [f"{i:032x}" for i in range(len(examples))]}
        values: list[Any] = defaults.get(name) or [e.columns.get(name) for e in examples]
        columns[name] = pa.array(values, kind)
    return pa.record_batch(columns) if columns else pa.record_batch({"doc_id": pa.array([], pa.string())})


def apply(operator: Operator, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """What an operator makes of a batch, checked, under flat names: signals, and `text` and `edits.KIND` of a transform."""
    if isinstance(operator, Annotator):
        signals = operator.annotate(batch)
        check_annotation(operator, batch, signals)
        return dict(signals)
    if not isinstance(operator, Transform):
        raise ContractError(f"{operator.name!r} is neither an Annotator nor a Transform")
    rewrite: Rewrite = operator.transform(batch)
    check_rewrite(operator, batch, rewrite)
    edits = {f"edits.{kind}": counts.cast(pa.int64()) for kind, counts in rewrite.edits.items()}
    return {**rewrite.signals, "text": rewrite.text, **edits}


def _shape(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """schema and length."""
    apply(operator, batch_of(operator, examples))
    return []


def _empty(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """empty batch."""
    got = apply(operator, batch_of(operator, examples).slice(0, 0))
    return [f"{name} has {len(array)} values" for name, array in got.items() if len(array)]


def _untouched(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """input untouched."""
    batch = batch_of(operator, examples)
    before = batch.to_pylist()
    apply(operator, batch)
    return [] if batch.to_pylist() == before else ["the batch was changed in place"]


def _repeatable(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """same result twice."""
    batch = batch_of(operator, examples)
    return _differences(apply(operator, batch), apply(operator, batch), np.arange(len(batch)))


def _split(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """same result however the batch is split."""
    batch = batch_of(operator, examples)
    whole = apply(operator, batch)
    singles = [apply(operator, batch.slice(i, 1)) for i in range(len(batch))]
    joined = {name: pa.concat_arrays([single[name] for single in singles]) for name in whole}
    return _differences(whole, joined, np.arange(len(batch)))


def _permuted(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """same result in any order."""
    batch = batch_of(operator, examples)
    order = np.random.default_rng(0).permutation(len(batch))
    return _differences(apply(operator, batch), apply(operator, batch.take(pa.array(order))), order)


def _differences(expected: Mapping[str, pa.Array], got: Mapping[str, pa.Array], order: np.ndarray[Any, Any]) -> list[str]:
    return [f"{name} differs" for name, array in expected.items() if array.take(pa.array(order)).to_pylist() != got[name].to_pylist()]


def _hostile(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """hostile text."""
    columns = examples[0].columns if examples else {}
    started = time.process_time()
    apply(operator, batch_of(operator, [Example(text, columns=columns) for text in HOSTILE]))
    seconds = time.process_time() - started
    return [f"took {seconds:.0f} s, at most {MAX_SECONDS_HOSTILE:.0f}"] if seconds > MAX_SECONDS_HOSTILE else []


def _identity(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """identity."""
    again = type(operator)(operator.params.model_dump())
    return [] if again.op_id == operator.op_id else ["equal params give another op_id"]


def _spawned(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """works in a spawned process."""
    batch = batch_of(operator, examples)
    expected = {name: array.to_pylist() for name, array in apply(operator, batch).items()}
    job = pickle.dumps((type(operator), operator.params.model_dump(), batch))
    # The job is made of the operator's own class and Arrow data by this very process; nothing foreign is unpickled.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.apply_async(_in_child, (job,)).get(MAX_SECONDS_SPAWN)
    return [] if got == expected else ["another result than in this process"]


def _in_child(job: bytes) -> dict[str, list[Any]]:
    cls, params, batch = pickle.loads(job)  # noqa: S301 - see _spawned
    operator = cls(params)
    operator.open()
    return {name: array.to_pylist() for name, array in apply(operator, batch).items()}


def _reasons(operator: Operator, examples: list[Example], params: Mapping[str, Any] | None) -> list[str]:
    """reasons."""
    if not isinstance(operator, Filter):
        return []
    got = _decide(operator, examples)
    faults = [
        f"{example.text[:40]!r} is dropped for {sorted(found) or 'nothing'}, expected {sorted(example.reasons) or 'nothing'}"
        for example, found in zip(examples, got, strict=True)
        if found != set(example.reasons)
    ]
    unreached = sorted(set(operator.rules()) - {reason for found in got for reason in found})
    return faults + [f"no example reaches {reason!r}" for reason in unreached]


def _decide(operator: Filter, examples: Sequence[Example]) -> list[set[str]]:
    batch = batch_of(operator, examples)
    signals = {schema.signal_column(operator.name, name): array for name, array in apply(operator, batch).items()}
    ids = pa.array([f"{i:032x}" for i in range(len(examples))])
    kinds = pa.array([example.columns.get("kind", "web") for example in examples], pa.string())
    full = pa.record_batch({"doc_id": ids, "kind": kinds, **signals})
    rules = [Rule(operator.name, operator.op_id, reason, predicate) for reason, predicate in operator.rules().items()]
    try:
        _, decisions = Decider(rules, full.schema, stage="test", run_id="").decide(full)
    except TerraplaneError as error:
        raise ContractError(error.message) from None
    found: list[set[str]] = [set() for _ in examples]
    for row in decisions.to_pylist():
        found[int(row["doc_id"], 16)].add(row["reason"])
    return found


_CHECKS: tuple[Check, ...] = (_shape, _empty, _untouched, _repeatable, _split, _permuted, _hostile, _identity, _reasons, _spawned)
