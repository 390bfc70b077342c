"""tokenize: mixture, held_out -> tokens. Each document once, however often the mixture repeats it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from dataplane import schema
from dataplane.corpus import tokenizer
from dataplane.corpus.tokenizer import FILE, FOLDER
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.engine.documents import DocumentsTask, chosen_ids, units
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.snapshot import Snapshot

GROUPS = {"kind": "kind", "language": "language__lang"}  # what fertility is told by -> its column, where it was measured


class Tokenize(DocumentsTask):
    """Encodes the chosen documents, and counts what fertility is made of."""

    def __init__(self, root: Path, documents: Snapshot, ids: Sequence[Snapshot], params: TokenizeParams) -> None:
        self.groups = {name: column for name, column in GROUPS.items() if column in documents.schema.names}
        super().__init__(root, {"tokens": schema.TOKENS}, documents, ids, ["text", *self.groups.values()])
        self.params = params

    def open(self) -> None:
        """Loads the ids and the tokenizer."""
        super().open()
        self.tokenizer = tokenizer.load(self.root / FOLDER)

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tokens of one batch."""
        tokens = tokenize(batch.column("doc_id"), batch.column("text"), self.tokenizer, self.params)
        groups = {f"by_{name}": batch.column(column) for name, column in self.groups.items()}
        counted = tokenizer.sizes(batch.column("text"), tokens.column("n_tokens"), groups)
        self.counts.update({json.dumps(key, ensure_ascii=False): count for key, count in counted.items()})
        yield "tokens", tokens


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("tokenize", inputs=("documents", "mixture", "held_out"), params=("tokenize",)) as run:
        params = TokenizeParams.parse(run.params["tokenize"], where="tokenize")
        documents, ids = run.inputs["documents"], [run.inputs["mixture"], run.inputs["held_out"]]
        task = Tokenize(run.root, documents, ids, params)
        journal = run.journal(params=params.model_dump(mode="json"), tokenizer=file_digest(run.root / FOLDER / FILE))
        tokens = run.map(task, units(documents, ids, task.columns), journal)["tokens"]
        run.account(rows_in=len(chosen_ids(ids)), kept=tokens.rows)
        run.metrics(tokenizer.fertility({tuple(json.loads(key)): count for key, count in run.counts.items()}))


if __name__ == "__main__":
    stage_main(main)
