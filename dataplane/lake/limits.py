"""Cutting what takes too long: a time limit and Ctrl-C for calls into DuckDB, which itself looks at neither."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import pyarrow as pa

from dataplane.errors import DataError

T = TypeVar("T")
AGAIN_SECONDS = 0.05  # an interrupt between two steps of a call hits nothing: send it until the call has ended


class Watch:
    """A budget of seconds for calls into one connection; what the caller does between them is not counted.

    Args:
        connection: A DuckDB connection.
        seconds: The budget; None is without end.
    """

    def __init__(self, connection: Any, seconds: float | None) -> None:
        self._connection, self._seconds, self._spent = connection, seconds, 0.0

    def call(self, work: Callable[[], T]) -> T:
        """The result of the work.

        Raises:
            DataError: The budget is spent; the work has been interrupted.
            KeyboardInterrupt: Ctrl-C; the work has been interrupted.
        """
        started = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                return self._result(future)
            except KeyboardInterrupt:
                self._interrupt(future)
                raise
            finally:
                self._spent += time.monotonic() - started

    def batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The batches of a reader, each read under the budget."""
        while True:
            try:
                yield self.call(reader.read_next_batch)
            except StopIteration:
                return

    def _result(self, future: Future[T]) -> T:
        left = None if self._seconds is None else max(self._seconds - self._spent, 0.0)
        if not wait([future], left).done:
            self._interrupt(future)
            raise DataError(
                f"the question was cut after {self._seconds:g} s, its time limit",
                where="sql",
                fix="narrow the question, or raise --timeout (`timeout` in Python)",
            )
        return future.result()

    def _interrupt(self, future: Future[T]) -> None:
        while not future.done():
            self._connection.interrupt()
            wait([future], AGAIN_SECONDS)


class LimitedConnection:
    """A DuckDB connection, or a relation made from it, of which no call may take longer than a time limit.

    It has the methods and attributes of what it stands for.

    Args:
        target: The connection or the relation.
        connection: The connection.
        seconds: Time limit of each call.
    """

    def __init__(self, target: Any, connection: Any, seconds: float) -> None:
        self._target, self._connection, self._seconds = target, connection, seconds

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        return lambda *given, **named: self._call(lambda: value(*given, **named))

    def __repr__(self) -> str:
        # The text of a relation holds its first rows.
        return str(self._call(lambda: repr(self._target)))

    def _call(self, work: Callable[[], Any]) -> Any:
        import duckdb

        watch = Watch(self._connection, self._seconds)
        result = watch.call(work)
        if isinstance(result, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(result.schema, watch.batches(result))
        if isinstance(result, duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation):
            return LimitedConnection(result, self._connection, self._seconds)
        return result
