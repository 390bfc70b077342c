"""grpo: models/sft, prompts and rewards -> models/grpo."""

from __future__ import annotations

from pathlib import Path

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.grpo import train
from trainplane.align.rl_params import GRPOParams
from trainplane.align.rl_run import prepare
from trainplane.pretrain.metrics import write_curve

PLOT = Path("plots/grpo.csv")


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("grpo", params=("grpo",)) as run, session.quiet():
        params = GRPOParams.parse(run.params["grpo"], where="grpo")
        ours = prepare("grpo", params, run.root)
        adapted, book = train(ours, params)
        metrics = ours.finish(adapted, book)
        write_curve(run.root / PLOT, book.curve)
        run.metrics(metrics | {"first_loss": book.curve[0]["loss"]})


if __name__ == "__main__":
    stage_main(main)
