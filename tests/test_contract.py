"""The contract's checks: what is sound passes, and every kind of fault is named with its operator, documents and fix."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pydantic import Field

import dataplane
from dataplane.contract import check_annotation, check_class, check_rewrite
from dataplane.errors import ContractError
from dataplane.operator import Annotator, Filter, Operator, Rewrite, Transform

TEXT = pa.large_string()


class Length(Filter):
    """A sound filter."""

    name, version = "length", "1"
    reads = {"doc_id": pa.string(), "text": TEXT, "language__lang": pa.string()}
    writes = {"n": pa.int64()}

    class Params(dataplane.Params):
        most: int = Field(9, description="Most characters kept.")

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"n": pa.array([len(text) for text in batch.column("text").to_pylist()], pa.int64())}

    def rules(self) -> Mapping[str, str]:
        return {"too_long": f"length.n > {self.params.most}"}


class Upper(Transform):
    """A sound transform."""

    name, version = "upper", "1"
    edits = ("raised",)
    writes = {"n": pa.int32()}

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        return Rewrite(batch.column("text"))


BATCH = pa.record_batch({"doc_id": [f"{i:032x}" for i in range(5)], "text": pa.array(["a"] * 5, TEXT)})
INVALID_UTF8 = pa.Array.from_buffers(
    TEXT, 5, [None, pa.py_buffer(b"".join(i.to_bytes(8, "little") for i in range(6))), pa.py_buffer(b"\xff" * 5)]
)


def ints(*values: int | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.int64())


def fault(check: Any, operator: Operator, returned: object) -> ContractError:
    with pytest.raises(ContractError) as caught:
        check(operator, BATCH, returned)
    return caught.value


def test_sound_signals_and_rewrites_pass() -> None:
    check_annotation(Length(), BATCH, {"n": ints(1, None, 3, 4, 5)})
    check_annotation(Length(), BATCH.slice(0, 0), {"n": ints()})
    signals = {"n": ints(0, 0, 0, 0, 0, kind=pa.int32())}
    check_rewrite(Upper(), BATCH, Rewrite(pa.array(["b", None, "", "a", "a"], TEXT), {"raised": ints(1, 0, 0, 0, 0)}, signals))
    check_rewrite(Upper(), BATCH.slice(0, 0), Rewrite(pa.array([], TEXT), {"raised": ints()}, {"n": ints(kind=pa.int32())}))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType, expected a dict of arrays"),
        ({}, "signal 'n' is missing"),
        ({"n": ints(1, 2, 3, 4, 5), "m": ints(1)}, "signal 'm' is not in `writes`"),
        ({"n": ints(1, 2, 3, 4, 5, kind=pa.int32())}, "signal 'n' is int32, expected int64"),
        ({"n": ints(1, 2)}, "signal 'n' has 2 values for 5 rows"),
        ({"n": [1, 2, 3, 4, 5]}, "signal 'n' is list, expected a pyarrow Array"),
        ({"n": pa.chunked_array([ints(1, 2, 3, 4, 5)])}, "signal 'n' is ChunkedArray, expected a pyarrow Array"),
    ],
)
def test_each_fault_of_signals_is_named(returned: object, message: str) -> None:
    assert fault(check_annotation, Length(), returned).message.split(" (first documents")[0] == message


def test_the_error_says_who_where_and_how_to_mend_it() -> None:
    error = fault(check_annotation, Length(), {"n": ints(1, kind=pa.int8()), "m": ints(1)})
    ids = ", ".join(f"{i:032x}" for i in range(3))
    assert (error.where, error.fix, error.exit_code) == ("operator 'length'", f"mend {__name__}, or take it out of clean.pipeline", 1)
    assert error.message == (
        "signal 'm' is not in `writes`; signal 'n' is int8, expected int64; signal 'n' has 1 values for 5 rows"
        + f" (first documents: {ids})"
    )


def test_a_batch_without_ids_is_checked_too() -> None:
    with pytest.raises(ContractError, match=r"^operator 'length': signal 'n' is missing\n"):
        check_annotation(Length(), BATCH.select(["text"]), {})


N = {"n": ints(0, 0, 0, 0, 0, kind=pa.int32())}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (("a",), "returned tuple, expected a dataplane.Rewrite"),
        (Rewrite(pa.array(["a"] * 5), {}, N), "text is string, expected large_string"),
        (Rewrite(pa.array(["a"], TEXT), {}, N), "text has 1 values for 5 rows"),
        (Rewrite(INVALID_UTF8, {}, N), "text is damaged: "),
        (Rewrite(BATCH["text"], {"lowered": ints(0, 0, 0, 0, 0)}, N), "edit 'lowered' is not in `edits` (raised)"),
        (Rewrite(BATCH["text"], {"raised": ints(0)}, N), "edit 'raised' has 1 counts for 5 rows"),
        (Rewrite(BATCH["text"], {"raised": ints(0, 0, -1, 0, 0)}, N), "edit 'raised' has null or negative counts"),
        (Rewrite(BATCH["text"], {"raised": ints(0, 0, None, 0, 0)}, N), "edit 'raised' has null or negative counts"),
        (Rewrite(BATCH["text"], {"raised": ints(0, 0, 1, 0, 0, kind=pa.float64())}, N), "edit 'raised' is double, expected integers"),
        (Rewrite(BATCH["text"], {"raised": [0] * 5}, N), "edit 'raised' is list, expected integers"),
        (Rewrite(BATCH["text"], {}, {}), "signal 'n' is missing"),
    ],
)
def test_each_fault_of_a_rewrite_is_named(returned: object, message: str) -> None:
    assert fault(check_rewrite, Upper(), returned).message.startswith(message)


def changed(base: type[Operator], **attributes: object) -> type[Operator]:
    return type("Changed", (base,), attributes)


def test_sound_classes_pass() -> None:
    check_class(Length)
    check_class(Upper)


class Undescribed(dataplane.Params):
    """Params without descriptions and defaults."""

    bare: int
    most: int = 3


def raising(self: Operator) -> Mapping[str, str]:
    raise KeyError("most")


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (changed(Length, name="Length"), "name 'Length' is not lower case letters, digits and single underscores"),
        (changed(Length, name="a__b"), "name 'a__b' is not lower case"),
        (changed(Length, name=None), "name None is not lower case"),
        (changed(Length, name="source"), "name 'source' is a column of `documents`"),
        (changed(Length, version=1), "version 1 is not a text"),
        (changed(Length, version=""), "version '' is not a text"),
        (changed(Length, reads=["text"]), "`reads` is list, expected a dict of Arrow types"),
        (changed(Length, writes=None), "`writes` is NoneType, expected a dict of Arrow types"),
        (changed(Length, reads={"words": TEXT}), "reads 'words', which is no column (doc_id, kind, mime, source, text, url) and no signal"),
        (changed(Length, reads={"a__b__c": TEXT}), "reads 'a__b__c', which is no column"),
        (changed(Length, reads={"text": pa.string()}), "reads 'text' as string, but it is large_string"),
        (changed(Length, reads={"text": "string"}), "reads 'text' as 'string', which is no Arrow type"),
        (changed(Length, writes={"n": int}), "signal 'n' has no Arrow type, but <class 'int'>"),
        (changed(Length, writes={"N": pa.int64()}), "signal name 'N' is not lower case"),
        (changed(Length, writes={}), "an Annotator writes at least one signal"),
        (changed(Length, Params=dict), "`Params` is not derived from dataplane.Params"),
        (
            changed(Length, Params=Undescribed),
            "param 'bare' has no description; param 'most' has no description; param 'bare' has no default",
        ),
        (changed(Length, rules=raising), "rules() with default params raises KeyError: 'most'"),
        (changed(Length, rules=lambda self: {"Too long": "length.n > 1"}), "reason 'Too long' is not lower case"),
        (changed(Length, rules=lambda self: {"too_long": "length.m > 1"}), "rule 'too_long' looks at length.m, which it does not write"),
        (changed(Length, rules=lambda self: {"too_long": "kind = 'web'"}), "rule 'too_long' looks at no signal of its own"),
        (changed(Length, rules=lambda self: {"too_long": True}), "rule 'too_long' is bool, expected a SQL predicate"),
        (type("Lacking", (Annotator,), {"name": "lacking", "version": "1", "writes": {"n": pa.int8()}}), "method 'annotate' is missing"),
        (type("Neither", (Operator,), {"name": "neither", "version": "1"}), "it is neither an Annotator nor a Transform"),
        (changed(Upper, edits=()), "a Transform declares the kinds of its edits"),
        (changed(Upper, edits=("Raised",)), "edit 'Raised' is not lower case"),
        (changed(Upper, reads={"doc_id": pa.string()}), "a Transform reads text"),
    ],
)  # fmt: skip
def test_each_fault_of_a_class_is_named(cls: type[Operator], message: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_class(cls)
    assert caught.value.message.startswith(message)
    assert caught.value.fix == f"mend {cls.__module__}.{cls.__qualname__}"


def test_all_faults_of_a_class_are_named_at_once() -> None:
    with pytest.raises(ContractError) as caught:
        check_class(changed(Length, name="X", version="", writes={}))
    assert caught.value.message.count("; ") == 2


def test_quoted_signals_in_rules_are_understood() -> None:
    check_class(changed(Length, rules=lambda self: {"too_long": '"length"."n" > 1 AND language.lang = \'en\''}))
