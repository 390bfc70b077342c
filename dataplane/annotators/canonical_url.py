"""One spelling for each address, and the host and domain that it belongs to.

Two addresses of the same page often differ in what no server looks at: case of the host, default port, fragment, order of the query,
percent-encoding, tags of campaigns, session ids. w3lib knows RFC 3986 and what browsers make of it; the rest is here. Path and trailing
slash are left alone: they can mean another page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pyarrow as pa
from pydantic import Field

from dataplane.operator import Annotator
from dataplane.params import Params as BaseParams

MAX_URL_CHARS = 4096  # longer ones are no address that anybody typed or linked; they get no canonical form
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST_FIRST = re.compile(r"[^\s/?#:@]+\.[^\s/?#:@.]+(?::\d+)?(?=[/?#]|$)")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.?|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")
_SESSION_PATH = re.compile(r";(?:jsessionid|sessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
_HOSTS_CACHED = 1 << 16


class CanonicalUrl(Annotator):
    """Writes the canonical address, its host, and its domain, which is what a registrar sells (or a host of blogs gives away).

    All three are null where the address is none; the domain also where the host is a number or has no known suffix.

    Sources: RFC 3986, section 6; the Public Suffix List, with its private part, as tldextract carries it.
    """

    name, version = "canonical_url", "1"
    reads = {"url": pa.string()}
    writes = {"url": pa.string(), "host": pa.string(), "domain": pa.string()}

    class Params(BaseParams):
        """What makes no difference."""

        same_scheme: bool = Field(True, description="Whether http and https are the same; they become https.")
        drop_www: bool = Field(True, description="Whether `www.` in front of a domain is left out.")
        drop_query: tuple[str, ...] = Field(
            (
                "utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "twclid", "ttclid", "igshid",
                "mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "spm", "scm", "wt_mc", "cmpid", "ref_src", "phpsessid", "jsessionid",
                "sessionid", "aspsessionid*",
            ),
            description="Names of query parameters that are left out, in any case; `*` stands for any end.",
        )  # fmt: skip

    def open(self) -> None:
        """Prepares the names and the suffix list."""
        names = "|".join(re.escape(name).replace(r"\*", ".*") for name in self.params.drop_query)
        self._dropped = re.compile(f"(?:{names})", re.IGNORECASE) if names else None
        self._domain = domain_finder()

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The canonical form of each address, and its parts."""
        urls = [self._canonical(url) if url else None for url in batch.column("url").to_pylist()]
        hosts = [urlsplit(url).hostname if url else None for url in urls]
        columns = {"url": urls, "host": hosts, "domain": [self._domain(host) if host else None for host in hosts]}
        return {name: pa.array(values, pa.string()) for name, values in columns.items()}

    def _canonical(self, url: str) -> str | None:
        from w3lib.url import canonicalize_url

        try:
            parts = _split(url)
            return canonicalize_url(self._plain(parts).geturl(), keep_fragments=True) if parts else None
        except ValueError:  # a host that is no name, a port that is no number
            return None

    def _plain(self, parts: SplitResult) -> SplitResult:
        """The address without what makes no difference."""
        host, given = (parts.hostname or "").rstrip("."), parts.scheme.lower()
        scheme = "https" if self.params.same_scheme and given == "http" else given
        port = "" if parts.port in (None, _DEFAULT_PORTS.get(scheme), _DEFAULT_PORTS.get(given)) else f":{parts.port}"
        if self.params.drop_www and host.startswith("www.") and self._domain(host[4:]):
            host = host[4:]
        host = f"[{host}]" if ":" in host else host
        query = "&".join(pair for pair in parts.query.split("&") if not self._is_dropped(pair.partition("=")[0]))
        # Pages whose address is "#!..." are told apart by it; other fragments are places in one page.
        fragment = parts.fragment if parts.fragment.startswith("!") else ""
        return SplitResult(scheme, host + port, _SESSION_PATH.sub("", parts.path), query, fragment)

    def _is_dropped(self, name: str) -> bool:
        return not name or (self._dropped is not None and self._dropped.fullmatch(name) is not None)


def _split(url: str) -> SplitResult | None:
    """The parts of an address, which may lack its scheme; None where it has no host."""
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        return None
    if url.startswith("//"):
        url = f"https:{url}"
    elif not _SCHEME.match(url) and _HOST_FIRST.match(url):
        url = f"https://{url}"
    parts = urlsplit(url)
    return parts if parts.hostname and _HOST.fullmatch(parts.hostname) else None


@lru_cache
def domain_finder() -> Callable[[str], str | None]:
    """A function from a host to the domain below its public suffix, None where it has none. It looks nothing up on the network."""
    import tldextract

    extract: Any = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)

    @lru_cache(_HOSTS_CACHED)
    def domain_of(host: str) -> str | None:
        return extract(host).top_domain_under_public_suffix or None

    return domain_of
