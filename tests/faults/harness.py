"""Calls a kill harness as a command, in a process in which something may have been broken before."""

import json
import subprocess
import sys
from typing import Any

from tests.faults.small_stage import ROOT


def harness(module: str, *options: str, code: str = "") -> tuple[int, list[dict[str, Any]]]:
    """Exit code and lines of `tests.faults.MODULE`; `code` runs before it, in its process."""
    start = f"import sys; {code}\nfrom tests.faults.{module} import main\nsys.exit(main())"
    found = subprocess.run([sys.executable, "-c", start, "--json", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr, found.stderr
    return found.returncode, [json.loads(line) for line in found.stdout.splitlines()]
