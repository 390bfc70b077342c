"""pack: mixture, tokens -> packed. Training sequences, and which document lies where in them."""

from __future__ import annotations

import pyarrow.compute as pc
from tokenizers import Tokenizer

from dataplane.corpus import tokenizer
from dataplane.corpus.borders import token_kinds
from dataplane.corpus.packing import NONE, Packing, PackParams, Vocabulary
from dataplane.corpus.token_file import mapped
from dataplane.corpus.tokenizer import FOLDER, PAD, token_id, vocabulary_size
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot

BATCH_ROWS = 1 << 10


def _vocabulary(known: Tokenizer, params: PackParams) -> Vocabulary:
    eos, bos = (token_id(known, token) if token else NONE for token in (params.eos, params.bos))
    return Vocabulary(token_id(known, PAD), eos, bos, None if params.cut_at == "anywhere" else token_kinds(known))


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("pack", inputs=("mixture", "tokens"), params=("pack",)) as run:
        params = PackParams.parse(run.params["pack"], where="pack")
        known = tokenizer.load(run.root / FOLDER)
        vocabulary = _vocabulary(known, params)
        mixture = run.inputs["mixture"].to_table(columns=["doc_id"])
        rows = run.inputs["tokens"].batches(["doc_id", "input_ids"], batch_size=BATCH_ROWS)
        tokens = mapped(rows, run.root, vocabulary_size(known))
        packing = Packing(mixture, tokens, vocabulary, params)
        packed = run.write("packed", packing.schema, packing.batches())
        run.account(rows_in=mixture.num_rows, kept=_begun(packed), dropped=int(packing.metrics["empty"]))
        run.metrics(packing.metrics)


def _begun(packed: Snapshot) -> int:
    """Occurrences that begin in some sequence, counted in the committed table."""
    return sum(
        int(pc.sum(pc.equal(batch.column("spans").flatten().field("doc_start"), 0)).as_py() or 0) for batch in packed.batches(["spans"])
    )


if __name__ == "__main__":
    stage_main(main)
