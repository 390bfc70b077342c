"""Runs the rule sets over the texts of dataplane/rules/examples.yaml, and operators over those of the conformance tests.

Nothing is taken from the file as it stands: a text listed under `keep` that a rule drops, or one under `drop` that its rule lets
through, is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import pyarrow as pa
import yaml

from dataplane import schema
from dataplane.deciding import Decider, Rule
from dataplane.errors import DataError
from dataplane.operator import Operator
from dataplane.registry import operator_class
from dataplane.ruleset import RuleSet, load_rule_set
from dataplane.testing import Example, apply, batch_of

DECLARED = "language"  # its signals are those that an example declares: the model is no part of the rules


@dataclass(frozen=True)
class Shown:
    """One example and what became of it.

    Attributes:
        text: Its text.
        columns: What else is declared of the document: kind, lang, mime.
        reason: The rule that it is an example of; empty for one that is kept.
        values: Reason -> the signals that decided, for every rule that dropped it.
    """

    text: str
    columns: Mapping[str, Any]
    reason: str
    values: Mapping[str, str]


def read() -> dict[str, Any]:
    """The content of examples.yaml."""
    content: dict[str, Any] = yaml.safe_load(files("dataplane.rules").joinpath("examples.yaml").read_text(encoding="utf-8"))
    return content


def rule_examples(name: str) -> list[Shown]:
    """The examples of a rule set, decided on as the select stage decides.

    Raises:
        DataError: A rule has no example, or an outcome is not the listed one; every fault is named.
    """
    listed = read()
    rules, own = load_rule_set(name), listed["sets"].get(name, {"keep": [], "drop": {}})
    wanted = [("", example) for example in own["keep"]] + list(own["drop"].items())
    documents = [_document(example, listed["texts"]) for _, example in wanted]
    found = _decide(rules, documents)
    shown = [Shown(document.text, document.columns, reason, of) for document, (reason, _), of in zip(documents, wanted, found, strict=True)]
    if faults := list(_faults(rules, shown)):
        raise DataError("; ".join(faults), where="dataplane/rules/examples.yaml", fix="correct the example, or the rule")
    return shown


def _faults(rules: RuleSet, shown: Sequence[Shown]) -> Iterator[str]:
    reasons = {example.reason for example in shown}
    yield from (f"rule {reason!r} of {rules.name!r} has no example" for reason in rules.spec.rules if reason not in reasons)
    if "" not in reasons:
        yield f"rule set {rules.name!r} has no example of what it keeps"
    for example in shown:
        if example.reason and example.reason not in example.values:
            yield f"{example.text[:60]!r} is listed as dropped by {rules.name}.{example.reason}, and is not"
        if not example.reason and example.values:
            yield f"{example.text[:60]!r} is listed as kept by {rules.name}, and is dropped for {sorted(example.values)}"


def _document(example: Mapping[str, Any], texts: Mapping[str, str]) -> Example:
    declared = {"kind": "web", "lang": "en"} | {name: value for name, value in example.items() if name != "text"}
    return Example(_text(example["text"], texts), columns=declared)


def _text(parts: str | Sequence[Any], texts: Mapping[str, str]) -> str:
    joined = parts if isinstance(parts, str) else "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)
    # Double braces are braces, as in the rules.
    return re.sub(r"\{\{|\}\}|\{(\w+)\}", lambda found: texts[found[1]] if found[1] else found[0][0], joined)


def _decide(rules: RuleSet, documents: Sequence[Example]) -> list[dict[str, str]]:
    """For each document the rules that drop it, with the signals that decided."""
    measuring = [operator_class(name)(rules.spec.needs.get(name)) for name in rules.reads if name != DECLARED]
    full = pa.record_batch(
        {
            "doc_id": pa.array([f"{i:032x}" for i in range(len(documents))]),
            "kind": pa.array([document.columns["kind"] for document in documents]),
            "language__lang": pa.array([document.columns["lang"] for document in documents]),
            **{name: array for operator in measuring for name, array in _signals(operator, documents).items()},
        }
    )
    resolved = rules.resolve()
    decider = Decider(
        [Rule(rules.name, resolved.op_id, *pair) for pair in resolved.predicates().items()], full.schema, stage="docs", run_id=""
    )
    found: list[dict[str, str]] = [{} for _ in documents]
    for row in decider.decide(full)[1].to_pylist():
        found[int(row["doc_id"], 16)][row["reason"]] = row["signals"]
    return found


def _signals(operator: Operator, documents: Sequence[Example]) -> dict[str, pa.Array]:
    """What an operator writes, be it a transform: the rules see its signals beside the text that it made."""
    operator.open()
    told = [replace(document, columns={**document.columns, "language__lang": document.columns["lang"]}) for document in documents]
    made = apply(operator, batch_of(operator, told))
    return {schema.signal_column(operator.name, signal): made[signal] for signal in operator.writes}
