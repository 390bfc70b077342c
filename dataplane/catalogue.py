"""What there is to use: every source, operator and rule set with its origin, params, defaults and units, read off the code itself.

A class says where it comes from in its docstring, or its module's, in a paragraph that begins with ``Source:``. A numeric param has a unit:
``json_schema_extra={"unit": ...}`` of its field, or the first word of its description that is one.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic.fields import FieldInfo

from dataplane.operator import Annotator, Filter, Operator, Transform
from dataplane.params import Params, canonical_json
from dataplane.registry import entries, operator_class, source_class
from dataplane.ruleset import RuleParam, RuleSet, load_rule_set
from dataplane.source import Source

_SOURCE = re.compile(r"(?:^|\s)Sources?(?: of the [\w ]+)?: (.+?)(?:\n\s*\n|$)", re.DOTALL)
_UNITS = (
    "characters", "bytes", "words", "lines", "paragraphs", "sentences", "terms", "shares", "share", "ratio", "probability", "score",
    "perplexity", "pages", "records", "seconds", "namespaces", "bits", "digits", "tokens", "hits", "rows", "grams", "levels", "domains",
)  # fmt: skip
_UNIT = re.compile(rf"\b({'|'.join(_UNITS)})\b", re.IGNORECASE)
_BY_NAME = {"bytes": "bytes", "chars": "characters"}  # the ending of a param's name, which says its unit


@dataclass(frozen=True)
class Param:
    """One param.

    Attributes:
        name: Its name in params.yaml.
        default: Value where params.yaml names none; numbers by language as a mapping.
        unit: Unit of a number; empty for anything else.
        bounds: What it may be, as text ("0 to 1").
        description: What it means.
        numeric: Whether its values are numbers.
    """

    name: str
    default: Any
    unit: str
    bounds: str
    description: str
    numeric: bool


@dataclass(frozen=True)
class Decision:
    """One rule: a reason, the SQL that drops a document for it, where that applies, and where it comes from.

    A threshold by language stands as ``name[language.lang]``, the numbers are the param's.
    """

    reason: str
    predicate: str
    when: str
    source: str


@dataclass(frozen=True)
class Entry:
    """One thing that params.yaml can name.

    Attributes:
        name: Its name.
        kind: source, transform, annotator, filter or rules.
        version: Its version; empty for a source.
        title: First line of its docstring, or of its file.
        about: The rest of the docstring, without its source.
        source: Publication, standard or measurement it goes back to; empty where none is said.
        params: Its params.
        signals: Signal -> type, of operators.
        edits: Kinds of edit of a transform.
        rules: Its rules.
    """

    name: str
    kind: str
    version: str
    title: str
    about: str
    source: str
    params: tuple[Param, ...] = ()
    signals: dict[str, str] | None = None
    edits: tuple[str, ...] = ()
    rules: tuple[Decision, ...] = ()

    def faults(self) -> list[str]:
        """What the entry leaves unsaid, each with its name."""
        where = f"{self.kind} {self.name!r}"
        faults = [] if self.source else [f"{where} says no source: add a paragraph 'Source: ...' to its docstring"]
        faults += [f"rule {rule.reason!r} of {where} says no source" for rule in self.rules if not rule.source]
        return faults + [
            f"param {param.name!r} of {where} has no unit: name it in the description, or by json_schema_extra={{'unit': ...}}"
            for param in self.params
            if param.numeric and not param.unit
        ]


def catalogue(distribution: str | None = None) -> list[Entry]:
    """Every entry, sources first, by name.

    Args:
        distribution: Only what this distribution registers; all by default.

    Raises:
        PluginError: One of them cannot be loaded.
    """
    return list(_entries(distribution))


def _entries(distribution: str | None) -> Iterator[Entry]:
    makers: dict[str, Any] = {
        "dataplane.sources": lambda name: of_source(source_class(name)),
        "dataplane.operators": lambda name: of_operator(operator_class(name)),
        "dataplane.rules": lambda name: of_rule_set(load_rule_set(name)),
    }
    for group, make in makers.items():
        for name, point in entries(group).items():
            if distribution is None or (point.dist and point.dist.name == distribution):
                yield make(name)


def of_source(cls: type[Source]) -> Entry:
    """What a source's class says of itself."""
    return Entry(cls.name, "source", "", *_said(cls), params=_params(cls.Params))


