"""An operator at work in a process of its own, where it can hang or die without harm, and its results under one roof."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.contract import check_annotation, check_rewrite
from dataplane.errors import ContractError, TerraplaneError
from dataplane.operator import Annotator, Operator, Rewrite, Transform

MAX_SHOWN_CHARS = 60
STOP_SECONDS = 5.0


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
    _check_counted(batch, rewrite)
    edits = {f"edits.{kind}": counts.cast(pa.int64()) for kind, counts in rewrite.edits.items()}
    return {**rewrite.signals, "text": rewrite.text, **edits}


def _check_counted(batch: pa.RecordBatch, rewrite: Rewrite) -> None:
    changed = pc.fill_null(pc.not_equal(batch.column("text"), rewrite.text), False).to_numpy(zero_copy_only=False)
    counted = np.zeros(len(batch), np.bool_)
    for counts in rewrite.edits.values():
        counted |= counts.to_numpy(zero_copy_only=False) > 0
    for row in np.flatnonzero(changed & ~counted)[:1]:
        raise ContractError(f"the text {short(batch.column('text')[int(row)].as_py())} was changed, but no edit was counted")


class Isolated:
    """An operator at work in a process of its own, where it can hang or die without harm.

    Args:
        operator: Made anew there from its class and params.
        batches: What it is applied to, one after the other; the first answer is its op_id.
    """

    def __init__(self, operator: Operator, batches: Sequence[pa.RecordBatch]) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers, sender = context.Pipe(duplex=False)
        args = (sender, type(operator), operator.params.model_dump(), list(batches))
        self._process = context.Process(target=_work, args=args, daemon=True)
        try:
            self._process.start()
        finally:
            sender.close()  # so that the end of the process is the end of the pipe

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join(STOP_SECONDS)
        self._answers.close()

    def receive(self, what: str, seconds: float) -> Any:
        """The next answer.

        Raises:
            ContractError: It raised, is not there in time, or the process is dead.
        """
        if not self._answers.poll(seconds):
            raise ContractError(f"{what} took more than {seconds:g} s")
        try:
            answer, error = self._answers.recv()
        except EOFError:
            self._process.join(STOP_SECONDS)
            raise ContractError(f"{what} ended the process (exit code {self._process.exitcode})") from None
        if error:
            raise ContractError(f"{what}: {error}")
        return answer


def _work(answers: Connection, cls: type[Operator], params: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> None:
    """What the process does; an answer is (result, "") or (None, what was raised)."""
    try:
        operator = cls(params)
        operator.open()
        answers.send((operator.op_id, ""))
        for batch in batches:
            answers.send((apply(operator, batch), ""))
    # As in _run: what it raised is the finding.
    except Exception as error:  # noqa: BLE001
        answers.send((None, said(error)))


def said(error: Exception) -> str:
    """What an error says, with its class where it is not one of ours."""
    return error.message if isinstance(error, TerraplaneError) else f"{type(error).__name__}: {error}"


def short(value: object) -> str:
    """A value as it is shown in a message."""
    # Cut before it is written out: repr of a text of 1 MB is slow to read.
    text = repr(value[:MAX_SHOWN_CHARS] if isinstance(value, str) else value)
    cut = len(text) > MAX_SHOWN_CHARS + 2 or (isinstance(value, str) and len(value) > MAX_SHOWN_CHARS)
    return f"{text[:MAX_SHOWN_CHARS]}..." if cut else text
