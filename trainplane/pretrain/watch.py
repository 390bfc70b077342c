"""What a run tells while it goes: one line of JSON a step, what the model writes, and what writers.py makes of the numbers."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dataplane.settings import TrainingSettings
from trainplane.pretrain.writers import writers

FILE, SAMPLES = "metrics.jsonl", "samples.jsonl"
RATIOS_EVERY_STEPS = 50  # the update ratios cost a copy of the weights
# Dense bf16 operations a second without sparsity. Source: NVIDIA's data sheets of A100, H100 SXM and H200 SXM.
PEAK_FLOPS = {"A100": 312e12, "H100": 989.5e12, "H200": 989.5e12}


def flops_per_token(n_parameters: int, n_layers: int, width: int, length: int) -> float:
    """Operations of forward and backward for one token: six a parameter, and attention's twelve a layer, channel and position.

    Source: PaLM, Chowdhery et al. 2022, arXiv:2204.02311, appendix B; the parameters with the embedding, as llm-foundry counts.
    """
    return 6.0 * n_parameters + 12.0 * n_layers * width * length


def mfu(tokens_per_s: float, flops: float, peak: float) -> float:
    """Share of the device's peak that the model's own operations make up.

    Args:
        tokens_per_s: Of all ranks.
        flops: Of a token.
        peak: Operations a second of all devices.
    """
    return tokens_per_s * flops / peak


def peak_flops() -> float | None:
    """Of this rank's GPU; None where it is not known, and on CPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next((peak for known, peak in PEAK_FLOPS.items() if known in name), None)


def memory_bytes() -> int:
    """Most that was in use so far: of the GPU where there is one, of the process elsewhere."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class JsonLines:
    """A file of one line of JSON a step, or a few; what a resume or a rollback has undone is cut off.

    Args:
        path: The file.
        step: Finished steps.
    """

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        self.cut(step)

    def cut(self, step: int) -> None:
        """Forgets the lines of later steps."""
        kept = [line for line in read(self.path) if line["step"] <= step]
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text("".join(_line(line) for line in kept), encoding="utf-8")
        partial.replace(self.path)

    def append(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which has a `step`."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(_line(line))


class Watch:
    """Keeps the lines of a run, and tells the other writers.

    Args:
        folder: Of the run.
        step: Finished steps; what an earlier process said of later ones is cut off.
        settings: Which other writers there are.
    """

    def __init__(self, folder: Path, step: int, settings: TrainingSettings) -> None:
        self._lines, self._samples = JsonLines(folder / FILE, step), JsonLines(folder / SAMPLES, step)
        self._writers = writers(settings, folder, step)

    def cut(self, step: int) -> None:
        """Forgets the lines of later steps, which a rollback has undone."""
        self._lines.cut(step)
        self._samples.cut(step)

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Adds a step; values that are None are left out."""
        known = {name: value for name, value in values.items() if value is not None}
        self._lines.append({"step": step} | known)
        for writer in self._writers:
            writer.write(step, known)

    def show(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Adds what the model wrote."""
        for sample in samples:
            self._samples.append(sample)

    def close(self) -> None:
        """Has the writers bring everything to where it belongs."""
        for writer in self._writers:
            writer.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a run, up to the first that a kill cut short."""
    lines: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
    return lines


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