def of_operator(cls: type[Operator]) -> Entry:
    """What an operator's class says of itself; the rules are those under its default params."""
    kinds = {Filter: "filter", Annotator: "annotator", Transform: "transform"}
    kind = next((name for base, name in kinds.items() if issubclass(cls, base)), "operator")
    title, about, source = _said(cls)
    return Entry(
        cls.name, kind, cls.version, title, about, source,
        params=_params(cls.Params),
        signals={name: str(kind) for name, kind in cls.writes.items()},
        edits=tuple(getattr(cls, "edits", ())),
        rules=tuple(Decision(reason, predicate, "", source) for reason, predicate in _own_rules(cls).items()),
    )  # fmt: skip


def of_rule_set(rules: RuleSet) -> Entry:
    """What a rule set's file says, with its default thresholds filled in; those by language are named."""
    spec = rules.spec
    params = tuple(
        Param(name, _default(p), _rule_unit(name, p), _range(p.ge, p.le), p.description, _is_number(p.default))
        for name, p in spec.params.items()
    )
    decisions = tuple(Decision(rule.reason, rule.predicate, rule.when, rule.source) for rule in rules.described().values())
    needs = "".join(f" Needs {name} with {canonical_json(given)}." for name, given in spec.needs.items())
    about = f"Reads {', '.join(spec.reads)}.{needs}"
    return Entry(spec.name, "rules", spec.version, spec.title, about, spec.source, params=params, rules=decisions)


def _own_rules(cls: type[Operator]) -> dict[str, str]:
    # Params without a default (a model's path) leave the thresholds open; the reasons are in the rules of an instance only.
    return dict(cls({}).rules()) if issubclass(cls, Filter) else {}


def _said(cls: type[Any]) -> tuple[str, str, str]:
    """Title, further text and source of a class, by its docstring and its module's."""
    own = inspect.cleandoc(cls.__doc__ or "")
    whole = inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")
    found = _SOURCE.search(own) or _SOURCE.search(whole)
    title, _, rest = own.partition("\n\n")
    text = _SOURCE.sub("\n", rest)
    return (
        " ".join(title.split()),
        "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip(),
        _line(found[1] if found else ""),
    )


def _line(text: str) -> str:
    return " ".join(text.split()).removesuffix(".")


def _params(cls: type[Params]) -> tuple[Param, ...]:
    return tuple(_param(name, field) for name, field in cls.model_fields.items())


def _param(name: str, field: FieldInfo) -> Param:
    limits = {key: value for part in field.metadata for key in ("ge", "gt", "le", "lt") if (value := getattr(part, key, None)) is not None}
    bounds = _range(limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt")))
    default = "required" if field.is_required() else field.get_default(call_default_factory=True)
    numeric = any(kind in (int, float) for kind in (field.annotation, *get_args(field.annotation)))
    description = field.description or ""
    return Param(name, default, _unit(name, description, field) if numeric else "", bounds, description, numeric)


def _unit(name: str, description: str, declared: Any) -> str:
    extra = getattr(declared, "json_schema_extra", None)
    if isinstance(extra, dict) and extra.get("unit"):
        return str(extra["unit"])
    if (ending := name.rpartition("_")[2]) in _BY_NAME:
        return _BY_NAME[ending]
    found = _UNIT.search(description)
    return found[1].lower() if found else ""


def _default(param: RuleParam) -> Any:
    return param.values() if param.by_language else param.default


def _rule_unit(name: str, param: RuleParam) -> str:
    return param.unit or (_unit(name, param.description, param) if _is_number(param.default) else "")


def _range(least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return ""
    return f"at most {most:g}" if least is None else f"at least {least:g}" if most is None else f"{least:g} to {most:g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
