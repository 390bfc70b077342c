"""docs/evaluation.md is true: its programs run, its params are taken."""

import re
from pathlib import Path

import pytest
import yaml

from trainplane.errors import SandboxUnavailable
from trainplane.evaluate.params import EvaluateParams
from trainplane.evaluate.sandbox import require_sandbox

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", blocks("python"))
def test_the_programs_of_the_page_run(program: str) -> None:
    if "sandbox" in program:
        try:
            require_sandbox()
        except SandboxUnavailable as error:
            pytest.skip(str(error))
    exec(compile(program, "docs/evaluation.md", "exec"), {})


def test_the_params_of_the_page_are_taken() -> None:
    (params,) = (yaml.safe_load(block)["evaluate"] for block in blocks("yaml"))
    parsed = EvaluateParams.parse(params, where="evaluate")
    assert [task.name for task in (*parsed.written, *parsed.programs)] == ["questions", "functions"]
