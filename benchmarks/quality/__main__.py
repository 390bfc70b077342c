"""How good the operators are on labelled public data: ``python -m benchmarks.quality NAME --data PATH --json``."""

import argparse
import importlib
from pathlib import Path

parser = argparse.ArgumentParser(prog="benchmarks.quality", description=__doc__)
parser.add_argument("name", help="a module of this folder: " + ", ".join(sorted(p.stem for p in Path(__file__).parent.glob("[!_]*.py"))))
parser.add_argument("--data", type=Path, required=True, help="folder laid out like shared/data")
parser.add_argument("--json", action="store_true", help="print one JSON object a line")
arguments = parser.parse_args()
importlib.import_module(f"benchmarks.quality.{arguments.name}").main(arguments.data, as_json=arguments.json)
