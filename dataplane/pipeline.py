"""The operators of `clean.pipeline` over one batch: `when`, contract, quarantine, `drop: now`, and the edits' books."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pydantic import Field

from dataplane import schema
from dataplane.contract import check_annotation, check_rewrite
from dataplane.deciding import Condition, Decider, Rule
from dataplane.engine.rows import by_size
from dataplane.errors import ContractError, ParamsError, TerraplaneError
from dataplane.operator import READABLE, Annotator, Filter, Operator, Rewrite, Transform
from dataplane.params import Params
from dataplane.registry import operator_class

# A batch ends at the first of these: a row costs little, but five hundred books would fill the memory of a worker.
BATCH_ROWS, BATCH_BYTES = 512, 8 << 20
READ_ROWS = 32  # read at once, for `batches` to join


class Step(Params):
    """One operator of the pipeline."""

    use: str = Field(description="Name of the operator.")
    params: dict[str, Any] = Field({}, description="Its params; defaults where left out.")
    when: str = Field("", description="SQL predicate; the operator runs on the documents for which it is true.")
    drop: Literal["now", "later"] = Field(
        "later", description="now: documents that fail the operator's rules are left out of `documents` at once; later: select decides."
    )


class CleanParams(Params):
    """Params of the clean stage."""

    pipeline: list[Step] = Field(description="Operators, in the order in which they run.")


def batches(read: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What was read in batches of `READ_ROWS`, in the batches that the operators get."""
    return by_size(read, BATCH_ROWS, BATCH_BYTES)


def build(steps: Sequence[Step]) -> list[Operator]:
    """The operators of a pipeline.

    Raises:
        ParamsError: An operator reads a signal that none above it writes, or is named twice, or its params are wrong.
        PluginError: An operator is not installed.
    """
    operators: list[Operator] = []
    known = set(READABLE)
    for i, step in enumerate(steps):
        where = f"clean.pipeline[{i}]"
        operator = operator_class(step.use, where=where)(_params(step, where))
        if step.use in {other.name for other in operators}:
            raise ParamsError(f"operator {step.use!r} is named twice", where=where, fix="keep one of them")
        missing = sorted(set(operator.reads) - known)
        if missing:
            fix = "move the operators that write them above this one"
            raise ParamsError(f"operator {step.use!r} reads {missing}, which nothing above it writes", where=where, fix=fix)
        if step.drop == "now" and not isinstance(operator, Filter):
            raise ParamsError(f"operator {step.use!r} has no rules, so it cannot drop", where=where, fix="remove `drop: now`")
        known |= {schema.signal_column(operator.name, signal) for signal in operator.writes}
        operators.append(operator)
    return operators


def _params(step: Step, where: str) -> Params:
    parsed: Params = operator_class(step.use, where=where).Params.parse(step.params, where=f"{where}.params")
    return parsed


def documents_schema(operators: Sequence[Operator]) -> pa.Schema:
    """Schema of `documents` with the signals of these operators as flat columns, in pipeline order."""
    signals = [pa.field(schema.signal_column(op.name, name), kind) for op in operators for name, kind in op.writes.items()]
    return pa.schema([*schema.DOCUMENTS, *signals])


def filter_rules(operator: Filter, when: str = "") -> list[Rule]:
    """The rules that a filter brings with it."""
    return [Rule(operator.name, operator.op_id, reason, predicate, when) for reason, predicate in operator.rules().items()]


class Outcome:
    """What became of one batch: rows for the four tables of the clean stage."""

    def __init__(self) -> None:
        self.edits: list[pa.RecordBatch] = []
        self.decisions: list[pa.RecordBatch] = []
        self.quarantine: list[dict[str, Any]] = []
        self.documents: pa.RecordBatch | None = None


