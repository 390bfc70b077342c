"""ppo: models/sft, prompts and rewards -> models/ppo."""

from __future__ import annotations

from pathlib import Path

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.ppo import fresh_learner, train
from trainplane.align.rl_params import PPOParams
from trainplane.align.rl_run import prepare
from trainplane.pretrain.metrics import write_curve

PLOT = Path("plots/ppo.csv")


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("ppo", params=("ppo",)) as run, session.quiet():
        params = PPOParams.parse(run.params["ppo"], where="ppo")
        ours = prepare("ppo", params, run.root)
        learner = fresh_learner(ours.model, params)
        ours.look(0, learner.model)
        book = train(learner, ours, params)
        metrics = ours.finish(learner.model, book)
        write_curve(run.root / PLOT, book.curve)
        run.metrics(metrics | {"last_kl": book.curve[-1]["kl"], "last_kl_coefficient": book.curve[-1]["kl_coefficient"]})


if __name__ == "__main__":
    stage_main(main)
