"""The section on the runs: the code and params that made each stage's result."""

from __future__ import annotations

from dataplane.report.blocks import Column, Command, Section, Table
from dataplane.report.project import Project

# In pipeline order; others follow by name.
STAGES = (
    "sample", "ingest", "train_lm", "clean", "select", "dedup", "decontaminate", "mix", "tokenizer", "tokenize", "pack", "pretrain", "sft",
    "dpo", "reward", "ppo", "grpo", "evaluate",
)  # fmt: skip
# Ids and times of runs differ between two runs on equal input; the page does not.
_LAST = """
    SELECT stage, max_by(version, started_at) AS version, max_by(params_digest, started_at) AS params_digest
    FROM runs WHERE status = 'COMPLETE' AND stage <> 'report' GROUP BY stage
"""
TIMES = "SELECT stage, status, started_at, seconds FROM runs ORDER BY started_at"


def runs(project: Project) -> Section:
    """The last complete run of each stage."""
    lead = "What made each result: the version of Terraplane, and the digest of the params that the stage reads."
    section = Section("runs", "Runs", lead)
    found = sorted(
        project.ask(_LAST), key=lambda row: (STAGES.index(row["stage"]) if row["stage"] in STAGES else len(STAGES), row["stage"])
    )
    if not found:
        return section
    columns = [Column("Stage", "code"), Column("Version", "code"), Column("Params digest", "code")]
    section.blocks.append(Table(columns, [[row["stage"], row["version"], row["params_digest"]] for row in found]))
    section.blocks.append(Command(f'dataplane sql "{TIMES}"', "When each stage ran, and for how long:"))
    return section
