"""Scripts that train in ranks: each is a process of its own, since ranks are forked from one that has used no threads yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.small_stage import ROOT

BEGIN = """
import errno, json, os, signal, sys, time
from pathlib import Path
import numpy as np
from dataplane.settings import TrainingSettings
from tests.faults import small_training as s
from tests.faults.small_training import *
s.preload()
here = Path(sys.argv[1])
"""


def scenario(folder: Path, code: str) -> Any:
    """What a script prints last, as JSON. Its `here` is the folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + code, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
