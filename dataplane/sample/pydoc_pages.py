"""Renders pydoc pages as JSON Lines on standard output. Run as a script of its own, since pydoc imports what it documents.

Standard input: JSON, {"modules": [...], "topics": [...]}; output: {"name", "title", "html"}, an object a line.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import os
import pydoc
import re
import sys
from collections.abc import Iterator
from typing import Any

_ADDRESS = re.compile(r"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9A-Fa-f]+")
_FILE_LINK = re.compile(r'<a href="file:[^"]*">([^<]*)</a>')
_LIBRARY = os.path.dirname(os.__file__)
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Pages(pydoc.HTMLDoc):
    """pydoc's pages without values: an environment, a path or a library's version differs between machines."""

    def docother(self, object: Any, name: str | None = None, mod: Any = None, *ignored: Any) -> str:
        """A variable as its name and type; whole numbers with their value."""
        shown = repr(object) if type(object) in (bool, int) else type(object).__name__
        return f"<strong>{html.escape(name or '')}</strong> = {html.escape(shown)}"


def module_page(name: str) -> tuple[str, str] | None:
    """Title and body of a module's page; None where this platform has no such module."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return f"Python: module {name}", _portable(Pages().document(module, name))


def topic_page(topic: str, topics: dict[str, str]) -> tuple[str, str]:
    """Title and body of a page of the language reference."""
    body = f'<table class="section"><tr class="decor heading-decor"><td>{topic}</td></tr></table>\n'
    return f"Topic: {topic}", f"{body}<pre>{html.escape(topics[topic])}</pre>\n"


def _portable(body: str) -> str:
    """A page without addresses in memory and without paths of this machine."""
    body = _FILE_LINK.sub(lambda link: _source_link(link[1]), _ADDRESS.sub("", body))
    for path, shown in ((_LIBRARY, "Lib"), (sys.executable, "python"), (sys.prefix, "PREFIX"), (sys.base_prefix, "PREFIX")):
        body = body.replace(path, shown) if path not in ("", "/", "/usr") else body
    return body


def _source_link(path: str) -> str:
    inside = path.removeprefix(_LIBRARY).lstrip("/\\")
    if path == inside or "lib-dynload" in inside:
        return "(built-in)"
    return f'<a href="https://github.com/python/cpython/blob/{_VERSION}/Lib/{inside}">Lib/{inside}</a>'


def pages(wanted: dict[str, Any]) -> Iterator[dict[str, str]]:
    """All wanted pages that can be rendered, in the order asked."""
    for name in wanted["modules"]:
        rendered = module_page(name)
        if rendered:
            yield {"name": f"{name}.html", "title": rendered[0], "html": rendered[1]}
    topics = importlib.import_module("pydoc_data.topics").topics
    for topic in wanted["topics"]:
        title, body = topic_page(topic, topics)
        yield {"name": f"topic/{topic}.html", "title": title, "html": body}


def main() -> None:
    """Writes the pages; whatever an imported module prints is swallowed."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with output, open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        for page in pages(json.load(sys.stdin)):
            output.write(json.dumps(page, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
