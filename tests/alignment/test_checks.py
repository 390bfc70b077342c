"""The reference checks hold, and one that does not is told."""

import contextlib
import json
import math

import pytest
from click.testing import CliRunner

from tests.alignment import checks
from tests.alignment.reference import CHECKS, Check, Outcome


@pytest.mark.slow
def test_every_reference_check_holds_and_is_a_row_of_the_agreed_form() -> None:
    done = CliRunner().invoke(checks.main, ["--json"])
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows if not row["ok"]] == []
    assert done.exit_code == 0
    assert {tuple(row) for row in rows} == {("name", "source", "expected", "got", "tolerance", "ok")}
    assert len(rows) == len(CHECKS) > 20


def test_a_check_that_does_not_hold_or_breaks_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(lab: object) -> Outcome:
        raise ValueError("no such thing")

    some = {
        "off": Check("s", lambda lab: Outcome(1.0, 1.1, 0.05)), "near": Check("s", lambda lab: Outcome(1.0, 1.1, 0.2)),
        "nan": Check("s", lambda lab: Outcome(1.0, math.nan, 9.0)), "broken": Check("s", broken),
        "low": Check("s", lambda lab: Outcome(1.0, 0.9, 0.2, at_least=True)), "high": Check("s", lambda lab: Outcome(1.0, 9.0, 0.2, True)),
    }  # fmt: skip
    monkeypatch.setattr(checks, "CHECKS", some)
    monkeypatch.setattr(checks, "laboratory", lambda: contextlib.nullcontext(None))
    rows = {row["name"]: row for row in checks.run_all()}
    assert {name: row["ok"] for name, row in rows.items()} == {
        "off": False, "near": True, "nan": False, "broken": False, "low": False, "high": True,
    }  # fmt: skip
    assert rows["broken"]["got"] == "ValueError: no such thing"
    assert CliRunner().invoke(checks.main, []).exit_code == 1
