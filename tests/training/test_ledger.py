"""The ledger: a chain that shows every change, and a cut back to a checkpoint."""

import json
from pathlib import Path

import pytest

from trainplane.errors import LedgerBroken
from trainplane.lineage.ledger import GENESIS, Ledger, chain_hash, verify


def entry(step: int) -> dict:
    return {"step": step, "seq_ids": [step, step + 1], "token_hash": f"t{step}", "loss": 1.5}


def written(path: Path, steps: int) -> Ledger:
    ledger = Ledger(path, 0)
    for step in range(1, steps + 1):
        ledger.append(entry(step))
    ledger.sync()
    return ledger


def test_the_head_is_the_hash_of_every_step_in_order(tmp_path: Path) -> None:
    head = GENESIS
    for step in (1, 2, 3):
        head = chain_hash(head, step, [step, step + 1], f"t{step}")
    ledger = written(tmp_path / "l.jsonl", 3)
    assert ledger.head == head == verify(ledger.entries())


def test_steps_after_the_checkpoint_are_cut_off_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    whole = written(path, 5)
    resumed = Ledger(path, 3)
    assert [line["step"] for line in resumed.entries()] == [1, 2, 3]
    resumed.append(entry(4))
    resumed.append(entry(5))
    assert resumed.head == whole.head


def test_a_line_that_a_kill_cut_short_is_no_step(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    written(path, 4)
    path.write_text(path.read_text()[:-20])
    assert [line["step"] for line in Ledger(path, 3).entries()] == [1, 2, 3]
    with pytest.raises(LedgerBroken, match="holds 3 of 4 steps"):
        Ledger(path, 4)


@pytest.mark.parametrize(
    ("line", "change"), [(0, {"seq_ids": [9, 9]}), (1, {"token_hash": "x"}), (2, {"step": 7}), (1, {"chain_hash": "0" * 32})]
)
def test_any_change_breaks_the_chain(tmp_path: Path, line: int, change: dict) -> None:
    entries = written(tmp_path / "l.jsonl", 3).entries()
    entries[line] |= change
    with pytest.raises(LedgerBroken, match=f"line {line + 1}"):
        verify(entries)


def test_a_lost_or_swapped_step_breaks_the_chain(tmp_path: Path) -> None:
    entries = written(tmp_path / "l.jsonl", 3).entries()
    for wrong in (entries[1:], [entries[0], entries[2]], [entries[1], entries[0], entries[2]]):
        with pytest.raises(LedgerBroken):
            verify(wrong)


def test_entries_survive_as_json(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    written(path, 2)
    assert [json.loads(line)["loss"] for line in path.read_text().splitlines()] == [1.5, 1.5]
