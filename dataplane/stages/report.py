"""report: the page that shows the project, from raw records to evaluated models."""

from __future__ import annotations

from dataplane.lineage.record import StageRun, stage_main
from dataplane.report.page import write_report


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("report") as run:
        write_report(run.root)


if __name__ == "__main__":
    stage_main(main)
