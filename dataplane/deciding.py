"""Rules decide: SQL predicates over signals, each failing one recorded with the values that decided.

One definition serves `drop: now` inside the clean stage and the select stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane import schema
from dataplane.errors import ParamsError
from dataplane.lake.views import add_view, signals_by_operator
from dataplane.ruleset import referenced_signals

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """One reason to drop a document.

    Attributes:
        operator: Rule set or filter that gives it.
        op_id: Its identity, params included.
        reason: Name of what is wrong.
        predicate: SQL that is true where the document is dropped; null is not true.
        when: SQL that is true where the rule applies; empty applies everywhere.
    """

    operator: str
    op_id: str
    reason: str
    predicate: str
    when: str = ""

    def condition(self) -> str:
        """The whole predicate, never null."""
        guarded = f"({self.predicate})" if not self.when else f"({self.when}) AND ({self.predicate})"
        return f"coalesce({guarded}, false)"


class Decider:
    """Applies rules to batches of one schema.

    Args:
        rules: What decides.
        columns: Schema of the batches, signals flat.
        stage: Stage that decides, for the decisions' rows.
        run_id: The run that decides.

    Raises:
        ParamsError: A rule refers to what is not there, or is no SQL; every fault is named.
    """

    def __init__(self, rules: Sequence[Rule], columns: pa.Schema, *, stage: str, run_id: str) -> None:
        self.rules, self.stage, self.run_id = list(rules), stage, run_id
        # Text is no signal: a rule that wants it should be an operator.
        self.columns = [name for name in columns.names if name != "text"]
        self._known = signals_by_operator(columns)
        self._connection = _connection()
        self._query = self._build_query()
        self._check(columns)

    def looks_at(self) -> list[str]:
        """The columns of the signals that decide, sorted."""
        pairs = {pair for rule in self.rules for pair in referenced_signals(f"{rule.predicate} {rule.when}", self._known)}
        return sorted(schema.signal_column(operator, signal) for operator, signal in pairs)

    def _build_query(self) -> str:
        answers = [f"CASE WHEN {rule.condition()} THEN {self._values(rule)} END AS r{i}" for i, rule in enumerate(self.rules)]
        return f"SELECT {', '.join(answers) or '1'} FROM batch"

    def _values(self, rule: Rule) -> str:
        """JSON of the signals that a rule looked at."""
        used = referenced_signals(f"{rule.predicate} {rule.when}", self._known)
        pairs = ", ".join(f"'{operator}.{signal}', {operator}.{signal}" for operator, signal in used)
        return f"CAST(json_object({pairs}) AS VARCHAR)"

    def _check(self, columns: pa.Schema) -> None:
        import duckdb

        empty = pa.table({name: pa.array([], columns.field(name).type) for name in self.columns})
        add_view(self._connection, "batch", empty)
        try:
            self._connection.execute(self._query)
        except duckdb.Error as error:  # whose fault it is, each rule has to be asked
            faults = [f"{rule.operator}.{rule.reason}: {fault}" for rule in self.rules if (fault := self._fault(rule))]
            fix = "correct the rule, or put the operator whose signal it reads into clean.pipeline"
            raise ParamsError("; ".join(faults) or str(error), where=self.stage, fix=fix) from None

    def _fault(self, rule: Rule) -> str:
        """What is wrong with a rule; empty if nothing is."""
        import duckdb

        try:
            self._connection.execute(f"SELECT {rule.condition()} FROM batch")
        except duckdb.Error as error:
            return str(error).splitlines()[0]
        return ""

    def decide(self, batch: pa.RecordBatch) -> tuple[Mask, pa.RecordBatch]:
        """Which rows stay, and why the others go.

        Args:
            batch: Rows [n] of the schema given at the start; `text` may be absent.

        Returns:
            bool [n], true where the row is kept; and the rows of `decisions`, by document in batch order.
        """
        add_view(self._connection, "batch", pa.Table.from_batches([batch.select(self.columns)]))
        answers = self._connection.sql(self._query).to_arrow_table().combine_chunks()
        fails = np.zeros((len(batch), len(self.rules)), np.bool_)
        for i in range(len(self.rules)):
            fails[:, i] = answers.column(i).is_valid().to_numpy()
        rows, which = np.nonzero(fails)  # row-major: by document, then by rule
        kept: Mask = np.logical_not(fails.any(axis=1))
        return kept, self._decisions(batch, answers, rows, which)

    def _decisions(self, batch: pa.RecordBatch, answers: pa.Table, rows: Any, which: Any) -> pa.RecordBatch:
        def of_rule(attribute: str) -> pa.Array:
            names = pa.array([getattr(rule, attribute) for rule in self.rules], pa.string())
            return names.take(pa.array(which))

        values = [answers.column(int(rule))[int(row)].as_py() for row, rule in zip(rows, which, strict=True)]
        n = len(rows)
        return pa.record_batch(
            {
                "doc_id": batch.column("doc_id").take(pa.array(rows)),
                "run_id": pa.array([self.run_id] * n, pa.string()),
                "stage": pa.array([self.stage] * n, pa.string()),
                "operator": of_rule("operator"),
                "op_id": of_rule("op_id"),
                "reason": of_rule("reason"),
                "signals": pa.array(values, pa.string()),
            },
            schema=schema.DECISIONS,
        )


class Condition:
    """A `when` predicate over batches."""

    def __init__(self, predicate: str, *, where: str) -> None:
        self.predicate, self.where = predicate, where
        self._connection = _connection()

    def holds(self, batch: pa.RecordBatch) -> Mask:
        """bool [n]: where the predicate is true; null is not.

        Raises:
            ParamsError: It refers to what is not there, or is no SQL.
        """
        import duckdb

        add_view(self._connection, "batch", pa.Table.from_batches([batch.select([n for n in batch.schema.names if n != "text"])]))
        try:
            answer = self._connection.sql(f"SELECT coalesce(({self.predicate}), false) AS holds FROM batch").to_arrow_table()
        except duckdb.Error as error:
            fix = "correct the predicate; it may use source, kind, mime, url and the signals of operators above it"
            raise ParamsError(f"{self.predicate!r}: {str(error).splitlines()[0]}", where=self.where, fix=fix) from None
        result: Mask = answer.column("holds").to_numpy().astype(np.bool_)
        return result


def _connection() -> Any:
    """A private DuckDB without files or threads of its own: one batch is too little work to share."""
    import duckdb

    return duckdb.connect(":memory:", config={"threads": "1", "python_enable_replacements": "false", "enable_external_access": "false"})
