"""The flat layout holds the packed table, and its reader gives the batches that the table's does."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.errors import DataError, UsageError
from dataplane.publish.export import Options, export
from dataplane.publish.export_flat import write_batches
from dataplane.publish.rows import Request
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import sequences
from trainplane.data.flat import FlatPacked
from trainplane.data.packed import Packed

N, LENGTH = 23, 12


def packed_table() -> pa.Table:
    rng = np.random.default_rng(5)
    rows = []
    for i in range(N):
        edges = [0, *np.unique(rng.integers(1, LENGTH + 1, 3)).tolist()]
        spans = [
            {"doc_id": f"{int(rng.integers(1 << 60)):032x}", "seq_start": a, "doc_start": (1 << 33) * (a == 0), "length": b - a}
            for a, b in itertools.pairwise(edges)
        ]
        rows.append({"seq_id": i, "n_tokens": edges[-1], "input_ids": rng.integers(0, 60_000, LENGTH).tolist(), "spans": spans})
    return pa.Table.from_pylist(rows, schema=schema.packed(LENGTH))


@pytest.mark.parametrize(("vocabulary", "dtype"), [(1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_the_flat_reader_gives_the_batches_of_the_table(put: Any, tmp_path: Path, vocabulary: int, dtype: str) -> None:
    table = packed_table()
    write_batches(table.to_batches(max_chunksize=5), tmp_path, LENGTH, vocabulary)
    flat, lake = FlatPacked(tmp_path), Packed(put("packed", table))
    assert (flat.n_sequences, flat.sequence_length) == (lake.n_sequences, lake.sequence_length) == (N, LENGTH)
    assert np.load(tmp_path / "input_ids.npy").dtype == dtype
    for seq_ids in (np.array([7]), np.array([22, 0, 3, 3]), np.arange(N), np.zeros(0, np.int64)):
        ours, theirs = flat.batch(seq_ids), lake.batch(seq_ids) if len(seq_ids) else None
        if theirs is None:
            assert ours.input_ids.shape == (0, LENGTH)
            continue
        for name in ("seq_ids", "input_ids", "documents", "position_ids", "labels"):
            assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name


def test_spans_lead_to_the_documents(tmp_path: Path) -> None:
    table = packed_table()
    write_batches(table.to_batches(), tmp_path, LENGTH, 1 << 16)
    bounds, spans, ids = (np.load(tmp_path / f"{name}.npy") for name in ("span_bounds", "spans", "doc_ids"))
    found = [
        [
            {"doc_id": bytes(ids[k]).hex(), **dict(zip(("seq_start", "doc_start", "length"), spans[k].tolist(), strict=True))}
            for k in range(a, b)
        ]
        for a, b in itertools.pairwise(bounds)
    ]
    assert found == table.column("spans").to_pylist()


def test_an_export_of_the_lake_is_whole_and_says_what_it_is(lake: dict[str, Snapshot]) -> None:
    record = export(Request("packed"), "flat", Path("out"), Options())
    assert np.load("out/input_ids.npy").tolist() == sequences()
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "doc_ids.npy", "input_ids.npy", "span_bounds.npy", "spans.npy", "terraplane.json",
    ]  # fmt: skip
    assert json.loads(Path("out/terraplane.json").read_text())["dtype"] == record["dtype"] == "uint16"


def test_other_tables_and_tokens_of_no_vocabulary_are_refused(lake: dict[str, Snapshot], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="whole sequences of 'packed'"):
        export(Request("tokens"), "flat", Path("out"), Options())
    with pytest.raises(DataError, match="the vocabulary from 0 to 9"):
        write_batches(packed_table().to_batches(), tmp_path, LENGTH, 10)


@pytest.mark.parametrize("name", ["input_ids", "span_bounds", "spans"])
def test_a_file_that_is_cut_short_or_gone_is_named(tmp_path: Path, name: str) -> None:
    write_batches(packed_table().to_batches(), tmp_path, LENGTH, 1 << 16)
    path = tmp_path / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="cannot be read"):
        FlatPacked(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=f"{name}.npy"):
        FlatPacked(tmp_path)


def test_files_of_two_exports_are_told_apart(tmp_path: Path) -> None:
    write_batches(packed_table().to_batches(), tmp_path, LENGTH, 1 << 16)
    np.save(tmp_path / "span_bounds.npy", np.load(tmp_path / "span_bounds.npy")[:-1])
    with pytest.raises(DataError, match="do not belong together"):
        FlatPacked(tmp_path)
