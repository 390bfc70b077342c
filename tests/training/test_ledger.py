"""The ledger: a chain that shows every change, and a cut back to a checkpoint that reads nothing but the last line."""

import hashlib
import json
from pathlib import Path

import pytest

from trainplane.errors import LedgerBroken
from trainplane.lineage.ledger import GENESIS, Ledger, Position, chain_hash, verify


def entry(step: int) -> dict:
    return {"step": step, "skipped": 0, "seq_ids": [step, step + 1], "token_hash": f"t{step}", "rng": f"r{step}", "loss": 1.5}


def written(path: Path, steps: int) -> tuple[Ledger, list[Position]]:
    """A ledger, and its position after each step."""
    ledger, positions = Ledger(path), [Position()]
    for step in range(1, steps + 1):
        ledger.append(entry(step))
        positions.append(ledger.position)
    ledger.sync()
    return ledger, positions


def test_the_chain_is_a_hash_of_previous_step_skips_ids_tokens_and_random_key() -> None:
    expected = hashlib.sha256(b'["' + GENESIS.encode() + b'",1,0,[1,2],"t1","r1"]').hexdigest()[:32]
    assert chain_hash(GENESIS, entry(1)) == expected


def test_the_head_is_the_hash_of_every_step_in_order(tmp_path: Path) -> None:
    head = GENESIS
    for step in (1, 2, 3):
        head = chain_hash(head, entry(step))
    ledger, _ = written(tmp_path / "l.jsonl", 3)
    assert ledger.head == head
    assert [line["step"] for line in verify(ledger.entries())] == [1, 2, 3]


@pytest.mark.parametrize("torn", [b"", b'{"step": 6, "seq'])
def test_steps_after_the_checkpoint_are_cut_off_and_written_again(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "l.jsonl"
    whole, positions = written(path, 5)
    content = path.read_bytes()
    path.write_bytes(content + torn)
    resumed = Ledger(path, positions[3])
    assert [line["step"] for line in resumed.entries()] == [1, 2, 3]
    resumed.append(entry(4))
    resumed.append(entry(5))
    assert (resumed.head, path.read_bytes()) == (whole.head, content)


def test_a_ledger_begins_anew_at_the_first_position(tmp_path: Path) -> None:
    written(tmp_path / "l.jsonl", 5)
    assert list(Ledger(tmp_path / "l.jsonl").entries()) == []


def test_a_ledger_that_is_not_the_checkpoints_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    _, positions = written(path, 4)
    content = path.read_bytes()
    head = positions[4].head.encode()
    wrong = {"is shorter": content[:-20], "not hold step 4": content.replace(head, b"0" * 32), "hold step 4": content[:-2] + b" \n"}
    for message, bad in wrong.items():
        path.write_bytes(bad)
        with pytest.raises(LedgerBroken, match=message):
            Ledger(path, positions[4])


def test_a_line_longer_than_one_look_is_found(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.jsonl")
    ledger.append(entry(1))
    ledger.append(entry(2) | {"losses": [0.123456789] * 20_000})
    assert Ledger(tmp_path / "l.jsonl", ledger.position).head == ledger.head


CHANGES = [
    (0, {"seq_ids": [9, 9]}),
    (1, {"token_hash": "x"}),
    (2, {"step": 7}),
    (1, {"chain_hash": "0" * 32}),
    (1, {"rng": "x"}),
    (0, {"skipped": 8}),
]


@pytest.mark.parametrize(("line", "change"), CHANGES)
def test_any_change_breaks_the_chain(tmp_path: Path, line: int, change: dict) -> None:
    entries = list(written(tmp_path / "l.jsonl", 3)[0].entries())
    entries[line] |= change
    with pytest.raises(LedgerBroken, match=f"line {line + 1}"):
        list(verify(entries))


def test_a_lost_or_swapped_step_breaks_the_chain(tmp_path: Path) -> None:
    entries = list(written(tmp_path / "l.jsonl", 3)[0].entries())
    for wrong in (entries[1:], [entries[0], entries[2]], [entries[1], entries[0], entries[2]]):
        with pytest.raises(LedgerBroken):
            list(verify(wrong))


def test_entries_survive_as_json(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    written(path, 2)
    assert [json.loads(line)["loss"] for line in path.read_text().splitlines()] == [1.5, 1.5]
