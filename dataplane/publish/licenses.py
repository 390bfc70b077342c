"""Licences as others name them: params.yaml has SPDX expressions, the Hugging Face Hub has identifiers of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable

UNKNOWN = "unknown"
OTHER = "other"
# What the Hub accepts in `license:` of a card. Source: huggingface.co/docs/hub/repositories-licenses.
HUB_LICENSES = frozenset(
    """
    apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 bigcode-openrail-m afl-3.0
    artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0
    cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0
    eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl osl-3.0
    postgresql ofl-1.1 ncsa unlicense zlib pddl unknown other
    """.split()  # noqa: SIM905 -- a list of words
)
_OPERATOR = re.compile(r"\s+(?:AND|OR|WITH)\s+|[()]", re.IGNORECASE)
_SUFFIX = re.compile(r"-(?:only|or-later)$|(?<=^gfdl)-1\.[123]$|(?<=^odbl)-1\.0$|(?<=^odc-by)-1\.0$|(?<=^pddl)-1\.0$")


def hub_licenses(expressions: Iterable[str]) -> list[str]:
    """What to write under `license:`; `other` for what the Hub has no identifier for."""
    parts = {part.strip().lower() for expression in expressions for part in _OPERATOR.split(expression) if part.strip()}
    return sorted({_hub_license(part) for part in parts}) or [UNKNOWN]


def _hub_license(identifier: str) -> str:
    while (shorter := _SUFFIX.sub("", identifier)) != identifier:
        identifier = shorter
    return identifier if identifier in HUB_LICENSES else OTHER


def license_url(expression: str) -> str:
    """Where a licence's text is; the expression itself where SPDX lists no such identifier."""
    if expression == UNKNOWN or not re.fullmatch(r"[A-Za-z0-9.+-]+", expression) or expression.startswith("LicenseRef-"):
        return expression
    return f"https://spdx.org/licenses/{expression}"