class Pipeline:
    """Runs the operators over batches. One instance for each worker.

    Args:
        steps: The pipeline of params.yaml.
        run_id: The run that its rows name.
    """

    def __init__(self, steps: Sequence[Step], run_id: str) -> None:
        self.steps, self.run_id = list(steps), run_id
        self.operators = build(steps)
        self.op_ids = {operator.name: operator.op_id for operator in self.operators}
        self._conditions = [Condition(s.when, where=f"clean.pipeline[{i}].when") if s.when else None for i, s in enumerate(steps)]
        self._deciders = [self._decider(i) for i in range(len(steps))]

    def _decider(self, i: int) -> Decider | None:
        operator = self.operators[i]
        if self.steps[i].drop != "now" or not isinstance(operator, Filter):
            return None
        # Length and hash of the text are known when the last transform has run.
        columns = pa.schema([field for field in documents_schema(self.operators[: i + 1]) if field.name not in ("n_bytes", "text_hash")])
        return Decider(filter_rules(operator, self.steps[i].when), columns, stage="clean", run_id=self.run_id)

    def open(self) -> None:
        """Loads every operator's models."""
        for operator in self.operators:
            operator.open()

    def close(self) -> None:
        """Lets go of them."""
        for operator in self.operators:
            operator.close()

    def run(self, batch: pa.RecordBatch) -> Outcome:
        """Takes one batch through the pipeline.

        Args:
            batch: Columns doc_id, source, kind, url, mime, text [n].
        """
        outcome = Outcome()
        for i, operator in enumerate(self.operators):
            batch = self._step(i, operator, batch, outcome)
        outcome.documents = self._finish(batch)
        return outcome

    def measure(self, batch: pa.RecordBatch, places: Sequence[int]) -> tuple[pa.RecordBatch, bool]:
        """Runs some annotators over documents that are through the pipeline.

        Args:
            batch: Columns doc_id, source, kind, url, mime, text and signals [n].
            places: Which steps, in order.

        Returns:
            The batch with their signals, and whether one of them broke on a row (which then is missing).
        """
        outcome = Outcome()
        for i in places:
            batch = self._step(i, self.operators[i], batch, outcome)
        return batch, bool(outcome.quarantine)

    def signals(self, places: Sequence[int]) -> list[str]:
        """The columns that these steps write."""
        return [schema.signal_column(self.operators[i].name, signal) for i in places for signal in self.operators[i].writes]

    def _step(self, i: int, operator: Operator, batch: pa.RecordBatch, outcome: Outcome) -> pa.RecordBatch:
        condition = self._conditions[i]
        applies = condition.holds(batch) if condition else np.ones(len(batch), np.bool_)
        rows = np.flatnonzero(applies)
        done, broken = self._isolate(operator, batch, rows, outcome)
        batch = _apply(operator, batch, done)
        if broken:
            keep = np.ones(len(batch), np.bool_)
            keep[broken] = False
            batch = batch.filter(pa.array(keep))
        decider = self._deciders[i]
        if decider is None:
            return batch
        kept, decisions = decider.decide(batch)
        outcome.decisions.append(decisions)
        return batch.filter(pa.array(kept))

    def _isolate(
        self, operator: Operator, batch: pa.RecordBatch, rows: np.ndarray[Any, Any], outcome: Outcome
    ) -> tuple[list[tuple[np.ndarray[Any, Any], Rewrite]], list[int]]:
        """Runs an operator; where it breaks, halves the rows until the ones that break it stand alone.

        Returns:
            The results with the rows [k] they are for, and the rows that go to quarantine.
        """
        done: list[tuple[np.ndarray[Any, Any], Rewrite]] = []
        broken: list[int] = []
        waiting = [rows]
        while waiting:
            part = waiting.pop()
            if not len(part):
                continue
            given = batch.select(list(operator.reads)).take(pa.array(part))
            ids = batch.column("doc_id").take(pa.array(part))
            try:
                result = self._call(operator, given, ids, outcome)
            except (ContractError, ParamsError):
                raise
            # A foreign operator may raise anything; the row is put aside with its error and the run goes on.
            except Exception as error:
                if isinstance(error, TerraplaneError) and error.exit_code == 3:
                    raise
                if len(part) > 1:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
                    continue
                broken.append(int(part[0]))
                outcome.quarantine.append(self._fault(operator, batch, int(part[0]), type(error).__name__, _safe_message(error)))
                continue
            nulls = np.flatnonzero(result.text.is_null().to_numpy(zero_copy_only=False))
            for row in part[nulls]:
                broken.append(int(row))
                outcome.quarantine.append(self._fault(operator, batch, int(row), "NullText", "the transform gave no text"))
            done.append((part, result))
        return done, broken

    def _call(self, operator: Operator, given: pa.RecordBatch, ids: pa.Array, outcome: Outcome) -> Rewrite:
        if isinstance(operator, Annotator):
            signals = operator.annotate(given)
            check_annotation(operator, given, signals)
            return Rewrite(pa.array([""] * len(given), pa.large_string()), {}, signals)
        if not isinstance(operator, Transform):
            raise ContractError(f"{operator.name!r} is neither an Annotator nor a Transform", fix="derive it from one of them")
        rewrite = operator.transform(given)
        check_rewrite(operator, given, rewrite)
        outcome.edits.append(self._edits(operator, given, ids, rewrite))
        return rewrite

    def _edits(self, operator: Transform, given: pa.RecordBatch, ids: pa.Array, rewrite: Rewrite) -> pa.RecordBatch:
        """One row for each document and kind of edit; a change that was not counted breaks the contract."""
        before, after = given.column("text"), rewrite.text
        changed = np.flatnonzero(pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False))
        counts = {kind: np.asarray(array.to_numpy(zero_copy_only=False)) for kind, array in rewrite.edits.items()}
        rows = [(int(row), kind, int(count[row])) for row in changed for kind, count in counts.items() if count[row]]
        silent = sorted(set(changed.tolist()) - {row for row, _, _ in rows})
        if silent:
            raise ContractError(
                f"text of {ids[silent[0]]} (and {len(silent) - 1} more) changed, but no edit was counted",
                where=operator.name,
                fix="count every change in `edits`",
            )
        index = [row for row, _, _ in rows]
        return pa.record_batch(
            {
                "doc_id": ids.take(pa.array(index, pa.int64())),
                "run_id": pa.array([self.run_id] * len(rows), pa.string()),
                "operator": pa.array([operator.name] * len(rows), pa.string()),
                "op_id": pa.array([self.op_ids[operator.name]] * len(rows), pa.string()),
                "kind": pa.array([kind for _, kind, _ in rows], pa.string()),
                "count": pa.array([count for _, _, count in rows], pa.int64()),
                "hash_before": pa.array([text_hash(before[row].as_py()) for row in index], pa.string()),
                "hash_after": pa.array([text_hash(after[row].as_py()) for row in index], pa.string()),
                "spans": pa.array(
                    [rewrite.spans[kind][row].as_py() if kind in rewrite.spans else None for row, kind, _ in rows], schema.EDIT_SPANS
                ),
            },
            schema=schema.EDITS,
        )

    def _fault(self, operator: Operator, batch: pa.RecordBatch, row: int, error: str, message: str) -> dict[str, Any]:
        return {
            "doc_id": batch.column("doc_id")[row].as_py(),
            "run_id": self.run_id,
            "stage": "clean",
            "source": batch.column("source")[row].as_py(),
            "operator": operator.name,
            "op_id": self.op_ids[operator.name],
            "error": error,
            "message": message,
        }

    def _finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `documents`: signals in schema order, and the final text's length and hash."""
        text = batch.column("text")
        n_bytes = pc.cast(pc.binary_length(text), pa.int64())
        hashes = pa.array([text_hash(value) for value in text.to_pylist()], pa.string())
        columns = {name: batch.column(name) for name in batch.schema.names} | {"n_bytes": n_bytes, "text_hash": hashes}
        wanted = documents_schema(self.operators)
        return pa.record_batch([columns[name] for name in wanted.names], schema=wanted)


