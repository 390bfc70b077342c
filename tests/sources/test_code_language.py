"""The language of a file is the one that Linguist's lists name, and that of real trees whose language is known."""

import io
import json
import sysconfig
import time
from pathlib import Path

import pytest

from dataplane.source import Record
from dataplane.sources.code import OTHER_FORMATS, Code
from dataplane.sources.code_language import MARKS, endings, language_of, languages_by_mime, source_mime
from dataplane.sources.jsonl import Jsonl

# Facts of github-linguist/linguist, lib/linguist/languages.yml: the first ending of each language, or a file name.
LINGUIST = """
a.py=Python a.pyi=Python a.c=C a.cpp=C++ a.cc=C++ a.hpp=C++ a.cs=C# a.fs=F# a.java=Java a.kt=Kotlin a.scala=Scala a.go=Go a.rs=Rust
a.js=JavaScript a.mjs=JavaScript a.ts=TypeScript a.rb=Ruby a.php=PHP a.swift=Swift a.r=R a.jl=Julia a.lua=Lua a.pl=Perl a.sh=Shell
a.bash=Shell a.zsh=Shell a.ps1=PowerShell a.sql=SQL a.hs=Haskell a.ml=OCaml a.ex=Elixir a.erl=Erlang a.clj=Clojure a.lisp=Common_Lisp
a.el=Emacs_Lisp a.vim=Vim_Script a.dart=Dart a.zig=Zig a.nim=Nim a.f90=Fortran a.asm=Assembly a.v=Verilog a.sv=SystemVerilog a.vhd=VHDL
a.proto=Protocol_Buffer a.css=CSS a.scss=SCSS a.less=Less a.yaml=YAML a.yml=YAML a.toml=TOML a.ini=INI a.cmake=CMake a.tf=HCL a.html=HTML
a.json=JSON a.xml=XML a.md=Markdown a.tex=TeX a.txt=Text a.cu=Cuda a.pyx=Cython a.d=D a.m=Objective-C a.mm=Objective-C++ a.pas=Pascal
a.groovy=Groovy a.gradle=Gradle a.coffee=CoffeeScript a.vue=Vue a.sol=Solidity a.vb=Visual_Basic_.NET a.bat=Batchfile a.awk=Awk a.tcl=Tcl
a.scm=Scheme a.rkt=Racket a.pro=Prolog a.sas=SAS a.do=Stata a.adb=Ada a.cob=COBOL a.glsl=GLSL a.hlsl=HLSL a.wat=WebAssembly a.smt2=SMT
a.dot=Graphviz_(DOT) a.owl=Web_Ontology_Language a.nix=Nix a.elm=Elm a.hx=Haxe a.idr=Idris a.lean=Lean_4 a.thrift=Thrift a.graphql=GraphQL
a.svelte=Svelte a.erb=HTML+ERB a.y=Yacc a.prisma=Prisma a.f95=Fortran a.cairo=Cairo a.cue=CUE a.metal=Metal a.mts=TypeScript
Makefile=Makefile GNUmakefile=Makefile Dockerfile=Dockerfile CMakeLists.txt=CMake Rakefile=Ruby Gemfile=Ruby Jenkinsfile=Groovy
SConstruct=Python BUILD.bazel=Starlark meson.build=Meson Cargo.lock=TOML .bashrc=Shell .vimrc=Vim_Script dir.py/Makefile=Makefile
dir\\A.PY=Python
""".split()

