"""Thresholds asked for in a question, and the rules before and after them."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dataplane.corpus.selection import SelectParams, rules
from dataplane.deciding import Rule
from dataplane.errors import ParamsError, did_you_mean
from dataplane.operator import Filter
from dataplane.params import load_params
from dataplane.pipeline import CleanParams
from dataplane.registry import entries, operator_class
from dataplane.ruleset import ANY, load_rule_set

WHERE = "whatif"
FORM = 'ask as in `dataplane whatif "gopher_quality.min_words=100, language.min_score=0.8"`; NAME[1].PARAM means one of several uses'
_ASKED = re.compile(r"(?:^|,)\s*(\w+)(?:\[(\d+)\])?\.(\w+)\s*=")


@dataclass(frozen=True)
class Asked:
    """One threshold of a question.

    Attributes:
        name: Rule set or filter.
        use: Which of its uses in select.rules, from 0; None means all.
        param: Its param.
        value: What it would be.
    """

    name: str
    use: int | None
    param: str
    value: Any


@dataclass(frozen=True)
class Threshold:
    """One threshold in its place.

    Attributes:
        place: Path of the rule set's or filter's entry in params.yaml.
        name: Rule set or filter.
        param: Its param.
        before: Its value now; of numbers by language, those of the languages that the question names.
        after: Its value in the question.
        drops_now: Whether the documents that fail it are not in `documents`.
    """

    place: str
    name: str
    param: str
    before: Any
    after: Any
    drops_now: bool


@dataclass(frozen=True)
class Change:
    """What a question changes.

    Attributes:
        thresholds: Each in its place.
        before: Rules of the project.
        after: Rules with the question's thresholds.
    """

    thresholds: Sequence[Threshold]
    before: Sequence[Rule]
    after: Sequence[Rule]

    @property
    def same(self) -> list[Rule]:
        """Rules that the question leaves alone."""
        kept = {rule.condition() for rule in self.after}
        return [rule for rule in self.before if rule.condition() in kept]

    @property
    def gone(self) -> list[Rule]:
        """Rules that are no longer there, or not as they were."""
        kept = {rule.condition() for rule in self.after}
        return [rule for rule in self.before if rule.condition() not in kept]

    @property
    def new(self) -> list[Rule]:
        """Rules that were not there, or not as they are now."""
        had = {rule.condition() for rule in self.before}
        return [rule for rule in self.after if rule.condition() not in had]


def parse(question: str) -> list[Asked]:
    """The thresholds of a question like ``gopher_quality.min_words=100, language.min_score=0.8``; values are YAML.

    Raises:
        ParamsError: It is not of that form.
    """
    found = list(_ASKED.finditer(question))
    if not found or question[: found[0].start()].strip():
        raise ParamsError(f"{question!r} names no threshold", where=WHERE, fix=FORM)
    ends = [match.start() for match in found[1:]] + [len(question)]
    return [
        Asked(match[1], None if match[2] is None else int(match[2]), match[3], _value(match[0], question[match.end() : end]))
        for match, end in zip(found, ends, strict=True)
    ]


def _value(name: str, text: str) -> Any:
    name = name.strip(" ,=")
    if not text.strip():
        raise ParamsError(f"{name!r} has no value", where=WHERE, fix=FORM)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ParamsError(f"{name!r}: {text.strip()!r} is no value in YAML", where=WHERE, fix=FORM) from None


def change(question: str, root: Path = Path()) -> Change:
    """The rules of a project, and those with the thresholds of a question.

    Raises:
        ParamsError: An unknown name or threshold, or a value that it does not take.
    """
    before = _tree(load_params(root / "params.yaml"))
    after = copy.deepcopy(before)
    thresholds = [threshold for asked in parse(question) for threshold in _apply(asked, after)]
    for name in {threshold.name for threshold in thresholds if threshold.drops_now}:
        for side in (before, after):
            _entry(side["pipeline"], name)["drop"] = "later"  # among the documents that are there, its rules can be asked as well
    return Change(thresholds, _rules(before), _asked_rules(after))


def _tree(params: Mapping[str, Any]) -> dict[str, Any]:
    """What decides: the uses of select.rules and the steps of clean.pipeline."""
    select = SelectParams.parse(params.get("select"), where="select")
    clean = CleanParams.parse(params.get("clean"), where="clean")
    return {"rules": select.model_dump()["rules"], "pipeline": clean.model_dump()["pipeline"]}


def _apply(asked: Asked, after: Mapping[str, Any]) -> list[Threshold]:
    """Puts one threshold into the `after` tree, wherever its owner is used."""
    uses = [i for i, use in enumerate(after["rules"]) if use["use"] == asked.name]
    if uses and asked.use is not None:
        uses = _one_use(asked, uses)
    step = _entry(after["pipeline"], asked.name) if asked.name in _filters(after["pipeline"]) else None
    if not uses and step is None:
        known = {*_filters(after["pipeline"]), *(use["use"] for use in after["rules"])}
        fix = "name a rule set of select.rules or a filter of clean.pipeline"
        raise ParamsError(f"no rule set or filter {asked.name!r} decides here, {did_you_mean(asked.name, known)}", where=WHERE, fix=fix)
    measured = step["params"] if step else {}
    if step and not uses:
        place = f"clean.pipeline[{after['pipeline'].index(step)}]"
        return [_set(asked, place, step, measured, drops_now=step["drop"] == "now")]
    return [_set(asked, f"select.rules[{i}]", after["rules"][i], measured, drops_now=False) for i in uses]


def _one_use(asked: Asked, uses: Sequence[int]) -> list[int]:
    if asked.use is None or asked.use >= len(uses):
        raise ParamsError(f"{asked.name!r} is used {len(uses)} times, so [0] to [{len(uses) - 1}] are there", where=WHERE, fix=FORM)
    return [uses[asked.use]]


def _set(asked: Asked, place: str, entry: dict[str, Any], measured: dict[str, Any], *, drops_now: bool) -> Threshold:
    """Changes one entry of the tree."""
    resolved = _resolved(asked.name, measured | entry["params"], f"{place}.params")
    if asked.param not in resolved:
        raise ParamsError(f"{asked.name!r} has no param {asked.param!r}, {did_you_mean(asked.param, resolved)}", where=WHERE, fix=FORM)
    before, value = resolved[asked.param], asked.value
    if isinstance(value, Mapping) and (known := _by_language(asked, before)):
        before = {lang: known.get(lang, known[ANY]) for lang in value}
        value = known | dict(value)
    entry["params"] = entry["params"] | {asked.param: value}
    return Threshold(place, asked.name, asked.param, before, asked.value, drops_now)


def _by_language(asked: Asked, before: Any) -> dict[str, Any]:
    """The numbers of a rule set's param by language; empty for any other param. A question leaves those that it does not name alone."""
    if _is_filter(asked.name):
        return {}
    param = load_rule_set(asked.name).spec.params[asked.param]
    if not param.by_language:
        return {}
    return dict(before) if isinstance(before, Mapping) else dict.fromkeys(param.values(), before)


def _resolved(name: str, params: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Every param of a rule set or filter, defaults filled in."""
    if _is_filter(name):
        values: Mapping[str, Any] = operator_class(name).Params.parse(params, where=where).model_dump(mode="json")
        return values
    return load_rule_set(name, where=where).resolve(params, where=where).params


def _is_filter(name: str) -> bool:
    return name in entries("dataplane.operators") and issubclass(operator_class(name), Filter)


def _filters(pipeline: Sequence[Mapping[str, Any]]) -> list[str]:
    return [step["use"] for step in pipeline if _is_filter(step["use"])]


def _entry(used: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in used if entry["use"] == name)


def _rules(tree: Mapping[str, Any]) -> list[Rule]:
    select = SelectParams.parse({"rules": tree["rules"]}, where="select")
    return rules(select, CleanParams.parse({"pipeline": tree["pipeline"]}, where="clean"))


def _asked_rules(tree: Mapping[str, Any]) -> list[Rule]:
    """The rules after the question, whose faults are the question's."""
    try:
        return _rules(tree)
    except ParamsError as error:
        raise ParamsError(error.message, where=f"{WHERE}: {error.where}", fix=FORM) from None
