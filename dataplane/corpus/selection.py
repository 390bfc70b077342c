"""Selection: which rules decide, from params.yaml, rule sets and the filters of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from dataplane.deciding import Rule
from dataplane.errors import ParamsError, did_you_mean
from dataplane.operator import Filter
from dataplane.params import Params, canonical_json
from dataplane.pipeline import CleanParams, Step, filter_rules
from dataplane.registry import entries, operator_class
from dataplane.ruleset import RuleSet, load_rule_set


class RuleUse(Params):
    """One rule set, or a filter of the pipeline whose thresholds differ here."""

    use: str = Field(description="Name of a rule set, or of a filter in clean.pipeline.")
    params: dict[str, Any] = Field({}, description="Thresholds; defaults where left out.")
    when: str = Field("", description="SQL predicate; the rules apply to the documents for which it is true.")


class SelectParams(Params):
    """Params of the select stage."""

    rules: list[RuleUse] = Field([], description="What decides, beside the filters of clean.pipeline, which always do.")


def rules(params: SelectParams, clean: CleanParams) -> list[Rule]:
    """Every rule that decides in the select stage.

    Raises:
        ParamsError: An unknown name or threshold.
    """
    filters = _filters(clean)
    decided: list[Rule] = []
    for i, use in enumerate(params.rules):
        where = f"select.rules[{i}]"
        if use.use in filters:
            step = filters.pop(use.use)
            decided += filter_rules(_filter(step, use.params, f"{where}.params"), _both(step.when, use.when))
        elif use.use in entries("dataplane.rules"):
            rule_set = load_rule_set(use.use, where=where)
            _check_needs(rule_set, clean, where)
            resolved = rule_set.resolve(use.params, where=f"{where}.params")
            decided += [Rule(use.use, resolved.op_id, reason, predicate, use.when) for reason, predicate in resolved.predicates().items()]
        else:
            known = [*entries("dataplane.rules"), *filters]
            raise ParamsError(f"no rule set or filter {use.use!r}, {did_you_mean(use.use, known)}", where=where, fix="correct the name")
    return decided + [
        rule for step in filters.values() for rule in filter_rules(_filter(step, {}, f"clean.pipeline, {step.use}"), step.when)
    ]


def _check_needs(rule_set: RuleSet, clean: CleanParams, where: str) -> None:
    """Sees that operators measure what a rule set decides on, where their defaults do not."""
    for step in clean.pipeline:
        missing = {name: value for name, value in rule_set.spec.needs.get(step.use, {}).items() if name not in step.params}
        if missing:
            named = ", ".join(missing)
            fix = f"give {step.use} in clean.pipeline the params {canonical_json(missing)}, or values of your own"
            raise ParamsError(f"rule set {rule_set.name!r} decides on what {step.use} measures with {named}", where=where, fix=fix)


def _filters(clean: CleanParams) -> dict[str, Step]:
    """The pipeline's filters that leave the decision to this stage."""
    return {step.use: step for step in clean.pipeline if step.drop == "later" and issubclass(operator_class(step.use), Filter)}


def _filter(step: Step, params: Mapping[str, Any], where: str) -> Filter:
    """The filter of a step, some of its params replaced."""
    cls = operator_class(step.use)
    operator = cls(cls.Params.parse(step.params | dict(params), where=where))
    assert isinstance(operator, Filter)
    return operator


def _both(*predicates: str) -> str:
    return " AND ".join(f"({predicate})" for predicate in predicates if predicate)


def signal_columns(names: Sequence[str]) -> list[str]:
    """The columns that rules may look at: everything but the text."""
    return [name for name in names if name != "text"]
