"""mix: decontaminated -> held_out, mixture. What is measured on, and what is trained on, in which order."""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from dataplane import schema
from dataplane.corpus.held_out import held_out_table
from dataplane.corpus.mixture import MixParams, mix
from dataplane.corpus.mixture_input import read_input
from dataplane.lineage.record import StageRun, stage_main

TABLE_CHARS = 140


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("mix", inputs=("documents", "decontaminated", "cuts"), params=("mix",)) as run:
        params = MixParams.parse(run.params["mix"], where="mix")
        found = read_input(run.inputs["documents"], [run.inputs["decontaminated"]], params, run.inputs["cuts"], run.root)
        aside = run.write("held_out", schema.HELD_OUT, held_out_table(found.kept, found.held_out).to_batches())
        mixture = mix(found.training, params)
        Console(file=sys.stderr, width=TABLE_CHARS).print(mixture.plan.to_table())
        run.write("mixture", schema.MIXTURE, mixture.table.to_batches())
        trained = len(mixture.table.column("doc_id").unique())
        run.account(
            rows_in=run.inputs["decontaminated"].rows, kept=trained + aside.rows, dropped=_left_out(found.kept, mixture.table, aside.rows)
        )
        counts = {
            "held_out": aside.rows,
            "over_cap": int(found.over_cap.sum()),
            "in_mixture": trained,
            "occurrences": mixture.table.num_rows,
        }
        run.metrics({**counts, "plan": mixture.plan.to_json()})


def _left_out(kept: pa.Table, mixture: pa.Table, held_out_rows: int) -> int:
    """Documents that the mixture had no place for, counted by their ids."""
    absent = pc.invert(pc.is_in(kept.column("doc_id"), mixture.column("doc_id").combine_chunks().unique()))
    return int(pc.sum(absent).as_py() or 0) - held_out_rows


if __name__ == "__main__":
    stage_main(main)
