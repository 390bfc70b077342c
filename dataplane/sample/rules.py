"""Pages of ruff's lint rules (MIT): what each checks, why, and an example of bad and of good code."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, tar, xz

_SECTION = re.compile(r"^## +(.+)$", re.MULTILINE)
_PAIR = re.compile(r"```(?:python|py)\n(.*?)```\s*Use instead:\s*```(?:python|py)\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code, name, linter, summary: As ruff prints them; some rules have no code yet.
        explanation: The page's Markdown.
        sections: Text of the page by heading.
        bad, good: The first example pair, empty where the page has none.
    """

    code: str
    name: str
    linter: str
    summary: str
    explanation: str
    sections: dict[str, str]
    bad: str
    good: str

    @property
    def what(self) -> str:
        """What the rule checks."""
        return self.sections.get("What it does", "")

    @property
    def why(self) -> str:
        """Why what it finds is bad."""
        return self.sections.get("Why is this bad?", "")


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules that have a page, sorted by name."""
    found = (_rule(page) for page in packages.ruff_rules() if page["explanation"])
    return tuple(sorted(found, key=lambda rule: rule.name))


def _rule(page: dict[str, str]) -> Rule:
    explanation = page["explanation"].strip()
    parts = _SECTION.split(explanation)
    sections = {heading.strip(): text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    pair = _PAIR.search(sections.get("Example", ""))
    bad, good = (pair[1].strip("\n"), pair[2].strip("\n")) if pair else ("", "")
    return Rule(page["code"] or "no code yet", page["name"], page["linter"], page["summary"], explanation, sections, bad, good)


def files(keep: Keep) -> Iterator[File]:
    """One archive of Markdown pages."""
    members = {f"rules/{rule.name}.md": _page(rule).encode() for rule in rules() if keep(f"rules/{rule.name}")}
    yield File("ruff_rules.tar.xz", xz(tar(members)), len(members))


def _page(rule: Rule) -> str:
    return f"# {rule.name} ({rule.code})\n\nDerived from the **{rule.linter}** linter.\n\n{rule.explanation}\n"
