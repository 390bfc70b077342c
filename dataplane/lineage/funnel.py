"""The drop funnel: how many documents each step took out, why, and what was left, from the tables that the steps wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from dataplane.corpus.selection import SelectParams, rules
from dataplane.errors import DataError, UsageError
from dataplane.lake.runs import read_records
from dataplane.lake.sql import private_connection
from dataplane.lake.views import quoted
from dataplane.lineage.signals import LANGUAGE, stream
from dataplane.params import load_params
from dataplane.pipeline import CleanParams
from dataplane.snapshot import Snapshot, snapshot_path

MEMORY_LIMIT = "200MB"
# Steps after clean, in order, with the table that says what they kept.
STEPS = {"select": "selected", "dedup": "deduplicated", "decontaminate": "decontaminated", "mix": "mixture"}
GROUPS = {"source": "source", "language": LANGUAGE}
MAX_RULES = 128  # the rules that a document fails are the bits of one number

Rows = list[dict[str, Any]]


def funnel(root: Path = Path(), by: str | None = None) -> dict[str, Any]:
    """The funnel from the raw files to `mixture`, as far as the pipeline has come.

    Args:
        root: Folder of the project.
        by: source or language, to tell the steps apart by it. Languages are known from `documents` on.

    Returns:
        steps: What went into each, was quarantined, dropped and left, in documents and, from `documents` on, bytes.
        rules: For each rule of select, in order, the documents that fail it, that fail it alone, and that are left after it.
        reasons: Documents and bytes by step and reason; of several reasons, each document counts for its first.

    Raises:
        UsageError: No language was measured.
        DataError: `documents` is not there yet.
    """
    found = Funnel(root, by)
    return {
        "by": by,
        "steps": [*found.ingest(), *found.clean(), *found.steps()],
        "rules": found.rules(),
        "reasons": [*found.ingest_reasons(), *found.clean_reasons(), *found.reasons()],
    }


class Funnel:
    """Puts every document that was dropped into one table, with the step and the reason, and sums `documents` over it.

    Args:
        root: Folder of the project.
        by: source, language or None.
    """

    def __init__(self, root: Path, by: str | None) -> None:
        self._root, self._by = root, by
        self._documents = Snapshot.load("documents", root)
        self._connection = private_connection(MEMORY_LIMIT)
        if by == "language" and LANGUAGE not in self._documents.schema.names:
            raise UsageError("no language was measured", where="funnel", fix="put the operator `language` into clean.pipeline")
        self._steps = list(takewhile(lambda step: self._has(STEPS[step]), STEPS))
        self._rules = self._known_rules() if self._steps else []
        # A document that several steps dropped, because a later one has not run again, is the first one's.
        self._connection.execute("CREATE TEMP TABLE gone (doc UBIGINT, step UTINYINT, reason VARCHAR, fails UHUGEINT)")
        dropped = (self._dropped_by_select, self._dropped_by_dedup, self._dropped_by_decontaminate, self._dropped_by_mix)
        for i, _ in enumerate(self._steps):
            new = f"{dropped[i]()} ANTI JOIN gone USING (doc)" if i else dropped[i]()
            self._connection.execute(f"INSERT INTO gone SELECT doc, {i}, reason, fails FROM {new}")
        self._sums = self._summed()

    def steps(self) -> Rows:
        """The steps after clean: one row for each step and group."""
        rows: Rows = []
        for i, step in enumerate(self._steps):
            for group in self._groups():
                arrived = [row for row in self._sums if row["group"] == group and (row["step"] is None or row["step"] >= i)]
                dropped = [row for row in arrived if row["step"] == i]
                if arrived:
                    rows.append({"step": step, **self._named(group), **_balance(arrived, dropped)})
        return rows

    def reasons(self) -> Rows:
        """Documents and bytes by step and reason, over all groups; the largest of each step first."""
        sums: dict[tuple[int, str], Rows] = {}
        for row in self._sums:
            if row["step"] is not None:
                reason = self._rules[_first(row["fails"])] if row["step"] == 0 else row["reason"]
                sums.setdefault((row["step"], reason), []).append(row)
        rows = [{"step": self._steps[i], "reason": reason, **_sum(members)} for (i, reason), members in sums.items()]
        return sorted(rows, key=lambda row: (list(STEPS).index(row["step"]), -row["documents"], row["reason"]))

    def rules(self) -> Rows:
        """The rules of select, in the order in which they are applied."""
        failing = [row for row in self._sums if row["step"] == 0]
        rows, left = [], self._documents.rows
        for i, rule in enumerate(self._rules):
            left -= _sum([row for row in failing if _first(row["fails"]) == i])["documents"]
            fails = _sum([row for row in failing if row["fails"] >> i & 1])["documents"]
            only = _sum([row for row in failing if row["fails"] == 1 << i])["documents"]
            rows.append({"rule": rule, "fails": fails, "only": only, "left": left})
        return rows

    def ingest(self) -> Rows:
        """The step from the raw files to `raw`; what was to be forgotten is counted in all, not by source."""
        if not (self._has("raw") and self._has("ingest_quarantine")):
            return []
        broken = self._by_source(f"SELECT source, count(*) FROM {self._table('ingest_quarantine', ['source'])} GROUP BY 1")
        left = self._by_source(f"SELECT source, count(*) FROM {self._table('raw', ['source'])} GROUP BY 1")
        forgotten = None if self._by == "source" else self._forgotten()
        return [
            {
                "step": "ingest",
                **self._named(group),
                "in": left.get(group, 0) + broken.get(group, 0) + (forgotten or 0),
                "quarantined": broken.get(group, 0),
                "dropped": forgotten,
                "left": left.get(group, 0),
                "bytes_dropped": None,
                "bytes_left": None,
            }
            for group in sorted({*left, *broken}, key=lambda group: (group is None, group))
        ]

    def ingest_reasons(self) -> Rows:
        """Records that ingest put aside, by error."""
        if not self._has("ingest_quarantine"):
            return []
        counts = self._counts(f"SELECT error, count(*) FROM {self._table('ingest_quarantine', ['error'])} GROUP BY 1")
        return [{"step": "ingest", "reason": error, "documents": count, "bytes": None} for error, count in sorted(counts.items())]

    def _forgotten(self) -> int:
        """Records with a tombstone that the run which wrote `raw` left out."""
        digest = Snapshot.load("raw", self._root).digest
        written = [run["rows"].get("dropped", 0) for run in read_records(self._root) if run["outputs"].get("raw") == digest]
        return int(written[-1]) if written else 0

    def clean(self) -> Rows:
        """The step from `raw` to `documents`: one row for each source, or one in all."""
        if not self._has("raw"):
            return []
        arrived = self._by_source(f"SELECT source, count(*) FROM {self._table('raw', ['source'])} GROUP BY 1")
        broken = self._by_source(f"SELECT source, count(*) FROM {self._table('clean_quarantine', ['source'])} GROUP BY 1")
        raw, decisions = self._table("raw", ["doc_id", "source"]), self._table("clean_decisions", ["doc_id"])
        dropped = self._by_source(f"SELECT source, count(*) FROM {raw} SEMI JOIN {decisions} USING (doc_id) GROUP BY 1")
        left = {group: _sum([row for row in self._sums if self._by != "source" or row["group"] == group]) for group in arrived}
        return [
            {
                "step": "clean",
                **self._named(group),
                "in": count,
                "quarantined": broken.get(group, 0),
                "dropped": dropped.get(group, 0),
                "left": left[group]["documents"],
                "bytes_dropped": None,
                "bytes_left": left[group]["bytes"],
            }
            for group, count in arrived.items()
        ]

    def clean_reasons(self) -> Rows:
        """Documents by reason that clean dropped at once; of what is no document, the bytes are not known."""
        if not self._has("clean_decisions"):
            return []
        decisions = self._table("clean_decisions", ["operator", "reason"])
        counts = self._counts(f"SELECT operator || '.' || reason, count(*) FROM {decisions} GROUP BY 1")
        return [{"step": "clean", "reason": reason, "documents": count, "bytes": None} for reason, count in sorted(counts.items())]

    def _has(self, table: str) -> bool:
        return snapshot_path(table, self._root).exists()

    def _table(self, table: str, columns: Sequence[str]) -> str:
        """Makes columns of a table known to DuckDB, to be read once."""
        self._connection.register(table, stream(Snapshot.load(table, self._root).open(), columns))
        return table

    def _counts(self, query: str) -> dict[Any, int]:
        return dict(self._connection.execute(query).fetchall())

    def _by_source(self, query: str) -> dict[str | None, int]:
        """Counts by source, or under None where the funnel is not asked by source."""
        counts = dict(sorted(self._counts(query).items()))
        return dict(counts) if self._by == "source" else {None: sum(counts.values())}

    def _known_rules(self) -> list[str]:
        """The rules of select in order; behind them, those that only the decisions name."""
        found = self._connection.execute(f"SELECT DISTINCT operator, reason FROM {self._table('select_decisions', ['operator', 'reason'])}")
        rules = list(dict.fromkeys([*_rule_order(self._root), *sorted(f"{operator}.{reason}" for operator, reason in found.fetchall())]))
        if len(rules) > MAX_RULES:
            what = f"{len(rules)} rules decide, and a funnel has room for {MAX_RULES}"
            raise DataError(what, where="funnel", fix="count them in the table `select_decisions` with `dataplane sql`")
        return rules

    def _dropped_by_select(self) -> str:
        """Each document with all the rules that it fails."""
        self._connection.execute("CREATE TEMP TABLE bits (operator VARCHAR, reason VARCHAR, bit UHUGEINT)")
        for place, rule in enumerate(self._rules):
            self._connection.execute("INSERT INTO bits VALUES (?, ?, ?::VARCHAR::UHUGEINT)", [*rule.split(".", 1), str(1 << place)])
        decisions = self._table("select_decisions", ["doc_id", "operator", "reason"])
        named = f"SELECT hash(doc_id) AS doc, bit FROM {decisions} JOIN bits USING (operator, reason)"
        return f"(SELECT doc, NULL AS reason, bit_or(bit) AS fails FROM ({named}) GROUP BY doc)"

    def _dropped_by_dedup(self) -> str:
        duplicates = self._table("duplicates", ["doc_id", "kept", "how"])
        if not self._has("repeats"):  # a lake of before there were any
            return f"(SELECT hash(doc_id) AS doc, how AS reason, NULL AS fails FROM {duplicates} WHERE NOT kept)"
        repeats = self._table("repeats", ["doc_id", "how", "effect"])
        gone = f"SELECT doc_id, min(how) AS how FROM {repeats} WHERE effect = 'dropped' GROUP BY doc_id"
        together = f"SELECT doc_id, how FROM {duplicates} WHERE NOT kept UNION ALL {gone}"
        return f"(SELECT hash(doc_id) AS doc, how AS reason, NULL AS fails FROM ({together}))"

    def _dropped_by_decontaminate(self) -> str:
        hits, kept = self._table("contamination", ["doc_id", "benchmark"]), self._table("decontaminated", ["doc_id"])
        gone = f"(FROM {hits} ANTI JOIN {kept} USING (doc_id))"
        return f"(SELECT hash(doc_id) AS doc, min(benchmark) AS reason, NULL AS fails FROM {gone} GROUP BY doc_id)"

    def _dropped_by_mix(self) -> str:
        arrived = self._table("decontaminated", ["doc_id"])
        taken = " UNION ALL ".join(f"SELECT doc_id FROM {self._table(table, ['doc_id'])}" for table in ("mixture", "held_out"))
        return f"(SELECT hash(doc_id) AS doc, 'left_out' AS reason, NULL AS fails FROM {arrived} ANTI JOIN ({taken}) USING (doc_id))"

    def _summed(self) -> Rows:
        """Documents and bytes by group, step, reason and failed rules; what no step dropped has the step null."""
        group = GROUPS[self._by] if self._by else None
        documents = self._table("documents", ["doc_id", "n_bytes", *([group] if group else [])])
        names = ("group", "step", "reason", "fails", "documents", "bytes")
        rows = self._connection.execute(
            f"SELECT {quoted(group) if group else 'NULL'}, step, reason, fails, count(*), sum(n_bytes)::BIGINT"
            f" FROM {documents} d LEFT JOIN gone g ON hash(d.doc_id) = g.doc GROUP BY ALL"
        ).fetchall()
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _groups(self) -> list[str | None]:
        return sorted({row["group"] for row in self._sums}, key=lambda group: (group is None, group))

    def _named(self, group: str | None) -> dict[str, Any]:
        return {self._by: group} if self._by else {}


def _rule_order(root: Path) -> list[str]:
    """The rules of select in the order in which they are applied, from the run that wrote the decisions, else from params.yaml."""
    digest = Snapshot.load("select_decisions", root).digest
    written = [run["params"] for run in read_records(root) if run["outputs"].get("select_decisions") == digest]
    tree = load_params(root / "params.yaml")
    select, pipeline = (written[-1]["select"], written[-1]["clean.pipeline"]) if written else (tree["select"], tree["clean"]["pipeline"])
    decided = rules(SelectParams.parse(select, where="select"), CleanParams.parse({"pipeline": pipeline}, where="clean"))
    return list(dict.fromkeys(f"{rule.operator}.{rule.reason}" for rule in decided))


def _first(fails: int) -> int:
    """The first rule among those that a document fails."""
    return (fails & -fails).bit_length() - 1


def _sum(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {"documents": sum(row["documents"] for row in rows), "bytes": sum(row["bytes"] for row in rows)}


def _balance(arrived: Sequence[Mapping[str, Any]], dropped: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What went into a step, was dropped and left."""
    before, gone = _sum(arrived), _sum(dropped)
    return {
        "in": before["documents"],
        "quarantined": 0,
        "dropped": gone["documents"],
        "left": before["documents"] - gone["documents"],
        "bytes_dropped": gone["bytes"],
        "bytes_left": before["bytes"] - gone["bytes"],
    }
