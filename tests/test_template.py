"""The packaged params name everything that can be used, and what stands behind a comment sign works once the sign is gone."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from dataplane.operator import Transform
from dataplane.pipeline import Step, build
from dataplane.registry import entries
from dataplane.ruleset import load_rule_set

OWN = "terraplane"


def used(*, commented: bool) -> dict[str, Any]:
    """clean.pipeline and select.rules of the template, with or without what is behind a comment sign."""
    text = files("dataplane.template").joinpath("params.yaml").read_text(encoding="utf-8")
    params = yaml.safe_load(re.sub(r"(?m)^( +)# (- \{use: .*\})$", r"\1\2", text) if commented else text)
    return {"clean": params["clean"]["pipeline"], "select": params["select"]["rules"]}


def registered(group: str) -> Iterator[str]:
    return (name for name, point in entries(group).items() if point.dist and point.dist.name == OWN)


def test_every_operator_and_rule_set_is_an_option() -> None:
    options = used(commented=True)
    assert sorted(registered("dataplane.operators")) == sorted(step["use"] for step in options["clean"])
    assert sorted(registered("dataplane.rules")) == sorted(rules["use"] for rules in options["select"])


@pytest.mark.parametrize("commented", [False, True])
def test_the_pipeline_can_be_built_as_it_stands_and_with_every_option(commented: bool) -> None:
    steps = [Step.parse(step, where="clean") for step in used(commented=commented)["clean"]]
    assert [operator.name for operator in build(steps)] == [step.use for step in steps]


def test_transforms_come_first_also_among_the_options() -> None:
    operators = build([Step.parse(step, where="clean") for step in used(commented=True)["clean"]])
    # One that reads a signal has to come after what measures it.
    late = [op for op in operators if isinstance(op, Transform) and any("__" in column for column in op.reads)]
    assert [op.name for op in late] == ["scrub_names"]
    kinds = [isinstance(op, Transform) for op in operators if op not in late]
    assert kinds == sorted(kinds, reverse=True)


def test_a_rule_set_reads_what_the_options_measure() -> None:
    options = used(commented=True)
    measured = {step["use"] for step in options["clean"]}
    assert {name for rules in options["select"] for name in load_rule_set(rules["use"]).reads} <= measured
