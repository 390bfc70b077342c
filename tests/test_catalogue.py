"""The catalogue reads off the code what there is, and names what an entry leaves unsaid."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pydantic import Field

import dataplane
from dataplane.catalogue import Entry, Param, catalogue, of_operator, of_rule_set
from dataplane.operator import Filter
from dataplane.registry import GROUPS, entries
from dataplane.ruleset import parse_rule_set

OWN = "terraplane"


class Loud(Filter):
    """Share of capitals.

    Nothing else is looked at.

    Source: a choice of ours,
    made in a test.
    """

    name, version = "loud", "3"
    writes = {"share": pa.float32()}

    class Params(dataplane.Params):
        max_share: float = Field(0.5, ge=0, le=1, description="Highest share kept.")
        max_chars: int | None = Field(None, ge=1, description="Looked at.")
        weight: float = Field(1.0, description="How much it counts.", json_schema_extra={"unit": "votes"})
        speed: float = Field(1.0, gt=0, description="How fast it goes.")
        language: str = Field("en", description="Of the words.")

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {"share": pa.array([0.0] * len(batch), pa.float32())}

    def rules(self) -> Mapping[str, str]:
        return {"too_loud": f"loud.share > {self.params.max_share}"}


class Silent(Loud):
    """Says nothing of where it comes from."""

    name = "silent"


def test_an_operator_is_described_by_its_own_words() -> None:
    found = of_operator(Loud)
    assert (found.name, found.kind, found.version, found.title) == ("loud", "filter", "3", "Share of capitals.")
    assert (found.about, found.source) == ("Nothing else is looked at.", "a choice of ours, made in a test")
    assert found.signals == {"share": "float"}
    assert [(rule.reason, rule.predicate, rule.source) for rule in found.rules] == [("too_loud", "loud.share > 0.5", found.source)]


def test_a_number_has_its_declared_unit_or_that_of_its_name_or_description() -> None:
    assert of_operator(Loud).params == (
        Param("max_share", 0.5, "share", "0 to 1", "Highest share kept.", True),
        Param("max_chars", None, "characters", "at least 1", "Looked at.", True),
        Param("weight", 1.0, "votes", "", "How much it counts.", True),
        Param("speed", 1.0, "", "at least 0", "How fast it goes.", True),
        Param("language", "en", "", "", "Of the words.", False),
    )


def test_what_is_left_unsaid_is_named() -> None:
    assert of_operator(Silent).faults() == [
        "filter 'silent' says no source: add a paragraph 'Source: ...' to its docstring",
        "rule 'too_loud' of filter 'silent' says no source",
        "param 'speed' of filter 'silent' has no unit: name it in the description, or by json_schema_extra={'unit': ...}",
    ]


def test_a_rule_set_is_described_with_its_thresholds() -> None:
    text = """
    {name: mine, version: "2", title: Is it short, source: here, reads: [text_signals],
     params: {least: {default: 5, ge: 0, description: Fewest.}},
     rules: {too_short: {where: "text_signals.n_words < {least}", when: "kind = 'web'", source: section 1}}}
    """
    found = of_rule_set(parse_rule_set(text, "mine", origin="mine.yaml"))
    assert (found.kind, found.about) == ("rules", "Reads text_signals.")
    assert [(r.reason, r.predicate, r.when, r.source) for r in found.rules] == [
        ("too_short", "text_signals.n_words < 5", "kind = 'web'", "section 1")
    ]
    assert found.faults() == [
        "param 'least' of rules 'mine' has no unit: name it in the description, or by json_schema_extra={'unit': ...}"
    ]


def test_the_catalogue_holds_all_that_is_registered() -> None:
    want = [name for group in GROUPS[:3] for name, point in entries(group).items() if point.dist and point.dist.name == OWN]
    assert [entry.name for entry in catalogue(OWN)] == want


@pytest.mark.parametrize("entry", catalogue(OWN), ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_every_entry_says_its_source_and_its_units(entry: Entry) -> None:
    assert entry.faults() == []
