"""Verify and trace on a ledger made by hand, with rollbacks in it: against a walk through every step, and with one thing changed."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.errors import UsageError
from dataplane.snapshot import Snapshot
from trainplane.data.order import Batches, sequences_at
from trainplane.data.packed import Packed
from trainplane.errors import LedgerBroken
from trainplane.lineage.doc_index import DocIndex
from trainplane.lineage.ledger import GENESIS, chain_hash
from trainplane.lineage.trace import trace_document
from trainplane.lineage.trained import TrainedRun
from trainplane.lineage.verify import verify_run
from trainplane.pretrain.randomness import step_key

SEED, BATCH, STEPS, N, LENGTH = 3, 4, 12, 10, 8
SKIPS = {4: 4, 9: 8}


def doc(i: int) -> str:
    return f"{i % 3:016x}{i:016x}"  # many begin alike


def packed_rows() -> pa.Table:
    span = {"doc_start": 0, "length": 4}
    rows = [
        {"seq_id": i, "n_tokens": LENGTH, "input_ids": [i] * LENGTH, "spans": [
            span | {"doc_id": doc(i), "seq_start": 0}, span | {"doc_id": doc((i + 1) % N), "seq_start": 4}]}
        for i in range(N)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema.packed(LENGTH))


def ledger(packed: Packed, batches: Batches) -> list[dict[str, Any]]:
    place, head, rows = 0, GENESIS, []
    for step in range(1, STEPS + 1):
        skipped = SKIPS.get(step, 0)
        place += skipped
        size = batches.size(step)
        seq_ids = sequences_at(SEED, place, size, N)
        row = {
            "step": step, "skipped": skipped, "seq_ids": seq_ids.tolist(), "token_hash": packed.batch(seq_ids).token_hash(),
            "rng": step_key(SEED, step), "epoch": place // N, "losses": [1.0] * size, "document_losses": [[1.0, 2.0]] * size,
        }  # fmt: skip
        head = chain_hash(head, row)
        rows.append(row | {"chain_hash": head, "run_id": "r", "stage": "pretrain"})
        place += size
    return rows


@pytest.fixture(params=[[], [[4, 2], [8, 6]]], ids=["one size", "schedule"])
def run(put, project: Path, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """A function that writes the project, with the ledger and run.json changed as asked; steps of one size and of several."""
    packed = put("packed", packed_rows())
    made = [{"from_step": step, "sequences": n, "spike": step, "lr_scale": 1.0, "reason": ""} for step, n in SKIPS.items()]

    def write(rows: list[dict[str, Any]] | None = None, **changes: Any) -> list[dict[str, Any]]:
        rows = rows or ledger(Packed(packed), Batches.of(BATCH, [(first, size) for first, size in request.param]))
        put("consumed", pa.Table.from_pylist(rows, schema=schema.CONSUMED))
        record = {
            "seed": SEED,
            "global_batch": BATCH,
            "batch_schedule": request.param,
            "step": STEPS,
            "interventions": made,
            "data_digest": packed.digest,
            "digest": "w",
        }
        (project / "models/pretrain").mkdir(parents=True, exist_ok=True)
        (project / "models/pretrain/run.json").write_text(json.dumps(record | {"chain_hash": rows[-1]["chain_hash"]} | changes))
        return rows

    return write


def chained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with a chain that holds, as a forger would write it."""
    head = GENESIS
    for row in rows:
        head = row["chain_hash"] = chain_hash(head, row)
    return rows


def test_a_ledger_with_skips_holds(run) -> None:
    rows = run()
    assert verify_run() == {
        "steps": STEPS, "skipped": 12, "chain_hash": rows[-1]["chain_hash"], "packed": Snapshot.load("packed").digest, "weights": "w",
    }  # fmt: skip


def test_one_changed_id_token_step_skip_or_random_key_is_found_even_if_the_chain_is_forged(run) -> None:
    swapped = {"seq_ids": [*run()[4]["seq_ids"][1:], run()[4]["seq_ids"][0]]}
    changes = {"sequences": swapped, "tokens": {"token_hash": "0" * 32}, "passed over": {"skipped": 4}, "random key": {"rng": "0" * 32}}
    for message, change in changes.items():
        rows = run()
        rows[4] |= change
        run(rows)
        with pytest.raises(LedgerBroken, match="step 5"):
            verify_run()
        run(chained(rows))
        with pytest.raises(LedgerBroken, match=f"step 5.*{message}|{message}.*step 5"):
            verify_run()
    rows = run()
    run(chained([row | {"step": row["step"] - (row["step"] > 5)} for row in rows if row["step"] != 5]))
    with pytest.raises(LedgerBroken, match="step 5"):
        verify_run()


def test_a_ledger_that_ends_early_or_belongs_to_another_model_is_found(run) -> None:
    run(run()[:-1], chain_hash=run()[-1]["chain_hash"])
    with pytest.raises(LedgerBroken, match="ends at step 11"):
        verify_run()


def test_one_changed_token_of_the_snapshot_is_found(run, put) -> None:
    rows, table = run(), packed_rows().to_pylist()
    table[6]["input_ids"][3] += 1
    changed = put("packed", pa.Table.from_pylist(table, schema=schema.packed(LENGTH)))
    run(rows, data_digest=changed.digest)
    first = next(row["step"] for row in rows if 6 in row["seq_ids"])
    with pytest.raises(LedgerBroken, match=f"tokens of step {first} "):
        verify_run()


@pytest.mark.parametrize("before", [1, 3, 4, 8, 9, STEPS])
def test_the_steps_of_a_document_are_those_that_a_search_of_every_step_finds(run, before: int) -> None:
    rows = run()
    for i in range(N):
        holds = {i, (i - 1) % N}
        found = trace_document(doc(i), before=before)
        expected = [(row["step"], seq_id) for row in rows[:before] for seq_id in row["seq_ids"] if seq_id in holds]
        assert sorted((step["step"], step["seq_id"]) for step in found["steps"]) == sorted(expected)
        assert {step["document_losses"][0] for step in found["steps"] if step["seq_id"] == i} <= {1.0}
        assert found["certificate"]["seen"] == bool(expected)


def test_places_and_steps_are_each_others_inverse_around_skips(run) -> None:
    run()
    trained = TrainedRun.load()
    first, size = trained.first_place, trained.batches.size
    end = first(STEPS) + size(STEPS)
    by_step = {place: step for step in range(1, STEPS + 1) for place in range(first(step), first(step) + size(step))}
    assert [trained.step_of(place) for place in range(end)] == [by_step.get(place) for place in range(end)]
    assert end - len(by_step) == sum(SKIPS.values())


def test_the_index_finds_what_the_spans_say(run) -> None:
    run()
    index = DocIndex(Snapshot.load("packed"))
    assert [index.seq_ids(doc(i)) for i in range(N)] == [sorted({i, (i - 1) % N}) for i in range(N)]
    assert index.seq_ids("f" * 32) == []
    with pytest.raises(UsageError, match="32 hex digits"):
        index.seq_ids("abc")


def test_an_edited_ledger_that_a_trace_meets_is_named(run) -> None:
    rows = run()
    document, step = doc(int(rows[4]["seq_ids"][0])), 5
    rows[4]["step"] = 99
    run(rows)
    with pytest.raises(LedgerBroken, match=f"at step {step}"):
        trace_document(document)


def test_a_step_that_the_run_does_not_have_is_refused(run) -> None:
    run()
    with pytest.raises(UsageError, match="12 steps"):
        trace_document(doc(1), before=13)
