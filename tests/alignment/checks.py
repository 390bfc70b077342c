"""`python -m tests.alignment.checks [--json]`: the reference checks of alignment, with what was expected and what was found.

Exit code 1 where one fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tests.alignment import policy_checks, tuning_checks
from tests.alignment.reference import CHECKS, Lab

assert policy_checks
assert tuning_checks


@contextlib.contextmanager
def laboratory() -> Iterator[Lab]:
    """A tiny model in a folder that goes away again."""
    from tests.training.conftest import make_pretrained, make_tokenizer
    from trainplane.align import session

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, session.quiet():
        root = Path(folder)
        names = [root / name for name in ("tokenizer", "model", "work")]
        for path in names:
            path.mkdir()
        tokenizer, model, work = names
        try:
            yield Lab(work, make_pretrained(model, make_tokenizer(tokenizer)))
        finally:
            os.chdir(before)


def run_all() -> list[dict[str, Any]]:
    """Every check, as a row."""
    with laboratory() as lab:
        return [check.run(name, lab) for name, check in CHECKS.items()]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(as_json: bool) -> None:
    """Runs the reference checks of alignment."""
    rows = run_all()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        for row in rows:
            click.echo(f"{'ok  ' if row['ok'] else 'FAIL'}  {row['name']}: expected {row['expected']}, got {row['got']}")
    raise SystemExit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
