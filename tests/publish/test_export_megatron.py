"""The .bin and .idx files, read by Megatron's own reader and by one written from the published layout."""

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.errors import DataError, UsageError
from dataplane.publish.export import Options, export
from dataplane.publish.export_megatron import index, write
from dataplane.publish.rows import Request, open_rows
from dataplane.snapshot import Snapshot
from tests.publish.small_lake import EOS_ID, MIXTURE, sequences, token_lists


def with_eos() -> list[list[int]]:
    """What the mixture's documents should be: each with EOS behind it."""
    tokens = token_lists()
    return [[*tokens[doc_id], EOS_ID] for doc_id in MIXTURE]


def read_by_layout(folder: Path) -> tuple[str, list[list[int]], list[int]]:
    """Type, sequences and document borders, by the layout of the format alone."""
    data = (folder / "train.idx").read_bytes()
    magic, version, code, n, borders = struct.unpack_from("<9sQBQQ", data)
    assert (magic, version) == (b"MMIDIDX\x00\x00", 1)
    dtype = {4: "<i4", 8: "<u2"}[code]
    at = struct.calcsize("<9sQBQQ")
    sizes = np.frombuffer(data, "<i4", n, at)
    pointers = np.frombuffer(data, "<i8", n, at + 4 * n)
    ends = np.frombuffer(data, "<i8", borders, at + 12 * n)
    assert len(data) == at + 12 * n + 8 * borders
    tokens = (folder / "train.bin").read_bytes()
    rows = [np.frombuffer(tokens, dtype, int(size), int(start)).tolist() for size, start in zip(sizes, pointers, strict=True)]
    return dtype, rows, ends.tolist()


@pytest.mark.parametrize(("table", "expected"), [("tokens", with_eos()), ("packed", sequences())])
def test_the_files_hold_every_sequence_where_the_index_says(lake: dict[str, Snapshot], table: str, expected: list[list[int]]) -> None:
    record = export(Request(table), "megatron", Path("out"), Options())
    assert read_by_layout(Path("out")) == ("<u2", expected, list(range(len(expected) + 1)))
    assert [record[name] for name in ("rows", "tokens", "dtype", "appended_eos")] == [
        len(expected), sum(map(len, expected)), "uint16", EOS_ID if table == "tokens" else None,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("table", "expected"), [("tokens", with_eos()), ("packed", sequences())])
def test_megatron_core_reads_the_same(lake: dict[str, Snapshot], table: str, expected: list[list[int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, and of what is not installed here; importing is not what is tested
        from megatron.core.datasets.indexed_dataset import IndexedDataset
    export(Request(table), "megatron", Path("out"), Options())
    for mmap in (True, False):
        found = IndexedDataset("out/train", mmap=mmap)
        assert [found[i].tolist() for i in range(len(found))] == expected
        assert (found.document_indices.tolist(), found.index.dtype) == (list(range(len(expected) + 1)), np.uint16)


@pytest.mark.slow
def test_the_index_is_what_megatron_core_writes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

        rng = np.random.default_rng(0)
        for name, dtype, top in (("small", np.uint16, 60_000), ("large", np.int32, 2_000_000)):
            documents = [rng.integers(0, top, size) for size in rng.integers(1, 2000, 50)]
            builder = IndexedDatasetBuilder(str(tmp_path / f"{name}.bin"), dtype=dtype)
            for document in documents:
                builder.add_document(document, [len(document)])
            builder.finalize(str(tmp_path / f"{name}.idx"))
            sizes = np.array([len(document) for document in documents], np.int32)
            assert (tmp_path / f"{name}.idx").read_bytes() == b"".join(index(sizes, dtype.__name__))


def tokens_of(put: Any, *lists: list[int]) -> None:
    rows = [{"doc_id": f"{i:032x}", "n_tokens": len(values), "n_words": 1, "input_ids": values} for i, values in enumerate(lists)]
    put("tokens", pa.Table.from_pylist(rows, schema=schema.TOKENS))


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_499, "<u2"), (65_500, "<i4"), (1 << 20, "<i4")])
def test_the_smaller_type_is_taken_where_megatron_takes_it(project: Path, put: Any, vocabulary: int, dtype: str) -> None:
    lists = [[0, vocabulary - 1], [], [7]]
    tokens_of(put, *lists)
    write(open_rows(Request("tokens", "all", columns=("input_ids",))), project, vocabulary, eos_id=2)
    assert read_by_layout(project) == (dtype, [[*values, 2] for values in lists], [0, 1, 2, 3])


@pytest.mark.parametrize("token", [-1, 300])
def test_a_token_that_is_not_in_the_vocabulary_is_refused(project: Path, put: Any, token: int) -> None:
    tokens_of(put, [5, token])
    with pytest.raises(DataError, match=r"tokens go from .* and the vocabulary from 0 to 299"):
        write(open_rows(Request("tokens", "all", columns=("input_ids",))), project, 300, eos_id=0)


def test_no_documents_make_an_empty_index(project: Path, put: Any) -> None:
    tokens_of(put)
    write(open_rows(Request("tokens", "all", columns=("input_ids",))), project, 300, eos_id=0)
    assert read_by_layout(project) == ("<u2", [], [0])


def test_a_table_without_tokens_is_refused(lake: dict[str, Snapshot]) -> None:
    with pytest.raises(UsageError, match="'documents' holds no tokens"):
        export(Request("documents"), "megatron", Path("out"), Options())
