"""train_lm: raw -> models/ngram_lm. The n-gram model that perplexity is measured with, trained on trusted sources."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dataplane.corpus.ngram_lm import TrainLmParams, train
from dataplane.errors import ParamsError, did_you_mean
from dataplane.kernels.ngram_lm import FILE, FOLDER, Model
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot
from dataplane.sources.decode import decode

BATCH_ROWS = 512


def _texts(raw: Snapshot, sources: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Decoded text of the trusted sources, in stored order."""
    trusted = {"source": list(sources)} if sources else None
    for batch in raw.batches(["source", "mime", "charset", "payload"], among=trusted, batch_size=BATCH_ROWS):
        rows = batch.to_pylist()
        text = [decode(row["payload"], row["mime"], row["charset"]).text for row in rows]
        yield pa.record_batch({"source": batch.column("source"), "text": pa.array(text, pa.large_string())})


def _trained(raw: Snapshot, params: TrainLmParams) -> Model:
    known = raw.to_table(columns=["source"]).column("source").unique().to_pylist()
    for source in params.sources:
        if source not in known:
            raise ParamsError(f"no source {source!r}, {did_you_mean(source, known)}", where="train_lm.sources", fix="correct the name")
    return train(_texts(raw, tuple(params.sources)), params)


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("train_lm", inputs=("raw",), params=("train_lm",)) as run:
        params = TrainLmParams.parse(run.params["train_lm"], where="train_lm")
        model = Model.load(run.root / params.model) if params.model else _trained(run.inputs["raw"], params)
        model.save(run.root / FOLDER / FILE)
        origin = {"model": params.model} if params.model else {"sources": list(params.sources)}
        run.metrics({**origin, "order": model.order, "n_grams": len(model.tokens)})


if __name__ == "__main__":
    stage_main(main)
