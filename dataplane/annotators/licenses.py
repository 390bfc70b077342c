"""The licence that a source file states at its head, as an SPDX expression.

Source: SPDX specification 2.3, annexes D (expressions) and E (identifiers in files), https://spdx.org/licenses; the texts and addresses
of the licences themselves. "Version N or any later" and "version N" differ: -or-later and -only; the GNU licences say that where
no version is named any published one may be chosen, so the first one -or-later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

HEAD_CHARS = 6000  # of a file: where it states its licence
MAX_EXPRESSION_CHARS = 300
COMMENT_MARKS = re.compile(r"[ \t]*\r?\n[ \t]*(?:(?://+|#+|\*+|--|;+|%+|dnl|\.\\\"|'|!|rem\b)[ \t]*)?|[ \t]+", re.IGNORECASE)
SPDX_TAG = re.compile(r"SPDX-License-Identifier:[ \t]{0,5}([^\r\n]{1,300})")
_TOKEN = re.compile(r"[ \t]*(\(|\)|[A-Za-z0-9.+:-]+)")
_OPERATORS = frozenset({"AND", "OR", "WITH"})
# Identifiers that SPDX gave up for clearer ones.
_FAMILY = re.compile(r"(A?GPL-[123]\.0|LGPL-(?:2\.[01]|3\.0)|GFDL-1\.[123])(\+?)")

_GNU = re.compile(
    r"(?:version (?P<before>[123](?:\.[0-3])?) of the (?:terms of the )?)?GNU (?P<kind>Affero |Lesser |Library )?General Public Licen[cs]e|"
    r"\b(?P<letter>[AL]?)GPL[ -]?(?:v\.? ?|version )?(?P<short>[123](?:\.[0-3])?)\b(?P<plus>\+?)",
    re.IGNORECASE,
)
_VERSION = re.compile(r"\bv(?:ersion|\.)? ?([123](?:\.[0-3])?)\b", re.IGNORECASE)
_OR_LATER = re.compile(r"any later|or (?:\(at your option\) )?later|or newer|or greater|and above", re.IGNORECASE)
VERSION_CHARS = 300  # after the name of a GNU licence: where its version stands
LATER_CHARS = 150  # after the version
_LETTERS = {"affero": "A", "lesser": "L", "library": "L"}
_ANY_VERSION = {"GPL": "GPL-1.0-or-later", "LGPL": "LGPL-2.0-or-later", "AGPL": "AGPL-3.0-or-later", "GFDL": "GFDL-1.1-or-later"}

# Words of the texts and notices that stand at the head of files, the more special first.
_NOTICES = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("MPL-1.1 OR GPL-2.0-or-later OR LGPL-2.1-or-later", r"Version: MPL 1\.1/GPL 2\.0/LGPL 2\.1"),
        ("Artistic-1.0-Perl OR GPL-1.0-or-later", r"under the same terms as Perl itself"),
        ("Apache-2.0", r"Apache Licen[cs]e,? (?:Version|v\.?) ?2(?:\.0)?|apache\.org/licenses/LICENSE-2\.0|Apache 2\.0 licen[cs]e"),
        ("MPL-2.0", r"Mozilla Public Licen[cs]e,? (?:v\.?|version) ?2\.0|mozilla\.org/MPL/2\.0"),
        ("MPL-1.1", r"Mozilla Public Licen[cs]e,? (?:v\.?|version) ?1\.1"),
        ("EPL-2.0", r"Eclipse Public Licen[cs]e,?(?: -)? (?:v\.?|version) ?2\.0|eclipse\.org/legal/epl-2\.0"),
        ("EPL-1.0", r"Eclipse Public Licen[cs]e,?(?: -)? (?:v\.?|version) ?1\.0|eclipse\.org/legal/epl-v10"),
        ("CDDL-1.0", r"Common Development and Distribution Licen[cs]e"),
        ("BSL-1.0", r"Boost Software Licen[cs]e"),
        ("Artistic-2.0", r"Artistic Licen[cs]e,? (?:v\.?|version )?2\.0"),
        ("CC0-1.0", r"CC0 1\.0|creativecommons\.org/publicdomain/zero/1\.0"),
        ("Unlicense", r"This is free and unencumbered software released into the public domain|\bunlicense\.org"),
        ("Zlib", r"This software is provided 'as-is', without any express or implied warranty"),
        ("MS-PL", r"Microsoft Public Licen[cs]e"),
        (
            "ISC",
            r"Permission to use, copy, modify,? and(?:/or)? distribute this software for any purpose with or without fee is hereby",
        ),
        (
            "MIT",
            r"Permission is hereby granted, free of charge, to any person obtaining|\b(?:under|the) (?:terms of )?(?:the )?MIT licen[cs]e",
        ),
        ("BSD-4-Clause", r"Redistribution and use in source and binary forms.{0,2000}?advertising materials mentioning features"),
        (
            "BSD-3-Clause",
            r"Redistribution and use in source and binary forms.{0,2500}?(?:Neither the name|names? of .{0,200}may not be used)",
        ),
        ("BSD-2-Clause", r"Redistribution and use in source and binary forms"),
        ("BSD-3-Clause", r"\b(?:3-clause|new|modified|revised) BSD licen[cs]e|BSD[ -]3[ -]clause"),
        ("BSD-2-Clause", r"\b(?:2-clause|simplified) BSD licen[cs]e|BSD[ -]2[ -]clause"),
        ("WTFPL", r"Do What The F\S{1,6} You Want To Public Licen[cs]e"),
    )
)


# A word that each notice has, so that most files are passed over at once.
_MENTION = re.compile(r"licen[cs]e|GPL|permission|redistribution|unencumbered|as-is|CC0|/zero/1|terms\s+as|BSD|MPL", re.IGNORECASE)


def license_of(text: str) -> str | None:
    """SPDX expression of the licence that the head of a file states.

    A tag counts before the text of a licence. Several tags are all in force.

    Args:
        text: The file.
    """
    head = text[:HEAD_CHARS]
    stated = list(dict.fromkeys(filter(None, (expression(found[1]) for found in SPDX_TAG.finditer(head)))))
    if stated:
        return stated[0] if len(stated) == 1 else " AND ".join(f"({one})" if " OR " in one else one for one in stated)
    if not _MENTION.search(head):
        return None
    plain = COMMENT_MARKS.sub(" ", head)
    # What stands first is the file's own; further on, notices name licences that it may be combined with.
    places = [(found.start(), i, name) for i, (name, pattern) in enumerate(_NOTICES) if (found := pattern.search(plain))]
    places += [(start, len(_NOTICES), name) for start, name in _gnu_notice(plain)]
    return min(places)[2] if places else None


def expression(text: str) -> str | None:
    """The longest SPDX expression that a text starts with, with current names; None where there is none.

    Args:
        text: What follows the tag; the end of a comment or a sentence may follow.
    """
    tokens: list[str] = []
    at = complete = 0
    while (match := _TOKEN.match(text, at)) and at < MAX_EXPRESSION_CHARS:
        token = match[1].upper() if match[1].upper() in _OPERATORS else match[1].rstrip(".:-") or match[1]
        if not _fits(token, tokens):
            break
        tokens.append(current(token))
        at = match.end()
        if _ends_operand(token) and tokens.count("(") == tokens.count(")"):
            complete = len(tokens)
    return " ".join(tokens[:complete]).replace("( ", "(").replace(" )", ")") or None


def _ends_operand(token: str) -> bool:
    return token != "(" and token not in _OPERATORS


def _fits(token: str, before: list[str]) -> bool:
    """Whether an expression may go on with this token."""
    last = before[-1] if before else "("
    if token == "WITH":  # an exception belongs to one licence
        return _ends_operand(last) and last != ")" and before[-2:-1] != ["WITH"]
    if token in _OPERATORS or token == ")":
        return bool(before) and _ends_operand(last) and (token != ")" or before.count("(") > before.count(")"))
    return not _ends_operand(last) and (token != "(" or last != "WITH")


def current(identifier: str) -> str:
    """An identifier without the forms that SPDX has given up."""
    found = _FAMILY.fullmatch(identifier)
    return identifier if found is None else found[1] + ("-or-later" if found[2] else "-only")


def _gnu_notice(plain: str) -> Iterator[tuple[int, str]]:
    """Where a notice names a GNU licence first, and which, with its version."""
    found = _GNU.search(plain)
    if found is None:
        return
    letter = found["letter"] if found["short"] else _LETTERS.get((found["kind"] or "").strip().lower(), "")
    family, version, at = f"{letter.upper()}GPL", found["before"] or found["short"], found.end()
    if version is None and (stated := _VERSION.search(plain, at, at + VERSION_CHARS)):
        version, at = stated[1], stated.end()
    if version is None:
        yield found.start(), _ANY_VERSION[family]
        return
    later = found["plus"] or _OR_LATER.search(plain, at, at + LATER_CHARS)
    yield found.start(), f"{family}-{version if '.' in version else version + '.0'}-{'or-later' if later else 'only'}"


def any_version(family: str) -> str | None:
    """A GNU licence of which no version is named."""
    return _ANY_VERSION.get(family)
