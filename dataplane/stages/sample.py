"""sample: writes the default sample to data/sample, out of installed packages and the standard library."""

from __future__ import annotations

from dataplane.lineage.record import StageRun, stage_main
from dataplane.sample.write import ROOT, SampleParams, write_sample


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("sample", params=("sample",)) as run:
        params = SampleParams.parse(run.params["sample"], where="sample")
        run.metrics(write_sample(run.root / ROOT, params=params))


if __name__ == "__main__":
    stage_main(main)
