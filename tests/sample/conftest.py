from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataplane.sample.write import SampleParams, write_sample

FRACTION = 0.02


@pytest.fixture(scope="session")
def small_params() -> SampleParams:
    return SampleParams.parse({"fraction": FRACTION}, where="sample")


@pytest.fixture(scope="session")
def counts_and_folder(tmp_path_factory: pytest.TempPathFactory, small_params: SampleParams) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("project") / "data" / "sample"
    return write_sample(folder, params=small_params), folder


@pytest.fixture(scope="session")
def sample(counts_and_folder: tuple[dict[str, Any], Path]) -> Path:
    return counts_and_folder[1]


@pytest.fixture(scope="session")
def examples(sample: Path) -> dict[str, list[dict[str, Any]]]:
    """Items of each of the three example folders."""
    return {name: list(_items(sample / name)) for name in ("instruct", "preference", "benchmark")}


def _items(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield json.loads(line)
