"""Scores one part on labelled data: `python -m benchmarks.quality NAME --data FOLDER [--json]`."""

import importlib
import sys

if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
    sys.exit(f"{__doc__}")
importlib.import_module(f"benchmarks.quality.{sys.argv[1]}").main(sys.argv[2:])
