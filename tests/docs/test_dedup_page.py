"""docs/dedup.md shows the params as they are, with what they are by default."""

import re
from pathlib import Path

import yaml

from dataplane.corpus.dedup_params import DedupParams

PAGE = Path(__file__).parents[2] / "docs" / "dedup.md"
BLOCKS = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]


def test_the_params_that_the_page_shows_are_the_defaults() -> None:
    shown = DedupParams.parse(BLOCKS[0]["dedup"], where="dedup")
    assert shown == DedupParams.parse({}, where="dedup")
    assert set(BLOCKS[0]["dedup"]) == set(DedupParams.model_fields)


def test_the_survivors_that_the_page_shows_can_be_asked_for() -> None:
    asked = DedupParams.parse(BLOCKS[1], where="dedup")
    assert [criterion.by for criterion in asked.survivor] == ["source", "quality_model.score", "fetched_at"]
