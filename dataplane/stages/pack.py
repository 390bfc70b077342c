"""pack: mixture, tokens -> packed. Training sequences, and which document lies where in them."""

from __future__ import annotations

import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus import tokenizer
from dataplane.corpus.packing import Packing, PackParams
from dataplane.corpus.tokenizer import EOS, FOLDER, PAD, token_id
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("pack", inputs=("mixture", "tokens"), params=("pack",)) as run:
        params = PackParams.parse(run.params["pack"], where="pack")
        vocabulary = tokenizer.load(run.root / FOLDER)
        mixture = run.inputs["mixture"].to_table(columns=["doc_id"])
        tokens = run.inputs["tokens"].to_table()
        packing = Packing(mixture, tokens, token_id(vocabulary, EOS), token_id(vocabulary, PAD), params)
        packed = run.write("packed", schema.packed(params.sequence_length), packing.batches())
        run.account(rows_in=mixture.num_rows, kept=_begun(packed))
        run.metrics(packing.metrics)


def _begun(packed: Snapshot) -> int:
    """Occurrences that begin in some sequence, counted in the committed table."""
    return sum(
        int(pc.sum(pc.equal(batch.column("spans").flatten().field("doc_start"), 0)).as_py() or 0) for batch in packed.batches(["spans"])
    )


if __name__ == "__main__":
    stage_main(main)
