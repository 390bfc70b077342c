"""pass@k: the chance that one of k programs drawn from a model solves a problem.

Source: Chen et al. 2021, arXiv:2107.03374, section 2.1, equation 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.errors import ParamsError
from trainplane.evaluate.sandbox import PASSED, Limits, run_program


@dataclass(frozen=True)
class Problem:
    """A function to write.

    Attributes:
        id: Of the problem.
        prompt: The program's head, which the model goes on from.
        test: Defines `check`, which takes the function and asserts.
        entry_point: Name of the function.
    """

    id: str
    prompt: str
    test: str
    entry_point: str


def estimate(n: int, correct: int, k: int) -> float:
    """The unbiased estimate 1 - C(n - c, k) / C(n, k), as a product that stays small.

    Args:
        n: Programs drawn.
        correct: Those that solve the problem.
        k: At most n.

    Raises:
        ParamsError: k is above n: fewer programs than k say nothing of k.
    """
    if not 0 < k <= n:
        raise ParamsError(f"pass@{k} needs {k} programs, got {n}", where="pass@k", fix="draw more programs, or lower k")
    if n - correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / place for place in range(n - correct + 1, n + 1))


def solves(problem: Problem, completion: str, limits: Limits | None = None) -> bool:
    """Whether the program passes its test, run shut in.

    Raises:
        SandboxUnavailable: This machine cannot shut a program in.
    """
    program = f"{problem.prompt}{completion}\n{problem.test}\ncheck({problem.entry_point})"
    return run_program(program, limits).verdict == PASSED


def pass_at_k(
    problems: Sequence[Problem], completions: Sequence[Sequence[str]], ks: Sequence[int], limits: Limits | None = None
) -> dict[int, list[float]]:
    """The estimate for each k and problem; each program is run once.

    Args:
        problems: To solve.
        completions: What the model wrote for each.
        ks: Programs that one may try.
        limits: Of each program.

    Raises:
        SandboxUnavailable: This machine cannot shut a program in.
        ParamsError: There are fewer than k programs for a problem.
    """
    counts = [
        (len(written), sum(solves(problem, text, limits) for text in written))
        for problem, written in zip(problems, completions, strict=True)
    ]
    return {k: [estimate(n, correct, k) for n, correct in counts] for k in ks}
