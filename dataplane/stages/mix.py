"""mix: decontaminated -> held_out, mixture. What is measured on, and what is trained on, in which order."""

from __future__ import annotations

import sys

import pyarrow as pa
from rich.console import Console

from dataplane import schema
from dataplane.corpus.held_out import held_out, held_out_table
from dataplane.corpus.mixture import MixParams, mix
from dataplane.engine.documents import chosen
from dataplane.lineage.record import StageRun, stage_main

COLUMNS = ["source", "kind", "n_bytes"]
TABLE_CHARS = 140


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("mix", inputs=("documents", "decontaminated"), params=("mix",)) as run:
        params = MixParams.parse(run.params["mix"], where="mix")
        kept = pa.Table.from_batches(
            chosen(run.inputs["documents"], [run.inputs["decontaminated"]], COLUMNS), schema=pa.schema([schema.DOC_ID, *_fields()])
        )
        mask = held_out(kept, params.held_out)
        aside = run.write("held_out", schema.HELD_OUT, held_out_table(kept, mask).to_batches())
        mixture = mix(kept.filter(pa.array(~mask)), params)
        Console(file=sys.stderr, width=TABLE_CHARS).print(mixture.plan.to_table())
        run.write("mixture", schema.MIXTURE, mixture.table.to_batches())
        trained = len(mixture.table.column("doc_id").unique())
        run.account(
            rows_in=run.inputs["decontaminated"].rows, kept=trained + aside.rows, dropped=_left_out(kept, mixture.table, aside.rows)
        )
        run.metrics({"held_out": aside.rows, "in_mixture": trained, "occurrences": mixture.table.num_rows, "plan": mixture.plan.to_json()})


def _fields() -> list[pa.Field]:
    return [schema.DOCUMENTS.field(name) for name in COLUMNS]


def _left_out(kept: pa.Table, mixture: pa.Table, held_out_rows: int) -> int:
    """Documents that the mixture had no place for, counted by their ids."""
    import pyarrow.compute as pc

    absent = pc.invert(pc.is_in(kept.column("doc_id"), mixture.column("doc_id").combine_chunks().unique()))
    return int(pc.sum(absent).as_py() or 0) - held_out_rows


if __name__ == "__main__":
    stage_main(main)
