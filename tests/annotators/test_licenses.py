"""Licences of files and links: expressions are those that license-expression parses, identifiers are SPDX's, notices are the real ones."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from license_expression import get_spdx_licensing

from dataplane.annotators.license_links import license_of_url, license_of_words
from dataplane.annotators.licenses import _NOTICES, expression, license_of

SPDX = get_spdx_licensing()
NAMES = ("MIT", "Apache-2.0", "GPL-2.0-only", "BSD-3-Clause", "LicenseRef-own", "0BSD")
GPL_2 = """/* This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; version 2 of the License. */"""
GPL_2_LATER = """# This program is free software: you can redistribute it and/or modify
# it under the terms of the GNU General Public License as published by
# the Free Software Foundation, either version 2 of the License, or
# (at your option) any later version.
"""
LGPL_21 = """ * This library is free software; you can redistribute it and/or
 * modify it under the terms of the GNU Lesser General Public
 * License as published by the Free Software Foundation; either
 * version 2.1 of the License, or (at your option) any later version."""
MIT = "/*\n * Permission is hereby granted, free of charge,\n * to any person obtaining a copy\n */\nint x;"
BSD = "// Redistribution and use in source and\n// binary forms, with or without modification, are permitted\n"


def names_in(found: str) -> list[str]:
    return sorted(set(SPDX.license_keys(SPDX.parse(found))))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from(NAMES))
        return f"{name} WITH Classpath-exception-2.0" if name.startswith("GPL") and draw(st.booleans()) else name
    parts = [draw(expressions(depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    return f" {draw(st.sampled_from(['AND', 'OR']))} ".join(f"({part})" if " " in part and " WITH " not in part else part for part in parts)


@given(expressions(), st.sampled_from(["", " */", " -->", "\n", " # and more", ". See LICENSE"]))
def test_an_expression_is_read_to_its_end(written: str, rest: str) -> None:
    found = license_of(f"// SPDX-License-Identifier: {written}{rest}")
    assert found is not None
    assert SPDX.parse(found) == SPDX.parse(written)


@given(st.lists(st.sampled_from(["MIT", "Apache-2.0", "(", ")", "AND", "OR", "WITH", "*", "GPL-2.0+"]), max_size=9))
def test_what_is_read_is_an_expression(tokens: list[str]) -> None:
    found = expression(" ".join(tokens))
    if found is not None:
        bare = set(found.replace("(", " ").replace(")", " ").split())
        assert names_in(found) == sorted(bare - {"AND", "OR", "WITH"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# SPDX-License-Identifier: GPL-2.0\n", "GPL-2.0-only"),
        ("# SPDX-License-Identifier: LGPL-2.1+\n", "LGPL-2.1-or-later"),
        ("// SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */", "(GPL-2.0-only WITH Linux-syscall-note) OR MIT"),
        ("# SPDX-License-Identifier: MIT OR ISC\n# SPDX-License-Identifier: Apache-2.0\n", "(MIT OR ISC) AND Apache-2.0"),
        ("# SPDX-License-Identifier:\n", None),
        ("# Licensed under the Apache License, Version 2.0 (the \"License\");\n", "Apache-2.0"),
        (GPL_2, "GPL-2.0-only"),
        (GPL_2_LATER, "GPL-2.0-or-later"),
        (LGPL_21, "LGPL-2.1-or-later"),
        ("released under version 3 of the GNU General Public License", "GPL-3.0-only"),
        ("// under the terms of the GNU Affero\n// General Public License", "AGPL-3.0-or-later"),
        ("; License: GPLv3+\n", "GPL-3.0-or-later"),
        ("the GNU General Public License\n", "GPL-1.0-or-later"),
        ("# This Source Code Form is subject to the terms of the Mozilla Public\n# License, v. 2.0.", "MPL-2.0"),
        ("the Eclipse Public License 2.0 (eclipse.org/legal/epl-2.0) or the GNU General Public License, version 2", "EPL-2.0"),
        ("/* Version: MPL 1.1/GPL 2.0/LGPL 2.1 */", "MPL-1.1 OR GPL-2.0-or-later OR LGPL-2.1-or-later"),
        ("under the same terms as Perl itself", "Artistic-1.0-Perl OR GPL-1.0-or-later"),
        (MIT, "MIT"),
        ("/*! jQuery | Released under the MIT license */", "MIT"),
        (BSD, "BSD-2-Clause"),
        (BSD + "// Neither the name of the copyright holder", "BSD-3-Clause"),
        (BSD + "// 3. All advertising materials mentioning features", "BSD-4-Clause"),
        ("Permission to use, copy, modify, and distribute this software for any\npurpose with or without fee is hereby granted", "ISC"),
        ("Distributed under the Boost Software License, Version 1.0.", "BSL-1.0"),
        ("x = 1  # the license of this is not stated\n", None),
        ("\n" * 7000 + "# SPDX-License-Identifier: MIT", None),
    ],
)  # fmt: skip
def test_the_notice_at_the_head_of_a_file_names_its_licence(text: str, name: str | None) -> None:
    assert license_of(text) == name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("https://creativecommons.org/licenses/by/4.0/", "CC-BY-4.0"),
        ("http://creativecommons.org/licenses/by-nc-sa/3.0/de/deed.de", "CC-BY-NC-SA-3.0-DE"),
        ("http://creativecommons.org/licenses/by-nc-sa/2.5/se/", "CC-BY-NC-SA-2.5"),
        ("//creativecommons.org/licenses/by-nd-nc/1.0/", "CC-BY-NC-ND-1.0"),
        ("https://creativecommons.org/licenses/", None),
        ("https://creativecommons.org/licenses/sampling+/1.0/", None),
        ("https://creativecommons.org/publicdomain/mark/1.0/", "CC-PDM-1.0"),
        ("https://www.gnu.org/licenses/gpl-3.0.html", "GPL-3.0-only"),
        ("http://www.gnu.org/copyleft/fdl.html", "GFDL-1.1-or-later"),
        ("https://www.gnu.org/licenses/old-licenses/lgpl-2.1.en.html", "LGPL-2.1-only"),
        ("http://www.opensource.org/licenses/mit-license.php", "MIT"),
        ("https://opensource.org/license/BSD-3-Clause", "BSD-3-Clause"),
        ("https://spdx.org/licenses/Apache-2.0.html", "Apache-2.0"),
        ("https://opensource.org/licenses/no-such", None),
        ("https://opendatacommons.org/licenses/odbl/1-0/", "ODbL-1.0"),
        ("https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/", "OGL-UK-3.0"),
        ("CC BY-SA 4.0", "CC-BY-SA-4.0"),
        ("cc-by-nc-nd-3.0", "CC-BY-NC-ND-3.0"),
        ("Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International License", "CC-BY-NC-SA-4.0"),
        ("Creative Commons Attribution-ShareAlike License 3.0", "CC-BY-SA-3.0"),
        ("apache-2.0", "Apache-2.0"),
        ("All rights reserved", None),
        ("", None),
    ],
)
def test_addresses_and_names_of_licences_have_their_identifiers(words: str, name: str | None) -> None:
    assert license_of_words(words) == name


def test_every_identifier_is_one_of_spdx() -> None:
    ours = {part for name, _ in _NOTICES for part in name.split(" OR ")}
    kinds, versions, ports = ("by", "by-sa", "by-nc-nd", "by-nc-sa"), ("1.0", "2.0", "2.5", "3.0", "4.0"), ("", "de/", "us/", "igo/", "fr/")
    links = [f"https://creativecommons.org/licenses/{kind}/{v}/{port}" for kind in kinds for v in versions for port in ports]
    ours |= {name for link in links if (name := license_of_url(link)) is not None}
    assert sorted(ours - set(SPDX.known_symbols)) == []


HOSTILE = (
    "SPDX-License-Identifier: (", "Redistribution and use in source and binary forms ", "GNU General Public License ", "version 2 of the ",
    "* \n", "Creative Commons Attribution ", "CC BY NC ", "/licenses/by",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_bounded(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    license_of(text)
    license_of_words(text[:500])
    assert time.perf_counter() - start < 2
