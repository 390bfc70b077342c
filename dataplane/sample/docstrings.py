"""Docstrings read out of Python sources without importing them."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dataplane.sample.code import sources
from dataplane.sample.files import File, Keep, gz, jsonl

MIN_CHARS = 30

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Docstring:
    """What one public name of the standard library says of itself.

    Attributes:
        module: "shutil".
        name: Below the module, "copy" or "Popen.wait".
        arguments: Of a function "(src, dst)", of a class "".
        text: The docstring, unindented.
    """

    module: str
    name: str
    arguments: str
    text: str

    @property
    def key(self) -> str:
        """The full name."""
        return f"{self.module}.{self.name}"


def documented(data: bytes, *, assigned: bool = False) -> Iterator[tuple[str, str, str]]:
    """Name ("" for the module), arguments and docstring of everything public in a module's source.

    Args:
        data: The source; what does not parse yields nothing.
        assigned: Also module variables that hold a docstring for another name (``sin = "..."``).
    """
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return
    head = ast.get_docstring(tree)
    if head:
        yield "", "", head
    yield from _below(tree, "")
    if assigned:
        yield from _assigned(tree)


def _below(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str, str]]:
    for child in node.body:
        if not isinstance(child, _Definition) or child.name.startswith("_"):
            continue
        text = ast.get_docstring(child)
        arguments = "" if isinstance(child, ast.ClassDef) else f"({ast.unparse(child.args)})"
        if text:
            yield prefix + child.name, arguments, text
        if isinstance(child, ast.ClassDef):
            yield from _below(child, f"{prefix}{child.name}.")


def _assigned(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                yield name, "", inspect.cleandoc(text)


@functools.cache
def stdlib() -> tuple[Docstring, ...]:
    """Docstrings of the standard library's public functions, classes and methods, sorted by full name."""
    found: dict[str, Docstring] = {}
    for path, data in sources().items():
        module = re.sub(r"(/__init__)?\.py$", "", path).replace("/", ".")
        if any(part.startswith("_") for part in module.split(".")):
            continue
        for name, arguments, text in documented(data):
            if name and len(text) >= MIN_CHARS:
                found.setdefault(f"{module}.{name}", Docstring(module, name, arguments, text))
    return tuple(found[key] for key in sorted(found))


def files(keep: Keep) -> Iterator[File]:
    """One JSON Lines file, a name with its docstring a record."""
    kept = [each for each in stdlib() if keep(f"docstrings/{each.key}")]
    rows = [{"id": each.key, "text": f"{each.key}{each.arguments}\n\n{each.text}\n", "title": each.key, "lang": "en"} for each in kept]
    yield File("stdlib.jsonl.gz", gz(jsonl(rows)), len(rows))
