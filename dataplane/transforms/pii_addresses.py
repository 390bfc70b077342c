"""E-mail and internet addresses: the shape by a bounded pattern, the check by the list of public suffixes and by `ipaddress`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dataplane.transforms.pii_look import Found, Look

# RFC 5321, 4.5.3.1: 64 octets before the sign, 255 behind it.
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_+-])?@(?P<host>(?:[A-Za-z0-9-]{1,63}\.){1,8}"
    r"(?:xn--[A-Za-z0-9-]{1,59}|[A-Za-z]{2,24}))(?![A-Za-z0-9-])"
)
# user@host:path is how scp and git name a file.
_REMOTE_PATH = re.compile(r":(?=[A-Za-z0-9_.~/-]*[A-Za-z/])[A-Za-z0-9_.~-]{0,64}/")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?<![0-9A-Za-z.-])(?:{_OCTET}\.){{3}}{_OCTET}(?:/\d{{1,2}})?(?![0-9A-Za-z-]|\.\d)")
_IPV6 = re.compile(
    r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?:%[0-9A-Za-z]{1,15})?(?:/\d{1,3})?"
    r"(?![0-9A-Za-z:]|\.\d)"
)
# "::2" and "1::3" are slices of lists and operators far more often than addresses.
_SLICE = re.compile(r"\d{0,4}::\d{0,4}")
_SCOPE = re.compile("[0-9A-Fa-f]{0,4}::")  # "ab::" is the beginning of a name in C++
# What stands before four numbers with dots that are a version, or behind those of a section.
_VERSION = re.compile(r"(?:\b(?:version|release|build|firmware|ver\.?|v|section|chapter|§)|版本号?|版|第)[ \t:：=]{0,3}$", re.IGNORECASE)
_COMPARED = re.compile(r"(?:[<>~!^]=?|==) ?$")
# Paths of drawings are decimals that need no space between them: "1.52-.87 3.51.98.32 2.03.5".
_DECIMAL_BEFORE, _DECIMAL_AFTER = re.compile(r"\d?\.\d+[ ,-]$"), re.compile(r"[ ,-]-?\d*\.\d")
_SECTION = re.compile(r" ?[章节節条條款]")
_ADDRESS_WORD = re.compile(
    r"\b(?:ip(?:v[46])?|hosts?|servers?|dns|ping|address(?:es)?|gateway|subnet|router|proxy|loopback|localhost|connect(?:ed|ing)?|src|dst|from)\b"
    r"|://$|地址|服务器|伺服器|网关|主机|主機|域名|代理",
    re.IGNORECASE,
)
_NEAR_CHARS = 24
_LOW_OCTET, _MAX_CHAPTER = 31, 7


def emails(look: Look) -> Found:
    """Addresses whose domain ends in a public suffix."""
    for match in _EMAIL.finditer(look.seen):
        if _has_suffix(match["host"].lower()) and not _REMOTE_PATH.match(look.seen, match.end()):
            yield match.span()


@lru_cache(maxsize=1 << 16)
def _has_suffix(host: str) -> bool:
    return bool(_suffixes()(host).suffix)


@lru_cache
def _suffixes() -> Any:
    import tldextract

    # The bundled list of public suffixes; the default would fetch a newer one.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def ips(*, private: bool) -> Callable[[Look], Found]:
    """A finder of addresses; of those, too, that lead nowhere on the internet where `private` is set."""

    def find(look: Look) -> Found:
        for pattern in (_IPV4, _IPV6):
            for match in pattern.finditer(look.seen):
                ip = parse_ip(match[0])
                if ip is not None and (private or ip.is_global) and _is_address(look, *match.span(), public=ip.is_global):
                    yield match.span()

    return find


def _is_address(look: Look, start: int, stop: int, *, public: bool) -> bool:
    before = look.before(start)
    if any(word.search(before) for word in (_VERSION, _COMPARED)) or _SECTION.match(look.said, stop):
        return False
    if _DECIMAL_BEFORE.search(before) and _DECIMAL_AFTER.match(look.said, stop):
        return False
    found = look.said[start:stop]
    if _SCOPE.fullmatch(found):
        return False
    is_slice = _SLICE.fullmatch(found) is not None
    if is_slice or (public and _is_low(found)):
        return (is_slice and look.alone(start, stop)) or _ADDRESS_WORD.search(before.rpartition("\n")[2][-_NEAR_CHARS:]) is not None
    return True


def _is_low(address: str) -> bool:
    """Whether it reads as a version or a section: one public address in 4,000 has small octets alone, other than twice the same."""
    if ":" in address:
        return False
    octets = [int(octet) for octet in address.partition("/")[0].split(".")]
    return max(octets) <= _LOW_OCTET and (len(set(octets)) > 2 or octets[0] <= _MAX_CHAPTER)


def is_public_ip(address: str) -> bool:
    """Whether an address leads somewhere on the internet; what is no address leads nowhere."""
    ip = parse_ip(address)
    return ip is not None and ip.is_global


def parse_ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, an IPv4 one if it is mapped; None for what is none."""
    try:
        ip = ipaddress.ip_interface(address).ip
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip
