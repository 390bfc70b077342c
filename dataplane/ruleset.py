"""Rule sets: rules as data. A YAML file holds params with ranges, and reasons with the SQL predicates that drop a document.

    name: gopher_quality
    version: "1"
    title: Gopher quality rules
    source: Rae et al. 2021, arXiv:2112.11446, A1.1
    reads: [text_signals, language]                      # operators whose signals the predicates use
    needs: {text_signals: {stop_words: fineweb2}}        # params of theirs that clean.pipeline has to give, with a value that fits
    params:
      min_words: {default: 50, ge: 0, unit: words, description: Fewest words kept.}
      max_newline_ratio: {default: 0.3, by_language: {de: 0.152}, description: Most newlines a word.}
    rules:
      too_few_words:                                     # the reason: what is wrong with the document
        where: "text_signals.n_words < {min_words}"      # true where it is dropped
        when: "kind NOT IN {code_kinds}"                 # true where the rule applies; left out: everywhere
        source: A1.1, word count

Where a param has values by language, params.yaml gives it one number for every language, or a mapping: numbers for some
languages, and under "*" one for those without. Languages that a mapping leaves out keep the file's.

A set is found by an entry point NAME of group ``dataplane.rules`` whose value is the package that holds NAME.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Annotated, Any

import yaml
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, create_model

from dataplane.errors import ParamsError, PluginError, did_you_mean
from dataplane.params import Params, digest
from dataplane.registry import entries, owner
from dataplane.schema import NAME, SIGNAL_SEPARATOR

GROUP = "dataplane.rules"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # seven times as fast, where libyaml is there
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_REFERENCE = re.compile(r'"?([A-Za-z_]\w*)"?\."?([A-Za-z_]\w*)"?|"?([A-Za-z_]\w*?)"?' + SIGNAL_SEPARATOR + r'([A-Za-z_]\w*)"?')

ANY = "*"  # every language without a value of its own
_LANGUAGE = r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*$"  # as models name them: de, zh-Hant, deu_Latn
_LANGUAGE_OR_ANY = rf"^\*$|{_LANGUAGE}"

Value = bool | int | float | str | list[str] | dict[str, float]


class RuleParam(Params):
    """One param of a rule set as its file declares it."""

    default: StrictBool | StrictInt | StrictFloat | StrictStr | list[StrictStr] = Field(
        description="Value where params.yaml names none; its type is the param's type."
    )
    description: str = Field(description="What it means.")
    unit: str = Field("", description="Unit of the value.")
    ge: float | None = Field(None, description="Smallest value allowed.")
    le: float | None = Field(None, description="Largest value allowed.")
    source: str = Field("", description="Where the default comes from, if not from the rule's source.")
    by_language: dict[Annotated[str, Field(pattern=_LANGUAGE)], StrictInt | StrictFloat] = Field(
        {}, description="Values for documents of some languages, by language.lang."
    )

    def values(self) -> dict[str, float]:
        """Numbers by language, the default among them as that of every other language; all of the default's type."""
        given: dict[str, Any] = {ANY: self.default, **self.by_language}
        return {lang: float(value) if isinstance(self.default, float) else value for lang, value in given.items()}


class RuleSpec(Params):
    """One rule as the file declares it."""

    where: str = Field(description="SQL predicate, true where the document is dropped.")
    when: str = Field("", description="SQL predicate, true where the rule applies.")
    source: str = Field(description="Section of the publication, or the measurement.")


class RuleSetFile(Params):
    """The content of NAME.yaml."""

    name: str = Field(description="Name of the set, that of its file and entry point.")
    version: str = Field(description="To be raised when any decision can change.")
    title: str = Field(description="One line for people.")
    source: str = Field(description="Publication.")
    reads: list[str] = Field(description="Operators whose signals the predicates use.")
    needs: dict[str, dict[str, Any]] = Field({}, description="Params of such operators that a project has to give, with values that fit.")
    params: dict[str, RuleParam] = Field({}, description="Params by name.")
    rules: dict[str, RuleSpec] = Field(description="Rules by reason.")


@dataclass(frozen=True)
class ResolvedRule:
    """A rule with its thresholds filled in.

    Attributes:
        reason: What is wrong with the document.
        predicate: SQL that is true where the document is dropped.
        when: SQL that is true where the rule applies; empty applies everywhere.
        source: Section of the publication, or the measurement.
    """

    reason: str
    predicate: str
    when: str
    source: str

    def condition(self) -> str:
        """One predicate for both."""
        return f"({self.when}) AND ({self.predicate})" if self.when else self.predicate


