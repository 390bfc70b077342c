"""mix: decontaminated -> held_out, mixture. What is measured on, and what is trained on, in which order."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
from rich.console import Console

from dataplane import schema
from dataplane.corpus.caps import capped_column, over_cap
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
        documents = run.inputs["documents"]
        capped = capped_column(params.cap, documents.schema.names)
        columns = list(dict.fromkeys([*COLUMNS, *([capped] if capped else [])]))
        kept = pa.Table.from_batches(chosen(documents, [run.inputs["decontaminated"]], columns), schema=_fields(documents.schema, columns))
        mask = held_out(kept, params.held_out)
        aside = run.write("held_out", schema.HELD_OUT, held_out_table(kept, mask).to_batches())
        training = kept.filter(pa.array(~mask))
        # After held_out, whose choice is to look at no other document.
        over = over_cap(training, capped, params.cap, params.seed) if capped else np.zeros(len(training), np.bool_)
        mixture = mix(training.filter(pa.array(~over)), params)
        Console(file=sys.stderr, width=TABLE_CHARS).print(mixture.plan.to_table())
        run.write("mixture", schema.MIXTURE, mixture.table.to_batches())
        trained = len(mixture.table.column("doc_id").unique())
        run.account(
            rows_in=run.inputs["decontaminated"].rows, kept=trained + aside.rows, dropped=_left_out(kept, mixture.table, aside.rows)
        )
        counts = {"held_out": aside.rows, "over_cap": int(over.sum()), "in_mixture": trained, "occurrences": mixture.table.num_rows}
        run.metrics({**counts, "plan": mixture.plan.to_json()})


def _fields(documents: pa.Schema, columns: list[str]) -> pa.Schema:
    return pa.schema([schema.DOC_ID, *(documents.field(name) for name in columns)])


def _left_out(kept: pa.Table, mixture: pa.Table, held_out_rows: int) -> int:
    """Documents that the mixture had no place for, counted by their ids."""
    import pyarrow.compute as pc

    absent = pc.invert(pc.is_in(kept.column("doc_id"), mixture.column("doc_id").combine_chunks().unique()))
    return int(pc.sum(absent).as_py() or 0) - held_out_rows


if __name__ == "__main__":
    stage_main(main)
