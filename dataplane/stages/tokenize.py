"""tokenize: mixture, held_out -> tokens. Each document once, however often the mixture repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from dataplane import schema
from dataplane.corpus import tokenizer
from dataplane.corpus.tokenizer import FILE, FOLDER
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.engine.documents import DocumentsTask, chosen_ids, sized
from dataplane.lineage.record import StageRun, stage_main
from dataplane.operator import file_digest
from dataplane.snapshot import Snapshot

GROUPS = {"by_kind": "kind", "by_language": "language__lang"}  # what fertility is told by -> its column, where it was measured


class Tokenize(DocumentsTask):
    """Encodes the chosen documents."""

    def __init__(self, root: Path, documents: Snapshot, ids: Sequence[Snapshot], cuts: Snapshot, params: TokenizeParams) -> None:
        super().__init__(root, {"tokens": schema.TOKENS}, documents, ids, ["text"], cuts)
        self.params = params

    def open(self) -> None:
        """Loads the tokenizer."""
        super().open()
        self.tokenizer = tokenizer.load(self.root / FOLDER)

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tokens of one batch."""
        yield "tokens", tokenize(batch.column("doc_id"), batch.column("text"), self.tokenizer, self.params)


def _sizes(documents: Snapshot, cuts: Snapshot, tokens: Snapshot) -> pa.Table:
    """n_tokens, n_words, n_bytes and the groups of each document that has tokens."""
    groups = {name: column for name, column in GROUPS.items() if column in documents.schema.names}
    counts = tokens.to_table(columns=["doc_id", "n_tokens", "n_words"])
    about = documents.to_table(columns=["doc_id", "n_bytes", *groups.values()])
    joined = counts.join(sized(about, documents, cuts), "doc_id", join_type="inner", use_threads=False)
    return joined.rename_columns({column: name for name, column in groups.items()})


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("tokenize", inputs=("documents", "mixture", "held_out", "cuts"), params=("tokenize",)) as run:
        params = TokenizeParams.parse(run.params["tokenize"], where="tokenize")
        documents, ids = run.inputs["documents"], [run.inputs["mixture"], run.inputs["held_out"]]
        task = Tokenize(run.root, documents, ids, run.inputs["cuts"], params)
        journal = run.journal(params=params.model_dump(mode="json"), tokenizer=file_digest(run.root / FOLDER / FILE))
        tokens = run.map_rows(task, journal)["tokens"]
        run.account(rows_in=len(chosen_ids(ids)), kept=tokens.rows)
        sizes = _sizes(documents, run.inputs["cuts"], tokens)
        run.metrics(tokenizer.fertility(sizes, [name for name in GROUPS if name in sizes.schema.names]))


if __name__ == "__main__":
    stage_main(main)
