"""Which programming language a file is written in: by its name, and where several share the ending, by its text.

Endings are those of Pygments; languages are called as GitHub's Linguist calls them, since published rule sets name them so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

MAX_CHARS = 50_000  # of a text that are looked at where its name leaves a choice
MIME = "text/x-"

# Pygments' name -> Linguist's, where they differ.
RENAMED = {
    "Bash": "Shell", "Groff": "Roff", "Docker": "Dockerfile", "VimL": "Vim Script", "EmacsLisp": "Emacs Lisp", "GAS": "Assembly",
    "NASM": "Assembly", "TASM": "Assembly", "ca65 assembler": "Assembly", "verilog": "Verilog", "vhdl": "VHDL", "CUDA": "Cuda",
    "systemverilog": "SystemVerilog", "Matlab": "MATLAB", "Octave": "MATLAB", "Perl6": "Raku",
    "VB.net": "Visual Basic .NET", "Terraform": "HCL", "Mathematica": "Wolfram Language", "FortranFixed": "Fortran", "S": "R",
    "autohotkey": "AutoHotkey", "COBOLFree": "COBOL", "Java Server Page": "Java Server Pages", "Web IDL": "WebIDL", "Nimrod": "Nim",
    "Properties": "Java Properties", "Transact-SQL": "TSQL", "Delphi": "Pascal", "Graphviz": "Graphviz (DOT)", "FStar": "F*",
    "Arduino": "C++", "LessCss": "Less", "JSX": "JavaScript", "REBOL": "Rebol", "Snobol": "SNOBOL", "ODIN": "ADL",
    "OMG Interface Definition Language": "IDL", "liquid": "Liquid", "Text only": "Text",
    "WebGPU Shading Language": "WGSL", "Relax-NG Compact": "RELAX NG Compact Syntax", "Org Mode": "Org", "PkgConfig": "INI",
    "RHTML": "HTML+ERB", "GoogleSQL": "SQL", "Lean4": "Lean 4", "BBC Basic": "BASIC", "MIPS": "Assembly",
    "CBM BASIC V2": "BASIC", "QBasic": "BASIC", "ActionScript 3": "ActionScript", "aspx-cs": "ASP.NET", "aspx-vb": "ASP.NET",
    "MQL": "MQL5", "QVTO": "QVT-O", "POVRay": "POV-Ray SDL", "Coldfusion CFC": "ColdFusion CFC", "Coldfusion HTML": "ColdFusion",
    "teal": "Teal", "Ragel in C Host": "Ragel", "Bdd": "Gherkin",
}  # fmt: skip
# What a program put out rather than what a person wrote; and layouts that read as one only by chance.
NO_SOURCE = re.compile(
    r"session|console|traceback|\blogs?$|objdump|armored|e-mail|diff|patch|gettext|explain|^tap$|sqlite3con|smartgame|warcraft|termcap|"
    r"terminfo|^zone$|^reg$|ldif|todotxt|tiddler|g-code|xorg|\+ul4|typographic",
    re.IGNORECASE,
)
# The language of an ending that several share, where the text says nothing.
PREFERRED = {
    ".h": "C", ".c": "C", ".hh": "C++", ".m": "Objective-C", ".mm": "Objective-C++", ".pl": "Perl", ".pm": "Perl", ".t": "Perl",
    ".v": "Verilog", ".fs": "F#", ".r": "R", ".s": "Assembly", ".asm": "Assembly", ".sql": "SQL", ".cl": "Common Lisp", ".pro": "Prolog",
    ".gd": "GDScript", ".sc": "Scala", ".as": "ActionScript", ".inc": "PHP", ".bas": "BASIC", ".cp": "C++", ".xsl": "XSLT", ".xslt": "XSLT",
    ".lean": "Lean 4", ".mac": "Maxima", ".g": "ANTLR", ".ttl": "Turtle", ".scd": "SuperCollider", ".prolog": "Prolog", ".inf": "INI",
    ".lisp": "Common Lisp", ".gradle": "Gradle", ".ini": "INI", ".cfg": "INI", ".ecl": "ECL", ".rl": "Ragel", ".f": "Fortran", ".d": "D",
    ".cls": "TeX", ".ts": "TypeScript", ".php": "PHP", ".b": "Brainfuck", ".i": "SWIG", ".p": "OpenEdge ABL", ".n": "Nemerle",
    ".j": "Objective-J", ".tst": "GAP", ".def": "Modula-2", ".bug": "BUGS", ".u": "UrbiScript", ".mi": "Mason", ".toc": "TeX",
}  # fmt: skip
NAMES = {
    "makefile": "Makefile", "gnumakefile": "Makefile", "dockerfile": "Dockerfile", "cmakelists.txt": "CMake", "rakefile": "Ruby",
    "gemfile": "Ruby", "vagrantfile": "Ruby", "sconstruct": "Python", "sconscript": "Python", "build.bazel": "Starlark",
    "meson.build": "Meson", "jenkinsfile": "Groovy", "procfile": "Procfile", "pkgbuild": "Shell", ".bashrc": "Shell", ".zshrc": "Shell",
    ".vimrc": "Vim Script", "pipfile": "TOML", "poetry.lock": "TOML", "cargo.lock": "TOML", "containerfile": "Dockerfile",
}  # fmt: skip
# What Pygments does not know.
MORE_ENDINGS = {
    ".cls": "TeX", ".gradle": "Gradle", ".wat": "WebAssembly", ".smt2": "SMT", ".owl": "Web Ontology Language", ".glsl": "GLSL",
    ".x68": "Motorola 68K Assembly", ".mts": "TypeScript", ".cts": "TypeScript", ".svelte": "Svelte", ".astro": "Astro",
    ".star": "Starlark", ".psd1": "PowerShell", ".inl": "C++", ".sbt": "Scala", ".edn": "edn", ".nims": "Nim", ".nimble": "Nim",
    ".j2": "Jinja", ".ejs": "EJS", ".erb": "HTML+ERB", ".styl": "Stylus", ".prisma": "Prisma", ".bats": "Shell", ".metal": "Metal",
    ".comp": "GLSL", ".dhall": "Dhall", ".move": "Move", ".cairo": "Cairo", ".tfvars": "HCL", ".nomad": "HCL", ".cue": "CUE",
    ".jsonc": "JSON with Comments", ".shader": "ShaderLab", ".f08": "Fortran", ".f77": "Fortran", ".for": "Fortran", ".f95": "Fortran",
    ".pod": "Pod", ".lpr": "Pascal", ".pls": "PLSQL", ".gql": "GraphQL", ".fbs": "FlatBuffers", ".y": "Yacc", ".yy": "Yacc", ".l": "Lex",
}  # fmt: skip


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.MULTILINE)


OBJECTIVE_C = _any(
    r"^[ \t]*@(?:interface|implementation|protocol|class|property|import|end)\b", r"^[ \t]*#[ \t]*import\b", r"@autoreleasepool\b"
)
ASSEMBLY_68K = _any(r"(?i:^[ \t]+(?:move[aqm]?|lea|jsr|clr|tst)(?:\.[bwl])?[ \t]+[^\n]{0,40}\b[ad][0-7]\b)")
# Ending -> marks of the languages that share it, the most telling first. Source: the definitions of the languages.
MARKS: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    ".h": (
        (OBJECTIVE_C, "Objective-C"),
        (
            _any(
                r"^[ \t]*#[ \t]*include[ \t]*<(?:c(?:stdint|stdio|stdlib|string|math|assert|stddef)|string|vector|map|memory|iostream|"
                r"algorithm|utility|functional|set|list|array|type_traits|unordered_map|optional|atomic|mutex|thread|chrono)>",
                r"^[ \t]*(?:template[ \t]*<|namespace\b[ \t\w:]{0,80}\{|class[ \t]+\w+[ \t\w]{0,60}(?:[{:;]|$))",
                r"^[ \t]*(?:public|private|protected)[ \t]*:",
                r"^[ \t]*using[ \t]+(?:namespace[ \t]|\w+[ \t]*=|[\w:]+;)|\bstd::|\b(?:constexpr|nullptr|static_cast|noexcept|decltype)\b",
            ),
            "C++",
        ),
    ),
    ".m": (
        (OBJECTIVE_C, "Objective-C"),
        (_any(r"^:- (?:module|interface|implementation)\b"), "Mercury"),
        (_any(r"^\(\*", r"^[ \t]*(?:BeginPackage|Begin|Get|Needs)\["), "Wolfram Language"),
        (
            _any(r"^[ \t]*(?:function|classdef|clear|clc|close all|hold on|figure|end)\b", r"^[ \t]*%", r"\.\.\.[ \t]*$"),
            "MATLAB",
        ),
    ),
    ".pl": (
        (_any(r"^[ \t]*use[ \t]+v6\b", r"^[ \t]*(?:multi|role|grammar|my[ \t]+class)[ \t]+\w"), "Raku"),
        (_any(r"^#![^\n]{0,80}perl", r"^[ \t]*(?:use[ \t]+[\w:.]+|package[ \t]+\w|my[ \t]+[$@%(]|sub[ \t]+\w|require[ \t]+\w)"), "Perl"),
        (_any(r"^[a-z]\w*(?:\([^\n()]{0,200}\))?[ \t]*:-", r"^:-[ \t]*\w"), "Prolog"),
    ),
    ".pm": ((_any(r"^[ \t]*use[ \t]+v6\b", r"^[ \t]*(?:multi|role|grammar|unit)[ \t]+\w"), "Raku"),),
    ".t": ((_any(r"^[ \t]*use[ \t]+v6\b", r"^[ \t]*(?:multi|role|grammar|unit)[ \t]+\w"), "Raku"),),
    ".v": (
        (_any(r"^[ \t]*(?:Require|From|Theorem|Lemma|Proof|Qed|Inductive|Fixpoint|Definition|Section)\b"), "Rocq Prover"),
        (_any(r"^[ \t]*(?:pub[ \t]+)?fn[ \t]+\w", r"^[ \t]*import[ \t]+\w"), "V"),
    ),
    ".ts": ((_any(r"\A\s{0,80}<(?:\?xml|!DOCTYPE|TS)\b"), "XML"),),
    ".fs": (
        (_any(r"^[ \t]*#version\b", r"\bgl_(?:FragColor|Position)\b", r"^[ \t]*(?:uniform|varying)[ \t]+\w"), "GLSL"),
        (_any(r"^: \S", r"^\\ "), "Forth"),
    ),
    ".f": ((_any(r"^: \S", r"^\\ "), "Forth"),),
    ".d": ((_any(r"^\S+\.o[ \t]*:", r"\\$"), "Makefile"), (_any(r"^[ \t]*#pragma[ \t]+D[ \t]"), "DTrace")),
    ".cls": (
        (_any(r"^[ \t]*\\(?:NeedsTeXFormat|ProvidesClass|LoadClass)\b", r"^[ \t]*%"), "TeX"),
        (_any(r"^VERSION \d", r"^Attribute VB_"), "VBA"),
        (
            _any(r"(?i:^[ \t]*(?:(?:@\w+|global|public|private|virtual|with sharing)[ \t]+){1,4}(?:class|interface|enum)[ \t])"),
            "Apex",
        ),
    ),
    ".r": ((_any(r"(?i:\brebol[ \t]*\[)"), "Rebol"),),
    ".pro": (
        (_any(r"^[ \t]*(?:QT|TARGET|SOURCES|HEADERS|CONFIG|TEMPLATE)[ \t]*[+*-]?="), "QMake"),
        (_any(r"(?i:^[ \t]*(?:pro|function)[ \t]+\w)"), "IDL"),
    ),
    ".inc": (
        (_any(r"<\?(?:php\b|=|\s)"), "PHP"),
        (_any(r"^[ \t]*#declare\b"), "POV-Ray SDL"),
        (ASSEMBLY_68K, "Motorola 68K Assembly"),
        (_any(r"^[ \t]*%(?:define|macro|include)\b", r"(?i:^[ \t]+(?:mov|push|ldr|jmp)[ \t])"), "Assembly"),
        (_any(r"^[ \t]*#[ \t]*(?:include|define|ifdef|ifndef|pragma)\b"), "C++"),
    ),
    ".s": ((ASSEMBLY_68K, "Motorola 68K Assembly"),),
    ".asm": ((ASSEMBLY_68K, "Motorola 68K Assembly"),),
    ".bas": ((_any(r"^Attribute VB_"), "VBA"),),
    ".cl": ((_any(r"\b__?(?:kernel|global|local|constant)\b", r"^[ \t]*(?:#|//|/\*)"), "OpenCL"),),
    ".gd": ((_any(r"\b(?:Declare|Install)(?:Operation|Method|GlobalFunction|Attribute)\b"), "GAP"),),
    ".sc": ((_any(r"\bSynthDef\b", r"\{[ \t]*arg[ \t]", r"^[ \t]*\|[\w, ]{1,60}\|"), "SuperCollider"),),
    ".php": ((_any(r"\A<\?hh\b"), "Hack"),),
    ".lean": ((_any(r"^import [a-z]", r"^[ \t]*begin[ \t]*$"), "Lean"),),
}  # fmt: skip


@lru_cache
def endings() -> Mapping[str, str]:
    """Language by ending, lower case with its dot."""
    from pygments.lexers import get_all_lexers

    found: dict[str, list[str]] = defaultdict(list)
    for name, _, patterns, _ in get_all_lexers(plugins=False):
        if NO_SOURCE.search(name):
            continue
        for pattern in patterns:
            ending = pattern[1:].lower()
            if pattern.startswith("*.") and not set(ending) & set("*?["):
                found[ending].append(RENAMED.get(name, name))
    return {ending: PREFERRED.get(ending, names[0]) for ending, names in found.items()} | MORE_ENDINGS


def language_of(name: str, text: str = "") -> str | None:
    """The programming language of a file, None where its name says none.

    Args:
        name: Its name or path.
        text: What it holds, for the endings that several languages share.
    """
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base in NAMES:
        return NAMES[base]
    parts = base.split(".")
    # A longer ending says more: x.blade.php.
    for i in range(1, len(parts)):
        ending = "." + ".".join(parts[i:])
        if ending in endings():
            return _by_text(ending, text[:MAX_CHARS])
    return None


def _by_text(ending: str, text: str) -> str:
    found = (language for pattern, language in MARKS.get(ending, ()) if text and pattern.search(text))
    return next(found, endings()[ending])


def source_mime(language: str) -> str:
    """The MIME type that says a language: text/x-python, text/x-c++."""
    return MIME + language.lower().replace(" ", "-").replace("#", "sharp")


@lru_cache
def languages_by_mime() -> Mapping[str, str]:
    """Language by the MIME type that `source_mime` gives it."""
    marked = (language for marks in MARKS.values() for _, language in marks)
    return {source_mime(language): language for language in sorted({*endings().values(), *NAMES.values(), *marked})}
