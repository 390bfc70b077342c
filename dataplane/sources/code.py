"""Source code trees: a file is a document; its language goes by its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import Field

from dataplane.params import Params as BaseParams
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import read_all, read_range

MAX_FILE_BYTES = 16 << 20
SNIFF_BYTES = 8192

LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".pyx": "Cython", ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++",
    ".hh": "C++", ".cu": "CUDA", ".java": "Java", ".kt": "Kotlin", ".scala": "Scala", ".go": "Go", ".rs": "Rust", ".js": "JavaScript",
    ".mjs": "JavaScript", ".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".rb": "Ruby", ".php": "PHP", ".cs": "C#",
    ".fs": "F#", ".swift": "Swift", ".m": "Objective-C", ".r": "R", ".jl": "Julia", ".lua": "Lua", ".pl": "Perl", ".pm": "Perl",
    ".sh": "Shell", ".bash": "Shell", ".zsh": "Shell", ".ps1": "PowerShell", ".sql": "SQL", ".hs": "Haskell", ".ml": "OCaml",
    ".ex": "Elixir",
    ".exs": "Elixir", ".erl": "Erlang", ".clj": "Clojure", ".lisp": "Lisp", ".el": "Emacs Lisp", ".vim": "Vim script", ".dart": "Dart",
    ".zig": "Zig", ".nim": "Nim", ".f90": "Fortran", ".f": "Fortran", ".asm": "Assembly", ".s": "Assembly", ".v": "Verilog", ".vhd": "VHDL",
    ".proto": "Protocol Buffers", ".css": "CSS", ".scss": "SCSS", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".ini": "INI",
    ".cfg": "INI", ".cmake": "CMake", ".gradle": "Gradle", ".tf": "HCL",
}  # fmt: skip
NAMES = {"makefile": "Makefile", "dockerfile": "Dockerfile", "cmakelists.txt": "CMake"}


def language_of(name: str) -> str | None:
    """The programming language that a file name says, None where it says none."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base in NAMES:
        return NAMES[base]
    _, dot, suffix = base.rpartition(".")
    return LANGUAGES.get(f".{suffix}") if dot else None


class Code(Source):
    """Reads source files; binary files and files of no known language are faults that say so.

    Source: endings of file names as the languages' own documentation gives them.
    """

    name = "code"
    suffixes = tuple(LANGUAGES)

    class Params(BaseParams):
        """Options of source code."""

        max_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Largest file.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record."""
        language = language_of(name)
        if language is None:
            yield Fault(0, "UnknownLanguage", f"{name!r} has no ending of a known programming language")
            return
        data = read_all(stream, self.params.max_bytes)
        if isinstance(data, Fault):
            yield data
        elif b"\0" in data[:SNIFF_BYTES]:
            yield Fault(0, "Binary", "the file holds NUL bytes")
        elif data:
            yield Record(data, 0, len(data), mime="text/x-source", meta={"path": name, "programming_language": language})

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The bytes at the locator are the payload."""
        return read_range(stream, offset, length)
