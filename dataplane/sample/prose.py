"""READMEs in the METADATA of installed distributions: technical prose with addresses, badges and licence texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution

from dataplane.sample import packages
from dataplane.sample.files import File, Keep, jsonl


def license_of(installed: Distribution) -> str:
    """The licence that a distribution states, "unknown" where it is silent; a whole licence text is cut to its first line."""
    fields = installed.metadata.json
    stated = str(fields.get("license_expression") or fields.get("license") or "")
    classifiers = [each for each in fields.get("classifier") or [] if each.startswith("License ::")]
    return stated.strip().partition("\n")[0] or (classifiers[0].rpartition(":: ")[2] if classifiers else "unknown")


def files(keep: Keep) -> Iterator[File]:
    """One Markdown file a distribution, and their licences in a file of JSON Lines that no source reads."""
    licenses = []
    for installed, description in packages.readmes():
        name = re.sub(r"[^a-z0-9]+", "-", str(installed.metadata["Name"]).lower())
        if keep(f"readmes/{name}"):
            licenses.append({"file": f"{name}.md", "version": installed.version, "license": license_of(installed)})
            yield File(f"{name}.md", (description.strip() + "\n").encode("utf-8", "replace"), 1)
    yield File("licenses.jsonl", jsonl(licenses), 0)
