"""docs/alignment.md is true of data, fine-tuning and preference: its programs run, its params are taken, its tables name what there is."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from dataplane.sources.chat_layouts import LAYOUTS
from dataplane.sources.files import parse_specs
from dataplane.sources.records import check_formats
from trainplane.align.params import DPOParams, SFTParams

PAGE = (Path(__file__).parents[2] / "docs" / "alignment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def sections(name: str) -> list[Any]:
    return [parsed[name] for parsed in map(yaml.safe_load, blocks("yaml")) if name in parsed]


def first_column(heading: str) -> list[str]:
    """Names in the first column of the table under a heading, those that share a row apart."""
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [name for row in table.splitlines() for name in row.split("|")[1].strip().split(", ")]


@pytest.mark.parametrize("program", [one for one in blocks("python") if "dataplane.conversation" in one])
def test_the_program_of_the_page_runs(program: str) -> None:
    exec(compile(program, "docs/alignment.md", "exec"), {})


def test_the_params_of_the_page_are_taken() -> None:
    (sources,) = sections("sources")
    specs = parse_specs(sources)
    check_formats(specs)
    classes = {"sft": SFTParams, "dpo": DPOParams}
    params = [taken.parse(one, where=stage) for stage, taken in classes.items() for one in sections(stage)]
    assert {name for one in params for name in one.sources} == {spec.name for spec in specs}


def test_the_tables_name_every_layout_method_and_loss() -> None:
    assert first_column("Layout") == list(LAYOUTS)
    assert sorted(first_column("Method")) == sorted(get_args(SFTParams.model_fields["method"].annotation))
    assert first_column("Loss") == list(get_args(DPOParams.model_fields["loss"].annotation))