@dataclass(frozen=True)
class ResolvedRules:
    """A rule set under the params of one project.

    Attributes:
        name: Name of the set.
        op_id: 128-bit identity: digest of name, version, the file's rules and the resolved params.
        params: Every param with its value.
        rules: Reason -> rule, in the file's order.
    """

    name: str
    op_id: str
    params: Mapping[str, Value]
    rules: Mapping[str, ResolvedRule]

    def predicates(self) -> dict[str, str]:
        """Reason -> SQL that is true where the document is dropped for it."""
        return {reason: rule.condition() for reason, rule in self.rules.items()}


class RuleSet:
    """A set of rules and the params they take.

    Args:
        spec: The file's content, already checked by `parse_rule_set`.
    """

    def __init__(self, spec: RuleSetFile) -> None:
        self.spec = spec
        self.name, self.version, self.reads = spec.name, spec.version, tuple(spec.reads)

    @cached_property
    def params_class(self) -> type[Params]:
        """A params class with the file's defaults, ranges and descriptions."""
        fields: dict[str, Any] = {name: _field(param) for name, param in self.spec.params.items()}
        return create_model(f"{self.name}_params", __base__=Params, **fields)

    def resolve(self, params: Mapping[str, Any] | None = None, *, where: str = "") -> ResolvedRules:
        """Fills the params into the predicates.

        Args:
            params: Subtree of params.yaml; what it leaves out takes its default.
            where: Path of the subtree, for messages.

        Raises:
            ParamsError: An unknown param, a wrong type, or a value out of range; every fault is named.
        """
        given = dict(params or {})
        spread = {name: {ANY: value} for name, value in given.items() if self._varies(name) and not isinstance(value, Mapping)}
        parsed = self.params_class.parse({**given, **spread}, where=where or f"params of rule set {self.name!r}").model_dump(mode="json")
        values = {name: value[ANY] if name in spread else self._filled(name, value) for name, value in parsed.items()}
        rules = self._rules({name: sql_literal(value) for name, value in values.items()})
        templates = {reason: [rule.where, rule.when] for reason, rule in self.spec.rules.items()}
        op_id = digest({"name": self.name, "version": self.version, "rules": templates, "params": values})
        return ResolvedRules(self.name, op_id, values, rules)

    def described(self) -> dict[str, ResolvedRule]:
        """Reason -> rule under the default params, for people to read: numbers by language are named and not spelled out."""
        params = self.resolve().params.items()
        return self._rules({name: f"{name}[language.lang]" if isinstance(value, dict) else sql_literal(value) for name, value in params})

    def _rules(self, literals: Mapping[str, str]) -> dict[str, ResolvedRule]:
        return {
            reason: ResolvedRule(reason, _fill(rule.where, literals), _fill(rule.when, literals), rule.source)
            for reason, rule in self.spec.rules.items()
        }

    def _varies(self, name: str) -> bool:
        return name in self.spec.params and bool(self.spec.params[name].by_language)

    def _filled(self, name: str, value: Value) -> Value:
        """The value of a param, with the file's for the languages that a mapping leaves out."""
        return {**self.spec.params[name].values(), **value} if isinstance(value, dict) else value


def _field(param: RuleParam) -> tuple[Any, Any]:
    kind = list[str] if isinstance(param.default, list) else type(param.default)
    bounds: dict[str, Any] = {"allow_inf_nan": False} if kind is float else {}
    bounds |= {name: bound for name in ("ge", "le") if (bound := getattr(param, name)) is not None}
    unit = f" [{param.unit}]" if param.unit else ""
    description = param.description + unit
    if param.by_language:
        number: Any = Annotated[kind, Field(strict=True, **bounds)]
        return dict[Annotated[str, Field(pattern=_LANGUAGE_OR_ANY)], number], Field({}, description=description)
    return kind, Field(param.default, description=description, strict=True, **bounds)


def _fill(template: str, literals: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: literals[match[1]], template)


def sql_literal(value: Value) -> str:
    """A value as SQL text that means the same and cannot end early.

    Args:
        value: A finite number, a boolean, a text, a list of texts (for ``IN``), or numbers by language, one of them under "*".
    """
    if isinstance(value, dict):
        cases = " ".join(f"WHEN {sql_literal(lang)} THEN {number!r}" for lang, number in sorted(value.items()) if lang != ANY)
        return f"(CASE language.lang {cases} ELSE {value[ANY]!r} END)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    # IN of an empty list is no SQL, and NULL in its place would make NOT IN never true.
    return "(" + ", ".join(sql_literal(item) for item in value or [""]) + ")"