def text_hash(text: str) -> str:
    """128-bit hex hash of a text's UTF-8 bytes."""
    return xxhash.xxh3_128_hexdigest(text.encode())


def _safe_message(error: Exception) -> str:
    """The error's message, short: it must say what failed without carrying the document along."""
    return str(error).splitlines()[0][:200] if str(error) else ""


def _apply(operator: Operator, batch: pa.RecordBatch, done: Sequence[tuple[np.ndarray[Any, Any], Rewrite]]) -> pa.RecordBatch:
    """The batch with an operator's signals added and, for a transform, its text replaced; untouched rows keep theirs."""
    rows = np.concatenate([part for part, _ in done]) if done else np.zeros(0, np.int64)
    where = np.full(len(batch), -1, np.int64)
    where[rows] = np.arange(len(rows))
    index = pa.array(where, mask=where < 0)
    columns: dict[str, pa.Array] = {name: batch.column(name) for name in batch.schema.names}
    if isinstance(operator, Transform) and done:
        new = pa.concat_arrays([result.text for _, result in done]).take(index)
        columns["text"] = pc.if_else(pa.array(where >= 0), new, columns["text"])
    for signal, kind in operator.writes.items():
        columns[schema.signal_column(operator.name, signal)] = _scatter(signal, kind, done, index)
    return pa.record_batch(list(columns.values()), names=list(columns))


def _scatter(signal: str, kind: pa.DataType, done: Sequence[tuple[Any, Rewrite]], index: pa.Array) -> pa.Array:
    values: list[pa.Array] = [result.signals[signal] for _, result in done]
    return (pa.concat_arrays(values) if values else pa.array([], kind)).take(index)


def quarantine_batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of `quarantine` from mappings; absent columns are null."""
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema.QUARANTINE)
