"""The kit catches every kind of fault: one deliberately broken operator for each, and the words that name what is wrong."""

import itertools
import os
import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pydantic import Field

import dataplane
from dataplane import testing
from dataplane.errors import ContractError, ModelMissing
from dataplane.operator import Filter, Operator, Rewrite, Transform
from dataplane.testing import Example, conformance

SPAWNED = "in a spawned process: "
TEXT = pa.large_string()
GOOD = [Example("short"), Example("a text that is too long", {"too_long"}), ("也很长的一段中文文字", {"too_long"}), "汉字"]


class Length(Filter):
    """Sound: every broken one differs from it in one point."""

    name, version = "length", "1"
    writes = {"n": pa.int64()}

    class Params(dataplane.Params):
        most: int = Field(9, description="Most characters kept.")

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"n": pc.utf8_length(batch.column("text"))}

    def rules(self) -> Mapping[str, str]:
        return {"too_long": f"length.n > {self.params.most}"}


class Trim(Transform):
    """Sound transform."""

    name, version = "trim", "1"
    edits = ("space",)

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        text = batch.column("text")
        trimmed = pc.utf8_trim_whitespace(text)
        return Rewrite(trimmed, {"space": pc.subtract(pc.utf8_length(text), pc.utf8_length(trimmed))})


class WrongType(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"n": super().annotate(batch)["n"].cast(pa.int32())}


