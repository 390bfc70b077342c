"""What operators share that run a model of transformers out of a local folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from dataplane.errors import EnvironmentFault


def device(wanted: Literal["auto", "cpu", "cuda"], where: str) -> Any:
    """The torch.device that a model runs on; auto takes a GPU where there is one.

    Raises:
        EnvironmentFault: There is no GPU where one is asked for.
    """
    import torch

    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise EnvironmentFault("there is no GPU", where=where, fix="set it to auto or cpu")
    return torch.device("cuda" if wanted != "cpu" and there else "cpu")


@contextmanager
def quiet() -> Iterator[None]:
    """Has a model loaded or saved without telling of it: a stage's stderr is for what a person has to know.

    There is no progress bar, and no report of weights that are not needed, as those of a pooler for vectors.
    """
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