def load_rule_set(name: str, *, where: str = "") -> RuleSet:
    """The rule set registered as `name`.

    Raises:
        PluginError: None is registered under that name, its package or file is missing, or the file is wrong.
    """
    points = entries(GROUP)
    if name not in points:
        fix = "correct the name in params.yaml, or install the plugin; `dataplane plugins list` shows what is there"
        raise PluginError(f"no rule set is called {name!r}, {did_you_mean(name, points)}", where=where or GROUP, fix=fix)
    point = points[name]
    try:
        text = files(point.value).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    except (ImportError, OSError, UnicodeDecodeError) as error:
        fix = f"repair or uninstall {owner(point)}"
        raise PluginError(f"{point.value} of {owner(point)} does not hold {name}.yaml: {error}", where=where or GROUP, fix=fix) from None
    return parse_rule_set(text, name, origin=f"{name}.yaml of {owner(point)}")


def parse_rule_set(text: str, name: str, *, origin: str) -> RuleSet:
    """Reads and checks the content of a rule set file.

    Args:
        text: YAML.
        name: What the set has to be called.
        origin: Where the text comes from, for messages.

    Raises:
        PluginError: The text is wrong; every fault is named.
    """
    try:
        loaded = yaml.load(text, Loader=_LOADER)
        spec = RuleSetFile.parse(loaded if isinstance(loaded, Mapping) else {"content": loaded}, where=origin)
    except (yaml.YAMLError, ParamsError) as error:
        raise PluginError(f"{error}", where=origin, fix=f"correct {origin}") from None
    faults = _faults(spec, name)
    if faults:
        raise PluginError("; ".join(faults), where=origin, fix=f"correct {origin}")
    return RuleSet(spec)


def _faults(spec: RuleSetFile, name: str) -> list[str]:
    faults = [] if spec.name == name else [f"it is called {spec.name!r}, its entry point {name!r}"]
    used: set[str] = set()
    for reason, rule in spec.rules.items():
        wanted = set(_PLACEHOLDER.findall(f"{rule.where} {rule.when}"))
        used |= wanted
        unknown = sorted(wanted - set(spec.params))
        faults += [f"rule {reason!r} uses an unknown param {param!r}, {did_you_mean(param, spec.params)}" for param in unknown]
    misnamed = [word for word in [*spec.rules, *spec.params] if not NAME.match(word)]
    faults += [f"{word!r} is no name (lower case, digits, single underscores)" for word in misnamed]
    faults += [f"param {p!r} is used by no rule" for p in spec.params if p not in used]
    faults += [f"{name!r} is outside its own range" for name, param in spec.params.items() if not _in_range(param)]
    varying = {name: param for name, param in spec.params.items() if param.by_language}
    faults += [f"values by language of {name!r} are not of one kind of number" for name, param in varying.items() if not _one_kind(param)]
    if varying and "language" not in spec.reads:
        faults.append(f"{next(iter(varying))!r} has values by language, and 'language' is not among what the set reads")
    return faults


def _one_kind(param: RuleParam) -> bool:
    """Whether a param's values by language are numbers, and integers where its default is one."""
    kind = type(param.default)
    return kind in (int, float) and (kind is float or all(isinstance(value, int) for value in param.by_language.values()))


def _in_range(param: RuleParam) -> bool:
    if isinstance(param.default, bool | str | list):
        return True
    values = param.values().values()
    return all((param.ge is None or value >= param.ge) and (param.le is None or value <= param.le) for value in values)


def referenced_signals(predicate: str, known: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The signals that a predicate looks at, in order of first mention.

    Args:
        predicate: SQL; ``operator.signal`` and ``operator__signal`` are seen, also quoted, in any case.
        known: Operator -> its signals.

    Returns:
        (operator, signal) as `known` spells them, each once
    """
    spelled = {(op.lower(), signal.lower()): (op, signal) for op, signals in known.items() for signal in signals}
    text = _QUOTED.sub("''", predicate)
    mentions = ((match[1] or match[3], match[2] or match[4]) for match in _REFERENCE.finditer(text))
    found = [spelled.get((op.lower(), signal.lower())) for op, signal in mentions]
    return list(dict.fromkeys(pair for pair in found if pair is not None))
