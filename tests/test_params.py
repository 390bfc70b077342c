"""Params: every fault at once, with a hint; equal values give equal digests."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from dataplane.errors import ParamsError
from dataplane.params import Params, canonical_json, digest, load_params
from dataplane.settings import load_settings


class Inner(Params):
    share: float = Field(0.5, ge=0, le=1, description="A share.")


class Outer(Params):
    min_words: int = Field(50, ge=0, description="Fewest words.")
    inner: Inner = Field(Inner(), description="Nested.")
    name: str = Field(description="Required.")


def test_a_misspelt_param_is_refused_with_the_right_name() -> None:
    with pytest.raises(ParamsError) as error:
        Outer.parse({"min_word": 5, "name": "x"}, where="select")
    assert error.value.where == "select"
    assert error.value.message == "unknown param 'min_word', did you mean 'min_words'?"
    assert error.value.fix == "edit params.yaml at select"


def test_a_misspelt_nested_param_is_hinted_from_its_own_level() -> None:
    with pytest.raises(ParamsError, match=r"unknown param 'inner\.shares', did you mean 'share'\?"):
        Outer.parse({"name": "x", "inner": {"shares": 0.1}}, where="w")


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ParamsError) as error:
        Outer.parse({"min_words": -1, "inner": {"share": 2}}, where="w")
    assert [part.split(":")[0] for part in error.value.message.split("; ")] == ["min_words", "inner.share", "param 'name' is required"]


@pytest.mark.parametrize("values", [5, "x", [1]])
def test_what_is_no_mapping_is_refused(values: object) -> None:
    with pytest.raises(ParamsError, match="expected a mapping"):
        Outer.parse(values, where="w")  # type: ignore[arg-type]


@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.lists(st.booleans())), max_size=5))
def test_digest_does_not_depend_on_key_order(values: dict) -> None:
    assert digest(values) == digest(dict(reversed(values.items())))
    assert len(digest(values)) == 32


def test_canonical_json_spells_defaults_out() -> None:
    assert canonical_json(Outer(name="中")) == '{"inner":{"share":0.5},"min_words":50,"name":"中"}'


@pytest.mark.parametrize(("text", "message"), [("a: [", "not valid YAML"), ("- 1", "expected a mapping"), ("", "expected a mapping")])
def test_a_broken_params_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(ParamsError, match=message):
        load_params(path)


def test_a_missing_params_file_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="dataplane init"):
        load_params(tmp_path / "params.yaml")


def test_settings_come_from_the_environment_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.yaml").write_text("workers: 3\n")
    monkeypatch.delenv("TERRAPLANE_WORKERS", raising=False)
    assert load_settings(tmp_path).n_workers() == 3
    monkeypatch.setenv("TERRAPLANE_WORKERS", "5")
    assert load_settings(tmp_path).n_workers() == 5
