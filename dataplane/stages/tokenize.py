"""tokenize: mixture, held_out -> tokens. Each document once, however often the mixture repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus import tokenizer
from dataplane.corpus.tokenizer import FILE, FOLDER
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.engine.documents import DocumentsTask, chosen, chosen_ids, units
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.snapshot import Snapshot


class Tokenize(DocumentsTask):
    """Encodes the chosen documents."""

    def __init__(self, root: Path, documents: Snapshot, ids: Sequence[Snapshot], params: TokenizeParams) -> None:
        super().__init__(root, {"tokens": schema.TOKENS}, documents, ids, ["text"])
        self.params = params

    def open(self) -> None:
        """Loads the ids and the tokenizer."""
        super().open()
        self.tokenizer = tokenizer.load(self.root / FOLDER)

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tokens of one batch."""
        yield "tokens", tokenize(batch.column("doc_id"), batch.column("text"), self.tokenizer, self.params)


def _fertility(documents: Snapshot, ids: Sequence[Snapshot], tokens: Snapshot) -> dict[str, dict[str, dict[str, float]]]:
    """Bytes per token and tokens per word, by kind and, where it was measured, by language."""
    groups = {"kind": "kind", "language": "language__lang"}
    have = {name: column for name, column in groups.items() if column in documents.schema.names}
    texts = pa.Table.from_batches(list(chosen(documents, ids, ["text", *have.values()])))
    counted = tokens.to_table(columns=["doc_id", "n_tokens"])
    place = pc.index_in(texts.column("doc_id"), counted.column("doc_id").combine_chunks())
    n_tokens = counted.column("n_tokens").combine_chunks().take(place.combine_chunks())
    text = texts.column("text").combine_chunks()
    return {
        f"by_{name}": tokenizer.fertility(text, n_tokens, pc.fill_null(texts.column(column).combine_chunks(), "unknown"))
        for name, column in have.items()
    }


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("tokenize", inputs=("documents", "mixture", "held_out"), params=("tokenize",)) as run:
        params = TokenizeParams.parse(run.params["tokenize"], where="tokenize")
        documents, ids = run.inputs["documents"], [run.inputs["mixture"], run.inputs["held_out"]]
        task = Tokenize(run.root, documents, ids, params)
        journal = run.journal(params=params.model_dump(mode="json"), tokenizer=file_digest(run.root / FOLDER / FILE))
        tokens = run.map(task, units(documents, ids, task.columns), journal)["tokens"]
        run.account(rows_in=len(chosen_ids(ids)), kept=tokens.rows)
        run.metrics(_fertility(documents, ids, tokens))


if __name__ == "__main__":
    stage_main(main)
