"""Hostile text passes through every operator in bounded time, and gives each text the result that it has alone.

An operator works in a process of its own, which is ended where it takes too long: a pattern that backtracks in C cannot be interrupted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.errors import ModelMissing
from dataplane.isolated import Isolated
from dataplane.operator import Operator
from dataplane.registry import operator_class
from dataplane.testing import Example, batch_of
from tests.conformance import hostile_texts
from tests.conformance.test_registered_operators import EXAMPLES, PARAMS, registered, trained

SECONDS_START, SECONDS_TRAP = 120.0, 20.0  # a trap is 0.2 MB; one that is quadratic takes many minutes
SECONDS_LONG = 240.0  # for 50 MB
SINGLES = pytest.mark.parametrize("name", registered())
project = trained  # the fixture, under a name that a parameter does not hide


def batches(operator: Operator, texts: Sequence[str]) -> list[pa.RecordBatch]:
    """A batch for each text, with the columns that make the operator look at it, and the text as address too."""
    columns = dict(EXAMPLES[operator.name][0].columns)
    return [batch_of(operator, [Example(text, columns={"url": text, **columns})]) for text in texts]


def made(name: str) -> Operator:
    operator = operator_class(name)(PARAMS.get(name))
    try:
        operator.files()
    except ModelMissing as missing:
        pytest.skip(missing.render())
    return operator


def survives(operator: Operator, texts: dict[str, str], seconds: float) -> dict[str, Any]:
    """The result of each text; a text that hangs or ends the process is named."""
    with Isolated(operator, batches(operator, ["", *texts.values()])) as child:
        child.receive("the start", SECONDS_START)
        child.receive("the first text", SECONDS_START)  # loads and compiles what it needs
        return {name: child.receive(f"{operator.name} on {name!r}", seconds) for name in texts}


@pytest.mark.slow
@pytest.mark.usefixtures("project")
@SINGLES
def test_naughty_strings_have_the_same_result_alone_and_together(name: str) -> None:
    operator = made(name)
    parts = batches(operator, hostile_texts.NAUGHTY)
    with Isolated(operator, [*parts, pa.Table.from_batches(parts).combine_chunks().to_batches()[0]]) as child:
        child.receive("the start", SECONDS_START)
        alone = [child.receive(f"{name} on {text!a}", SECONDS_START) for text in hostile_texts.NAUGHTY]
        together = child.receive("all naughty strings", SECONDS_START)
    joined = {signal: pa.concat_arrays([part[signal] for part in alone]) for signal in together}
    assert {signal: repr(array.to_pylist()) for signal, array in joined.items()} == {
        signal: repr(array.to_pylist()) for signal, array in together.items()
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("project")
@SINGLES
def test_no_trap_holds_an_operator(name: str) -> None:
    assert len(survives(made(name), hostile_texts.TRAPS, SECONDS_TRAP)) == len(hostile_texts.TRAPS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("project")
@SINGLES
def test_a_line_of_50_mb_and_a_million_marks_take_bounded_time(name: str) -> None:
    texts = {
        "a million marks": hostile_texts.marks(),
        "a line of 50 MB": hostile_texts.long_line(),
        "a Chinese line of 50 MB": hostile_texts.long_line("这一行没有尽头"),
        "a word of 50 MB": hostile_texts.long_line("a"),
    }
    assert len(survives(made(name), texts, SECONDS_LONG)) == len(texts)


@pytest.mark.slow
@pytest.mark.usefixtures("project")
@SINGLES
def test_public_naughty_strings_pass(name: str, shared_data: Path) -> None:
    texts = {ascii(text[:40]) + f" ({i})": text for i, text in enumerate(hostile_texts.public(shared_data))}
    assert len(survives(made(name), texts, SECONDS_TRAP)) == len(texts)


def test_the_sets_hold_what_they_promise() -> None:
    assert len(set(hostile_texts.NAUGHTY)) == len(hostile_texts.NAUGHTY) > 150
    assert min(map(len, hostile_texts.TRAPS.values())) > 300
    assert hostile_texts.marks().count("\u0301") + hostile_texts.marks().count("\u0323") == hostile_texts.MARKS
    line = hostile_texts.long_line()
    assert (len(line) > 0.99 * hostile_texts.LINE_BYTES, line.count("\n")) == (True, 0)
