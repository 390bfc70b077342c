"""tokenizer: mixture -> models/tokenizer. Trained on the start of the mixture, or on a sample with shares of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenizers import Tokenizer

from dataplane.corpus import tokenizer
from dataplane.corpus.mixture_input import read_input
from dataplane.corpus.tokenizer import FOLDER, TokenizerParams
from dataplane.corpus.tokenizer_sample import start, weighted
from dataplane.engine.cuts import Cuts
from dataplane.engine.documents import sized
from dataplane.engine.rows import BATCH_ROWS
from dataplane.kernels.members import Members
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot


def _texts(documents: Snapshot, cuts: Cuts, sampled: pa.Array) -> Iterator[pa.Array]:
    """Each sampled occurrence's text, in stored order: the trainer counts words, so the order does not matter."""
    times = {row["values"]: row["counts"] for row in sampled.value_counts().to_pylist()}
    wanted = Members.of(pa.array(list(times), pa.string()))
    for batch in documents.batches(columns=["doc_id", "text"], batch_size=BATCH_ROWS):
        part = cuts.batch(wanted.rows(batch))
        repeats = [i for i, doc_id in enumerate(part.column("doc_id").to_pylist()) for _ in range(times[doc_id])]
        if repeats:
            yield part.column("text").take(pa.array(repeats))


def _save(trained: Any, folder: Path) -> None:
    """Puts a whole folder in place: a kill leaves the old tokenizer, the new one, or none, and never half of one."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    tokenizer.save(trained, partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _start(run: StageRun, params: TokenizerParams) -> pa.Array:
    documents = run.inputs["documents"]
    mixture = run.inputs["mixture"].to_table(columns=["doc_id", "position"])
    sizes = sized(documents.to_table(columns=["doc_id", "n_bytes"]), documents, run.inputs["cuts"])
    return start(mixture, sizes, params.max_bytes)


def _weighted(run: StageRun, params: TokenizerParams) -> pa.Array:
    """Occurrences with the shares asked for; what was achieved goes to the metrics."""
    documents, mixture, cuts = (run.inputs[name] for name in ("documents", "mixture", "cuts"))
    found = read_input(documents, [mixture], params.sample.mixture(), cuts, run.root)
    sampled = weighted(found.training, params.sample, params.max_bytes)
    run.metrics({"sample": sampled.plan.to_json()})
    return sampled.table.column("doc_id").combine_chunks()


def _train(run: StageRun, params: TokenizerParams) -> Tokenizer:
    sampled = _weighted(run, params) if params.sample.by else _start(run, params)
    run.metrics({"occurrences": len(sampled)})
    return tokenizer.train(_texts(run.inputs["documents"], Cuts.load(run.inputs["cuts"]), sampled), params)


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("tokenizer", inputs=("documents", "mixture", "cuts"), params=("tokenizer",)) as run:
        params = TokenizerParams.parse(run.params["tokenizer"], where="tokenizer")
        made = tokenizer.given(run.root / params.path, params) if params.path else _train(run, params)
        if params.terms:
            added = tokenizer.extend_vocabulary(made, tokenizer.read_terms(run.root / params.terms))
            run.metrics({"terms_added": len(added)})
        _save(made, run.root / FOLDER)
        run.metrics({"vocab_size": made.get_vocab_size(), **({"path": params.path} if params.path else {})})


if __name__ == "__main__":
    stage_main(main)