class MissingSignal(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {}


class OneRowShort(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"n": super().annotate(batch)["n"][1:]}


class EmptyBatch(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        batch.column("text")[0].as_py()
        return super().annotate(batch)


class WritesToItsInput(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        values = batch.column("text").buffers()[2]
        if len(batch) and values.size:
            np.frombuffer(values, np.uint8)[:1] = ord("X")
        return super().annotate(batch)


class CountsCalls(Length):
    _calls = itertools.count()

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"n": pa.array([next(self._calls)] * len(batch), pa.int64())}


class LooksAtTheBatch(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        lengths = super().annotate(batch)["n"]
        return {"n": pc.add(lengths, len(batch))}


class LooksAtTheRowAbove(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        lengths = super().annotate(batch)["n"].to_pylist()
        return {"n": pa.array(itertools.accumulate(lengths, max), pa.int64())}


class RaisesOnNul(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        if any("\0" in text for text in batch.column("text").to_pylist()):
            raise ValueError("embedded null character")
        return super().annotate(batch)


class HangsOnLongLines(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        if any(len(text) >= 1_000_000 for text in batch.column("text").to_pylist()):
            time.sleep(600)
        return super().annotate(batch)


class DiesOnMarks(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        if any(text == "e" + "\u0301" * 2_000 for text in batch.column("text").to_pylist()):
            os._exit(7)
        return super().annotate(batch)


class MixesHostileRows(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        lengths = super().annotate(batch)["n"].to_pylist()
        return {"n": pa.array([min(n, 99) if 1_000_000 in lengths else n for n in lengths], pa.int64())}


class SaltedHash(Length):
    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        # Above every limit, so that the short example is always dropped, whatever the salt.
        return {"n": pa.array([2**32 + abs(hash(text)) // 2 for text in batch.column("text").to_pylist()], pa.int64())}


class SetInParams(Length):
    class Params(dataplane.Params):
        most: int = Field(9, description="Most characters kept.")
        words: frozenset[str] = Field(frozenset("abcdefgh"), description="Words.")


class Undescribed(Length):
    class Params(dataplane.Params):
        most: int = 9


class ForgetsItsParams(Length):
    @property
    def op_id(self) -> str:
        return "0" * 32


class NewIdEachTime(Length):
    _made = itertools.count()

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self._number = next(self._made)

    @property
    def op_id(self) -> str:
        return f"{self._number:032x}"


class NoSql(Length):
    def rules(self) -> Mapping[str, str]:
        return {"too_long": f"length.n >> > {self.params.most}"}


class UnknownColumn(Length):
    def rules(self) -> Mapping[str, str]:
        return {"too_long": "length.n > 9 AND words > 3"}


class NeverTrue(Length):
    def rules(self) -> Mapping[str, str]:
        return {**super().rules(), "negative": "length.n < 0"}


class DropsAll(Length):
    def rules(self) -> Mapping[str, str]:
        return {"too_long": "length.n >= 0"}


class NotOpened(Length):
    _opened_here = False

    def open(self) -> None:
        type(self)._opened_here = os.environ.get("KIT_PARENT") == str(os.getpid())

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        if not self._opened_here:
            raise RuntimeError("the model is not loaded")
        return super().annotate(batch)


class Uncounted(Trim):
    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        return Rewrite(pc.utf8_trim_whitespace(batch.column("text")))


class UndeclaredEdit(Trim):
    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        return Rewrite(batch.column("text"), {"tab": pa.array([0] * len(batch), pa.int8())})


class NegativeEdit(Trim):
    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        return Rewrite(batch.column("text"), {"space": pa.array([-1] * len(batch), pa.int8())})


class NotANumber(Filter):
    """Sound: NaN is equal to NaN."""

    name, version = "not_a_number", "1"
    writes = {"x": pa.float64()}

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"x": pa.array([float("nan")] * len(batch), pa.float64())}

    def rules(self) -> Mapping[str, str]:
        return {}


def faults(cls: type[Operator], examples: list[object] | None = None) -> str:
    with pytest.raises(ContractError) as caught:
        conformance(cls, examples=examples or (GOOD if issubclass(cls, Filter) else [" a ", "b"]))  # type: ignore[arg-type]
    assert (caught.value.where, caught.value.fix) == (f"operator {cls.name!r}", f"mend {cls.__module__}.{cls.__qualname__}")
    return caught.value.message


@pytest.mark.parametrize("cls", [Length, Trim, NotANumber])
def test_sound_operators_pass(cls: type[Operator]) -> None:
    conformance(cls, examples=GOOD if cls is Length else [" a ", "b", "　全角　"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (WrongType, "schema and length: signal 'n' is int32, expected int64"),
        (MissingSignal, "schema and length: signal 'n' is missing"),
        (OneRowShort, "schema and length: signal 'n' has 3 values for 4 rows"),
        (EmptyBatch, "empty batch: IndexError"),
        (WritesToItsInput, "input untouched: the batch was changed in place"),
        (CountsCalls, "same result twice: n of row 0 was"),
        (LooksAtTheBatch, "same result however the batch is split: n of row 0 was 9, then 6"),
        (LooksAtTheRowAbove, "same result in any order: n of row "),
        (RaisesOnNul, "in a spawned process: the hostile text '\\x00\\x00\\x00': ValueError: embedded null character"),
        (
            DiesOnMarks,
            "in a spawned process: the hostile text 'e" + "\\u0301" * 19 + "'... (2,001 characters) ended the process (exit code 7)",
        ),
        (MixesHostileRows, "in a spawned process: hostile texts alone and in one batch: n of row 10 was 2001, then 99"),
        (SaltedHash, "in a spawned process: n of row 0 was "),
        (SetInParams, "in a spawned process: op_id is another there"),
        (Undescribed, "param 'most' has no description"),
        (ForgetsItsParams, "identity: most=9 and most=10 give the same op_id"),
        (NewIdEachTime, "identity: equal params give another op_id"),
        (NoSql, "reasons: length.too_long: Parser Error"),
        (UnknownColumn, 'reasons: length.too_long: Binder Error: Referenced column "words" not found'),
        (NeverTrue, "reasons: no example reaches 'negative'"),
        (DropsAll, "reasons: 'short' is dropped for ['too_long'], expected nothing"),
        (Uncounted, "schema and length: the text ' a ' was changed, but no edit was counted"),
        (UndeclaredEdit, "schema and length: edit 'tab' is not in `edits` (space)"),
        (NegativeEdit, "schema and length: edit 'space' has null or negative counts"),
    ],
)
def test_each_kind_of_fault_is_caught(cls: type[Operator], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not said.startswith(SPAWNED):  # a process costs 2 s
        monkeypatch.setattr(testing, "_CHECKS", testing._CHECKS[:-1])
    assert said in faults(cls)


def test_a_hang_is_ended_and_the_text_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "MAX_SECONDS_TEXT", 1.0)
    assert f"{SPAWNED}the hostile text '{'x' * 20}'... (1,000,000 characters) took more than 1 s" in faults(HangsOnLongLines)


def test_a_class_that_workers_cannot_find_is_caught() -> None:
    class Local(Length):
        pass

    assert "does it stand at the top level of a module?" in faults(Local)


def test_what_open_does_must_work_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_PARENT", str(os.getpid()))
    assert "in a spawned process: the examples: RuntimeError: the model is not loaded" in faults(NotOpened)


def test_an_expected_reason_that_does_not_come_is_caught() -> None:
    assert "reasons: 'short' is dropped for nothing, expected ['too_long']" in faults(Length, [("short", {"too_long"}), *GOOD[1:]])


def test_no_example_is_a_fault() -> None:
    with pytest.raises(ContractError, match="no example was given"):
        conformance(Length, examples=[])


def test_all_faults_are_named_together() -> None:
    message = faults(SaltedHash)
    assert "reasons: " in message
    assert "in a spawned process: " in message


def test_a_missing_model_is_not_taken_for_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: Operator) -> None:
        raise ModelMissing("no model")

    monkeypatch.setattr(Length, "open", absent)
    with pytest.raises(ModelMissing):
        conformance(Length, examples=GOOD)  # type: ignore[arg-type]
