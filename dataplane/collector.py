"""Python's garbage collector in a process that works and ends.

Importing makes some hundred thousand objects that live as long as the process. Collections while they are made, and the last ones
while the process ends, look through all of them and find nothing: .5 of the 1.4 seconds that a stage without work took.
"""

from __future__ import annotations

import gc
import sys

STAGES = ("dataplane.stages.", "trainplane.stages.")


def rest_while_importing() -> None:
    """Switches the collector off until `begin`, where Python was started to run a stage (`python -m`)."""
    started = sys.orig_argv
    if "-m" in started and started[started.index("-m") + 1].startswith(STAGES):
        gc.disable()


def begin() -> None:
    """Switches it on, blind to what is there already."""
    gc.freeze()
    gc.enable()


def end() -> None:
    """Has the process end without looking through what is there."""
    gc.freeze()


rest_while_importing()  # as this module is imported, which is before all others
