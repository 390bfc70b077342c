"""tokenizer: mixture -> models/tokenizer. Trained on the start of the mixture, or on a sample with shares of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from dataplane.corpus import tokenizer
from dataplane.corpus.mixture_input import read_input
from dataplane.corpus.round_trip import round_trip
from dataplane.corpus.tokenizer import FOLDER, TokenizerParams
from dataplane.corpus.tokenizer_sample import start, weighted
from dataplane.engine.cuts import Cuts
from dataplane.engine.documents import sized
from dataplane.engine.rows import BATCH_ROWS, read_rows
from dataplane.kernels.members import Members
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot

TRIED = 200  # documents that are encoded and decoded


def _texts(documents: Snapshot, cuts: Cuts, sampled: pa.Array) -> Iterator[pa.Array]:
    """Each sampled occurrence's text, in stored order: the trainer counts words, so the order does not matter."""
    times = {row["values"]: row["counts"] for row in sampled.value_counts().to_pylist()}
    wanted = Members.of(pa.array(list(times), pa.string()))
    for batch in documents.batches(columns=["doc_id", "text"], batch_size=BATCH_ROWS):
        part = cuts.batch(wanted.rows(batch))
        repeats = [i for i, doc_id in enumerate(part.column("doc_id").to_pylist()) for _ in range(times[doc_id])]
        if repeats:
            yield part.column("text").take(pa.array(repeats))


def _save(trained: Tokenizer, folder: Path, model: bytes) -> None:
    """Puts a whole folder in place: a kill leaves the old tokenizer, the new one, or none, and never half of one."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    tokenizer.save(trained, partial, model)
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


def _train(run: StageRun, params: TokenizerParams) -> tuple[Tokenizer, bytes]:
    sampled = _weighted(run, params) if params.sample.by else _start(run, params)
    run.metrics({"occurrences": len(sampled)})
    return tokenizer.train_with_model(_texts(run.inputs["documents"], Cuts.load(run.inputs["cuts"]), sampled), params)


def _tried(run: StageRun) -> list[str]:
    """Some texts of the mixture, those of the smallest doc_ids: which they are depends on no order of rows."""
    ids = pc.unique(run.inputs["mixture"].to_table(columns=["doc_id"]).column("doc_id").combine_chunks())
    least = Members.of(ids.take(pc.array_sort_indices(ids)[:TRIED]))
    documents, cuts = run.inputs["documents"], Cuts.load(run.inputs["cuts"])
    places = np.flatnonzero(least.hold(documents.to_table(["doc_id"]).column("doc_id")))
    batches = read_rows(documents.open(), places, ["doc_id", "text"])  # and not through all texts of the corpus
    return list(chain.from_iterable(cuts.batch(batch).column("text").to_pylist() for batch in batches))


def _warn(told: dict[str, Any]) -> None:
    if lost := told["changed_hostile"]:
        sys.stderr.write(f"tokenizer: warning: not every text comes back as it went in: {', '.join(lost)}; see round_trip in its metrics\n")


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("tokenizer", inputs=("documents", "mixture", "cuts"), params=("tokenizer",)) as run:
        params = TokenizerParams.parse(run.params["tokenizer"], where="tokenizer")
        made, model = tokenizer.given(run.root / params.path, params) if params.path else _train(run, params)
        if params.terms:
            added = tokenizer.extend_vocabulary(made, tokenizer.read_terms(run.root / params.terms))
            run.metrics({"terms_added": len(added)})
        _save(made, run.root / FOLDER, model)
        told = round_trip(tokenizer.load(run.root / FOLDER), _tried(run))
        _warn(told)
        about = {"path": params.path} if params.path else {"model": params.model}
        run.metrics({"vocab_size": made.get_vocab_size(), "round_trip": told, **about})


if __name__ == "__main__":
    stage_main(main)
