"""What the model writes while it learns: the same prompts every so many steps, one line of JSON for each.

What is drawn is a function of (seed, step, prompt) and the weights, so a run that was resumed writes what an undisturbed one writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainplane.data.packed import batch_of_documents
from trainplane.params import SampleParams
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.ranks import broadcast

SEED_BYTES = 8


@dataclass(frozen=True)
class Sampler:
    """Writes samples.

    Args:
        params: What to go on from, and how far.
        tokenizer: Of the model.
        length: Most tokens that the model takes.
        seed: Of the run.
    """

    params: SampleParams
    tokenizer: Any
    length: int
    seed: int

    def write(self, engine: Engine, step: int) -> list[dict[str, Any]]:
        """A sample of each prompt: step, prompt, text. Every rank has to ask."""
        eos, room = self.tokenizer.eos_token_id, max(1, self.length - self.params.tokens)
        starts = [[eos, *self.tokenizer.encode(prompt, add_special_tokens=False)][:room] for prompt in self.params.prompts]
        rows = self._go_on(engine, step, starts)
        return [
            {"step": step, "prompt": prompt, "text": self.tokenizer.decode(row[len(start) :], skip_special_tokens=True)}
            for prompt, start, row in zip(self.params.prompts, starts, rows, strict=True)
        ]

    def _go_on(self, engine: Engine, step: int, starts: Sequence[Sequence[int]]) -> list[list[int]]:
        rows, eos = [list(start) for start in starts], self.tokenizer.eos_token_id
        draws = [_generator(self.seed, step, number) for number in range(len(rows))]
        over = [False] * len(rows)
        while not all(over):
            logits_BTV = engine.logits(batch_of_documents(rows, eos))
            drawn = [_draw(logits_BTV[i, len(row) - 1], self.params.temperature, draws[i]) for i, row in enumerate(rows)]
            for i, token in enumerate(broadcast(drawn)):
                if not over[i]:
                    rows[i].append(token)
                    over[i] = token == eos or len(rows[i]) >= min(self.length, len(starts[i]) + self.params.tokens)
        return rows


def _generator(seed: int, step: int, number: int) -> np.random.Generator:
    key = hashlib.sha256(f"sample {number} of seed {seed}, step {step}".encode()).digest()[:SEED_BYTES]
    return np.random.default_rng(int.from_bytes(key, "big"))


def _draw(logits_V: Any, temperature: float, draw: np.random.Generator) -> int:
    scores = logits_V.double().cpu().numpy()
    if not temperature:
        return int(scores.argmax())
    # The largest of the scores with Gumbel noise is a draw from their softmax.
    return int((scores / temperature + draw.gumbel(size=len(scores))).argmax())
