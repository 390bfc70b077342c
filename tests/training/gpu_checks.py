"""What the tests on CPU cannot show: the layouts on GPUs, over NCCL, in the precisions that are used there.

    python -m tests.training.gpu_checks [--ranks N] [--only TEXT]

Runs a tiny job in each layout that N GPUs can hold (2 and 4 ranks), in fp32, bf16 and, with ZeRO, fp16, and holds the losses of its steps
and the held-out loss after them against one rank in fp32. One line of JSON a layout; the exit code says whether all agree. Without GPUs it
runs over gloo.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.training.on_ranks import LAYOUTS, run

STEPS = 3
# Relative: sums in no fixed order in fp32 (TF32 off); 8 and 11 bits of fraction.
TOLERANCE = {"fp32": 1e-4, "bf16": 1e-2, "fp16": 4e-3}


def checks(most_ranks: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each layout in each precision that it can have."""
    for ranks, params in LAYOUTS:
        for precision in TOLERANCE:
            staged = "pipeline" in params.get("parallel", {})
            needs_zero, refused = precision == "fp16" or (staged and precision == "bf16"), staged and precision == "fp16"
            if ranks <= most_ranks and not refused and (params.get("zero_stage") or not needs_zero):
                yield ranks, params | {"precision": precision}


def check(ranks: int, params: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Runs one; what differs most, and whether it may."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = run(Path(folder), ranks, {"steps": STEPS, "params": params})
        except AssertionError as error:
            return {"ranks": ranks, "params": params, "ok": False, "error": str(error)[-2000:]}
    pairs = [*zip(found["loss"], expected["loss"], strict=True), (found["held_out"], expected["held_out"])]
    off = max(abs(a - b) / b for a, b in pairs)
    return {"ranks": ranks, "params": params, "ok": off <= TOLERANCE[params["precision"]], "largest_difference": off}


def main() -> int:
    """The command line."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count() or 2, help="GPUs to use; layouts of more are left out")
    parser.add_argument("--only", default="", help="layouts whose params hold this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        expected = run(Path(folder), 1, {"steps": STEPS, "params": {}})
    oks = []
    for ranks, params in checks(options.ranks):
        if options.only in json.dumps(params):
            told = check(ranks, params, expected)
            oks.append(told["ok"])
            print(json.dumps(told), flush=True)
    return 0 if oks and all(oks) else 1


if __name__ == "__main__":
    sys.exit(main())
