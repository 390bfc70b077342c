"""The clean stage: how much work it finds in a few rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane import schema
from dataplane.engine.rows import Carried, Part
from dataplane.stages.clean import Clean, Work


def test_new_rows_weigh_as_much_as_their_payload(project: Path, put: Any) -> None:
    sizes = [100_000, 10, 50_000]
    rows = [{"doc_id": f"{i:032x}", "payload": b"x" * size, "metadata": "{}"} for i, size in enumerate(sizes)]
    raw = put("raw", pa.Table.from_pylist(rows, schema=schema.RAW))
    task = Clean(project, raw, [], "run")
    everything, last = Part(np.arange(3)), Part(np.arange(3), Carried(pa.array([]), np.array([False, True, True]), {}))
    for parts, expected in (([everything], sum(sizes)), ([last], sum(sizes[1:])), ([everything, last], sum(sizes) + sum(sizes[1:]))):
        assert expected <= task.new_bytes([Work(part) for part in parts]) <= expected + 100
