"""What each rule drops of documents that people called good, and of those they called bad.

    python -m benchmarks.quality rules --data FOLDER [--json]

A rule is worth its place where it drops more of the bad than of the good; a published rule that drops none of these few hundred
pages may still be needed elsewhere. Rule sets for other documents (source code) are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.quality.quality import jsonl
from benchmarks.quality.show import show_rows
from dataplane.registry import entries, operator_class
from dataplane.ruleset import RuleSet, load_rule_set
from dataplane.testing import Example, apply, batch_of

DECLARED = "language"
FOR_CODE = frozenset({"code_signals"})


def sets(data: Path) -> Iterator[tuple[str, str, list[str], list[bool]]]:
    """Name, language, texts, and whether each is good."""
    human = jsonl(data / "quality" / "dclm_human" / "majority_minus_agreement.jsonl")
    yield "DCLM, human labels (English)", "en", [row["text"] for row in human], [str(row["label"]) == "1" for row in human]
    sides = {side: jsonl(data / "quality" / "chinese_web_text" / f"{side}.jsonl") for side in ("clean", "dirty")}
    texts = [row["text"] for rows in sides.values() for row in rows]
    yield "ChineseWebText, clean and dirty", "zh", texts, [side == "clean" for side, rows in sides.items() for _ in rows]


def measured(rule_sets: Sequence[RuleSet], lang: str, texts: Sequence[str]) -> pa.Table:
    """The documents as rules see them, measured with the params that one of the sets needs; none needs others than another."""
    columns: dict[str, Any] = {"kind": ["web"] * len(texts), "language": [{"lang": lang}] * len(texts)}
    needs = {name: params for rules in rule_sets for name, params in rules.spec.needs.items()}
    for name in sorted({name for rules in rule_sets for name in rules.reads} - {DECLARED}):
        operator = operator_class(name)(needs.get(name))
        operator.open()
        made = apply(operator, batch_of(operator, [Example(text, columns={"language__lang": lang}) for text in texts]))
        columns[name] = pa.StructArray.from_arrays([made[signal] for signal in operator.writes], names=list(operator.writes))
    return pa.table(columns)


def rules_of(name: str) -> RuleSet | None:
    """A rule set that reads nothing but operators which need no model; None for others."""
    rules = load_rule_set(name)
    needed = set(rules.reads) - {DECLARED}
    return None if needed & FOR_CODE or any(operator_class(name)({}).files() for name in needed) else rules


def rows(data: Path) -> Iterator[dict[str, Any]]:
    rule_sets = [rules for name in entries("dataplane.rules") if (rules := rules_of(name))]
    for name, lang, texts, good in sets(data):
        documents = measured(rule_sets, lang, texts).append_column("good", pa.array(good))
        connection = duckdb.connect()
        connection.register("documents", documents)
        for rules in rule_sets:
            predicates = {reason: f"coalesce({rule}, false)" for reason, rule in rules.resolve().predicates().items()}
            for reason, predicate in {**predicates, "any": " OR ".join(predicates.values())}.items():
                shares = connection.execute(
                    f"SELECT avg(({predicate})::INT) FILTER (good), avg(({predicate})::INT) FILTER (NOT good) FROM documents"
                ).fetchone()
                yield {
                    "name": f"{rules.name}.{reason}",
                    "set": name,
                    "documents": len(good),
                    "good_dropped": shares[0],
                    "bad_dropped": shares[1],
                }


def rounded(data: Path) -> Iterator[dict[str, Any]]:
    """As `rows`, to four places."""
    for row in rows(data):
        yield {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def main(argv: list[str]) -> None:
    show_rows(__doc__, rounded, argv)
