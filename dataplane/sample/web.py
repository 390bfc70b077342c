"""Pages that pydoc renders of the standard library, with navigation around them, as a crawl in a WARC file."""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import json
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault
from dataplane.sample import code, packages
from dataplane.sample.files import File, Keep, gz

SCRIPT = Path(__file__).with_name("pydoc_pages.py")
TIMEOUT_SECONDS = 120
# A crawl has one time; this is the release of Python 3.11.
CRAWLED_AT = "2022-10-24T00:00:00Z"
SITE = "https://pydoc.example"
MAX_PAGE_BYTES = 250_000
# What opens a window or a browser when imported or changes the interpreter; and pages longer than MAX_PAGE_BYTES.
SKIPPED = frozenset(
    {
        "antigravity",
        "ast",
        "asyncio",
        "builtins",
        "mailbox",
        "idlelib",
        "rlcompleter",
        "site",
        "test",
        "this",
        "tkinter",
        "turtle",
        "turtledemo",
    }
)
PACKAGES_IN_DEPTH = (
    "collections",
    "concurrent",
    "email",
    "html",
    "http",
    "importlib",
    "json",
    "logging",
    "unittest",
    "urllib",
    "wsgiref",
    "xml",
)

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Pydoc: {title}</title>
</head>
<body>
<div class="navbar" style='float:left'>
Python {version}<br>
<a href="/{version}/index.html">Module Index</a> : <a href="/{version}/topics.html">Topics</a> :
<a href="/{version}/keywords.html">Keywords</a>
</div>
<div style='float:right'>
<form action="get" style='display:inline;'><input type="text" name="key" size="15"><input type="submit" value="Get"></form>
<form action="search" style='display:inline;'><input type="text" name="key" size="15"><input type="submit" value="Search"></form>
</div>
<div class="sidebar">
<h3>See also</h3>
<ul>
{links}
</ul>
</div>
<div style="clear:both;padding-top:.5em;">
{body}
</div>
<div class="footer">
<a href="{previous}">previous</a> | <a href="{following}">next</a> | <a href="#top">back to top</a><br>
Copyright &copy; 2001-2022 Python Software Foundation. All rights reserved. Report a bug to docs@python.org.
</div>
</body>
</html>
"""


def modules() -> list[str]:
    """Public modules of the standard library that are safe to import, and submodules of the main packages."""
    top = {name for name in sys.stdlib_module_names if not name.startswith("_")} - SKIPPED
    below = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in code.sources()
        if path.startswith(PACKAGES_IN_DEPTH)
    }
    return sorted(
        (top | {name for name in below if "._" not in name and name.partition(".")[0] in PACKAGES_IN_DEPTH}) - code.SKIPPED_FOLDERS
    )


def topics() -> list[str]:
    """Topics of the language reference, read out of pydoc's data without importing it."""
    source = Path(sysconfig.get_path("stdlib"), "pydoc_data", "topics.py").read_bytes()
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="topics")], value=ast.Dict(keys=keys)):
                return sorted(str(key.value) for key in keys if isinstance(key, ast.Constant))
    return []


def rendered(wanted: dict[str, list[str]]) -> list[dict[str, str]]:
    """Pages of pydoc, from a process of its own: nothing it imports can touch this one.

    Raises:
        EnvironmentFault: The process fails or takes too long.
    """
    # No site-packages, one hash seed, one locale: the same pages in every environment with this Python.
    command = [sys.executable, "-S", "-W", "ignore", str(SCRIPT)]
    environment = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "80"}
    try:
        done = subprocess.run(
            command, input=json.dumps(wanted).encode(), env=environment, capture_output=True, check=True, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()[-1:]
        raise EnvironmentFault(
            f"pydoc could not render the standard library: {error} {' '.join(said)}".strip(),
            where="sample",
            fix="use a complete Python 3.11 or 3.12, or leave the kind web out of sample.kinds",
        ) from None
    return [json.loads(line) for line in done.stdout.splitlines()]


def files(keep: Keep) -> Iterator[File]:
    """One WARC file, a gzip member a record."""
    wanted = {
        "modules": [name for name in modules() if keep(f"web/{name}")],
        "topics": [name for name in topics() if keep(f"web/topic/{name}")],
    }
    pages = rendered(wanted)
    names = [page["name"] for page in pages]
    records = [gz(_warc_record("warcinfo", "", b"software: terraplane sample\r\nformat: WARC File Format 1.1\r\n"))]
    for position, page in enumerate(pages):
        document = _around(page, names, position)
        if len(document) <= MAX_PAGE_BYTES:
            records.append(gz(_warc_record("response", _url(page["name"]), _http(document))))
    yield File("pages.warc.gz", b"".join(records), len(records) - 1)


def _url(name: str) -> str:
    return f"{SITE}/{packages.stdlib_version()}/{name}"


def _around(page: dict[str, str], names: list[str], position: int) -> bytes:
    """The page with what every page of a site has: a bar, a list of links, a footer."""
    nearby = [name for name in names[max(0, position - 5) : position + 6] if name != page["name"]]
    links = "\n".join(f'<li><a href="{_url(name)}">{html.escape(name.removesuffix(".html"))}</a></li>' for name in nearby)
    return PAGE.format(
        title=html.escape(page["title"]),
        version=packages.stdlib_version(),
        links=links,
        body=page["html"],
        previous=_url(names[position - 1]),
        following=_url(names[(position + 1) % len(names)]),
    ).encode()


def _http(document: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(document)}\r\n\r\n"
    return head.encode() + document


def _warc_record(kind: str, url: str, block: bytes) -> bytes:
    """One record; its id and digest come from its content. Source: WARC 1.1, ISO 28500:2017, sections 4 and 5."""
    digest = base64.b32encode(hashlib.sha1(block, usedforsecurity=False).digest()).decode()
    fields: dict[str, Any] = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, url + digest)}>",
        "WARC-Date": CRAWLED_AT,
        "WARC-Block-Digest": f"sha1:{digest}",
    }
    if url:
        fields["WARC-Target-URI"] = url
    fields["Content-Type"] = "application/http; msgtype=response" if kind == "response" else "application/warc-fields"
    fields["Content-Length"] = len(block)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"WARC/1.1\r\n{head}\r\n".encode() + block + b"\r\n\r\n"
