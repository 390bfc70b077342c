"""The licence that an address leads to, or that a few words name, as an SPDX identifier.

Source: the addresses under which the licences are published; https://spdx.org/licenses for the identifiers.
"""

from __future__ import annotations

import re

from dataplane.annotators.licenses import any_version, current

# Ports of Creative Commons licences that SPDX lists beside the international ones.
_CC_PORTS = frozenset(
    """
    BY-2.5-AU BY-3.0-AT BY-3.0-AU BY-3.0-DE BY-3.0-IGO BY-3.0-NL BY-3.0-US BY-NC-3.0-DE BY-NC-ND-3.0-DE BY-NC-ND-3.0-IGO BY-NC-SA-2.0-DE
    BY-NC-SA-2.0-FR BY-NC-SA-2.0-UK BY-NC-SA-3.0-DE BY-NC-SA-3.0-IGO BY-ND-3.0-DE BY-SA-2.0-UK BY-SA-2.1-JP BY-SA-3.0-AT BY-SA-3.0-DE
    BY-SA-3.0-IGO
    """.split()  # noqa: SIM905 -- a list of words
)
_CC_VERSIONS = ("1.0", "2.0", "2.1", "2.5", "3.0", "4.0")
_CC_KINDS = frozenset({"by", "by-nc", "by-nc-nd", "by-nc-sa", "by-nd", "by-sa"})
_CC_URL = re.compile(r"creativecommons\.org/licen[cs]es/([a-z-]{2,12})(?:/(\d\.\d)(?:/([a-z]{2,4})\b)?)?", re.IGNORECASE)
_CC_NAME = re.compile(
    r"\bCC[ -]?(BY(?:[ -](?:NC|SA|ND)){0,2})(?:[ -]v?(\d\.\d))?\b|"
    r"Creative Commons (Attribution(?:[ -](?:Non-?Commercial|Share-?Alike|No-?Deriv(?:ative)?s)){0,2})(?: [a-z]{1,20}){0,2}? (\d\.\d)",
    re.IGNORECASE,
)  # fmt: skip
_CC_WORDS = {"attribution": "by", "noncommercial": "nc", "sharealike": "sa", "noderivs": "nd", "noderivatives": "nd"}
# Address of a licence -> identifier; the more special first.
_ADDRESSES = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"creativecommons\.org/publicdomain/zero/1\.0", "CC0-1.0"),
        (r"creativecommons\.org/publicdomain/mark/1\.0", "CC-PDM-1.0"),
        (r"apache\.org/licenses/LICENSE-2\.0", "Apache-2.0"),
        (r"mozilla\.org/(?:en-US/)?MPL/2\.0", "MPL-2.0"),
        (r"opendatacommons\.org/licenses/odbl", "ODbL-1.0"),
        (r"opendatacommons\.org/licenses/by", "ODC-By-1.0"),
        (r"opendatacommons\.org/licenses/pddl", "PDDL-1.0"),
        (r"nationalarchives\.gov\.uk/doc/open-government-licence/version/1", "OGL-UK-1.0"),
        (r"nationalarchives\.gov\.uk/doc/open-government-licence/version/2", "OGL-UK-2.0"),
        (r"nationalarchives\.gov\.uk/doc/open-government-licence", "OGL-UK-3.0"),
        (r"etalab\.gouv\.fr/licence-ouverte", "etalab-2.0"),
        (r"artlibre\.org/licence/lal", "LAL-1.3"),
        (r"unlicense\.org", "Unlicense"),
        (r"wtfpl\.net", "WTFPL"),
        (r"boost\.org/LICENSE_1_0", "BSL-1.0"),
    )
)
_GNU_URL = re.compile(r"gnu\.org/(?:licenses|copyleft)/(?:old-licenses/)?(agpl|lgpl|gpl|fdl)(?:-(\d(?:\.\d)?))?", re.IGNORECASE)
_LISTED_URL = re.compile(r"(?:opensource\.org/licen[cs]es?|spdx\.org/licenses)/([A-Za-z0-9.+-]{2,40})", re.IGNORECASE)
# How those sites spell what SPDX spells otherwise.
_LISTED = {
    name.lower(): name
    for name in """
    Apache-2.0 MIT MIT-0 BSD-2-Clause BSD-3-Clause BSD-4-Clause 0BSD ISC MPL-1.1 MPL-2.0 EPL-1.0 EPL-2.0 CDDL-1.0 BSL-1.0 Zlib Artistic-2.0
    Unlicense AFL-3.0 OSL-3.0 EUPL-1.1 EUPL-1.2 NCSA PostgreSQL Python-2.0 OFL-1.1 MS-PL MS-RL UPL-1.0 ECL-2.0 CC0-1.0 CC-PDM-1.0 ODbL-1.0
    GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later
    AGPL-3.0-only AGPL-3.0-or-later GFDL-1.2-or-later GFDL-1.3-or-later
    """.split()  # noqa: SIM905 -- a list of words
} | {"mit-license": "MIT", "apache2.0": "Apache-2.0", "bsd-license": "BSD-2-Clause", "gpl-license": "GPL-1.0-or-later"}  # fmt: skip


def license_of_url(url: str) -> str | None:
    """SPDX identifier of the licence at an address, None where it is none that is known."""
    if found := _CC_URL.search(url):
        return _creative_commons(found[1], found[2], found[3])
    for pattern, name in _ADDRESSES:
        if pattern.search(url):
            return name
    if found := _GNU_URL.search(url):
        return _gnu_url(found[1].upper(), found[2])
    found = _LISTED_URL.search(url)
    return _listed(found[1]) if found else None


def _gnu_url(family: str, version: str | None) -> str | None:
    family = "GFDL" if family == "FDL" else family
    if version is None:
        return any_version(family)
    name = f"{family}-{version if '.' in version else version + '.0'}"
    return now if (now := current(name)) != name else None


def _listed(name: str) -> str | None:
    bare = re.sub(r"\.(?:php|html?|txt|json)$", "", name, flags=re.IGNORECASE)
    now = current(bare.upper())
    return _LISTED.get(bare.lower()) or (now if now != bare.upper() else None)


def license_of_words(text: str) -> str | None:
    """SPDX identifier of a licence that is named in a few words or by its address, as metadata do: CC BY-SA 4.0."""
    if (by_address := license_of_url(text)) is not None:
        return by_address
    if found := _CC_NAME.search(text):
        words = re.sub(r"non-?commercial", "noncommercial", (found[1] or found[3]).lower())
        words = re.sub(r"share-?alike", "sharealike", words)
        words = re.sub(r"no-?deriv(?:ative)?s", "noderivs", words)
        kind = "-".join(_CC_WORDS.get(word, word) for word in re.split(r"[ -]", words))
        return _creative_commons(kind, found[2] or found[4], None)
    return _LISTED.get(text.strip().lower())


def _creative_commons(kind: str, version: str | None, port: str | None) -> str | None:
    """The identifier of a Creative Commons licence; a link without a version leads to the current one."""
    kind = {"by-nd-nc": "by-nc-nd", "by-sa-nc": "by-nc-sa"}.get(kind.lower(), kind.lower())
    version = version or _CC_VERSIONS[-1]
    if kind not in _CC_KINDS or version not in _CC_VERSIONS:
        return None
    name = f"{kind.upper()}-{version}"
    ported = f"{name}-{port.upper()}" if port else ""
    return f"CC-{ported if ported in _CC_PORTS else name}"