# What tells apart the languages that share an ending.
SHARED = {
    "Objective-C": [("a.h", "#import <Foundation/Foundation.h>\n@interface A : NSObject\n@end\n"), ("a.m", "@implementation A\n@end\n")],
    "C++": [("a.h", "#pragma once\n#include <vector>\nstd::vector<int> f();\n"), ("a.h", "namespace a::b {\nclass A;\n}\n"),
            ("a.inc", "#include <x>\n")],
    "C": [("a.h", "#ifndef A_H\n#define A_H\n/* the class of a\n class of things */\nstruct a { int template; };\n#endif\n"), ("a.h", "")],
    "MATLAB": [("a.m", "% sums\nfunction y = f(x)\n y = sum(x);\nend\n")],
    "Wolfram Language": [("a.m", "(* ::Package:: *)\nBeginPackage[\"A`\"]\n")],
    "Mercury": [("a.m", ":- module hello.\n:- interface.\n")],
    "Perl": [("a.pl", "use strict;\nmy $x = 1;\n"), ("a.pm", "package A;\nsub f { 1 }\n1;\n"), ("a.pl", "print 1;\n")],
    "Prolog": [("a.pl", "parent(ann, bob).\ngrand(X, Z) :- parent(X, Y), parent(Y, Z).\n"), ("a.pl", ":- use_module(library(lists)).\n")],
    "Raku": [("a.pl", "use v6;\nsay 'a';\n"), ("a.t", "use v6;\n")],
    "Rocq Prover": [("a.v", "Theorem t : 1 = 1.\nProof. reflexivity. Qed.\n")],
    "Verilog": [("a.v", "module a(input b);\nendmodule\n")],
    "V": [("a.v", "fn main() {\n\tprintln('a')\n}\n")],
    "XML": [("a.ts", "<?xml version=\"1.0\"?>\n<!DOCTYPE TS>\n<TS></TS>\n")],
    "TypeScript": [("a.ts", "export const a: number = 1;\n")],
    "GLSL": [("a.fs", "#version 330\nvoid main() {}\n")],
    "F#": [("a.fs", "module A\nlet f x = x + 1\n")],
    "Forth": [("a.fs", ": sq dup * ;\n"), ("a.f", ": sq dup * ;\n")],
    "Fortran": [("a.f", "      PROGRAM A\n      END\n")],
    "D": [("a.d", "import std.stdio;\nvoid main() {}\n")],
    "Makefile": [("a.d", "a.o: a.c \\\n  a.h\n")],
    "TeX": [("a.cls", "\\NeedsTeXFormat{LaTeX2e}\n\\ProvidesClass{a}\n")],
    "VBA": [("a.cls", "VERSION 1.0 CLASS\nBEGIN\n"), ("a.bas", "Attribute VB_Name = \"A\"\n")],
    "Apex": [("a.cls", "public with sharing class A {\n}\n")],
    "QMake": [("a.pro", "QT += core\nSOURCES = a.cpp\n")],
    "IDL": [("a.pro", "pro a, x\n print, x\nend\n")],
    "PHP": [("a.inc", "<?php\necho 1;\n")],
    "Assembly": [("a.inc", "%define A 1\n"), ("a.s", "\t.text\n\tmovq %rax, %rbx\n")],
    "Motorola 68K Assembly": [("a.s", "\tmove.l #1,d0\n\trts\n"), ("a.asm", "\tlea   (table,pc),a0\n")],
    "OpenCL": [("a.cl", "__kernel void f(__global int *a) {}\n")],
    "Common Lisp": [("a.cl", "(defun f (x) x)\n")],
    "Rebol": [("a.r", "REBOL [Title: \"a\"]\n")],
    "R": [("a.r", "f <- function(x) x + 1\n")],
    "SuperCollider": [("a.sc", "SynthDef(\\a, { arg x; })\n")],
    "Scala": [("a.sc", "object A extends App\n")],
    "GAP": [("a.gd", "DeclareOperation( \"A\", [ IsInt ] );\n")],
    "Hack": [("a.php", "<?hh\nfunction f(): void {}\n")],
}  # fmt: skip


@pytest.mark.parametrize("fact", LINGUIST)
def test_names_have_the_languages_of_linguist(fact: str) -> None:
    name, language = fact.split("=")
    assert language_of(name) == language.replace("_", " ")


@pytest.mark.parametrize("name", ["a", "a.unknown", "a.pdf", "", "b.c/d", ".py"])
def test_other_names_have_none(name: str) -> None:
    assert language_of(name) in (None, "Python" if name == ".py" else None)


@pytest.mark.parametrize(("language", "name", "text"), [(language, *case) for language, cases in SHARED.items() for case in cases])
def test_a_shared_ending_is_told_by_the_text(language: str, name: str, text: str) -> None:
    assert language_of(name, text) == language


def test_headers_of_c_are_c() -> None:
    found = [language_of(path.name, path.read_text()) for path in sorted(Path(sysconfig.get_path("include")).rglob("*.h"))]
    assert found.count("C") / len(found) > 0.98


def test_headers_of_cpp_are_cpp() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = [language_of(path.name, path.read_text()) for path in sorted(Path(pyarrow.get_include(), "arrow", "compute").rglob("*.h"))]
    assert found.count("C++") / len(found) > 0.85


def test_a_language_is_found_again_by_its_mime_type() -> None:
    languages = sorted(set(languages_by_mime().values()))
    assert [languages_by_mime()[source_mime(language)] for language in languages] == languages
    assert source_mime("Vim Script") == "text/x-vim-script"
    assert (source_mime("C#"), source_mime("C++")) == ("text/x-csharp", "text/x-c++")


def test_marks_stand_for_endings_that_are_known() -> None:
    assert sorted(set(MARKS) - set(endings())) == []


def test_the_source_says_the_language_as_mime_and_leaves_other_formats_alone() -> None:
    (record,) = Code().read(io.BytesIO(b"@interface A\n@end\n"), "x/a.h")
    assert isinstance(record, Record)
    assert (record.mime, record.meta) == ("text/x-objective-c", {"path": "x/a.h", "programming_language": "Objective-C"})
    assert sorted(OTHER_FORMATS & set(Code.suffixes)) == []


def test_a_field_may_hold_the_name_of_the_file() -> None:
    rows = [{"content": "use v6;", "path": "x/a.pl"}, {"content": "a", "path": "README"}, {"content": "a", "path": 3}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    found = Jsonl({"text": "content", "path": "path"}).read(io.BytesIO(lines.encode()), "a.jsonl")
    assert [record.mime for record in found if isinstance(record, Record)] == ["text/x-raku", "text/plain", "text/plain"]


@pytest.mark.parametrize("name", sorted(f"a{ending}" for ending in MARKS))
@pytest.mark.parametrize("piece", [" ", "\n", "a(", "class a ", "public ", "\tmove ", "namespace a", "{ arg"])
def test_time_is_bounded(name: str, piece: str) -> None:
    start = time.perf_counter()
    language_of(name, piece * (1_000_000 // len(piece)))
    assert time.perf_counter() - start < 1
