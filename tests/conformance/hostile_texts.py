"""Texts that break programs: strings that were once bugs, traps for patterns that backtrack, and texts of absurd size."""

import json
import tarfile
from pathlib import Path

TRAP_CHARS = 200_000
MARKS = 1_000_000
LINE_BYTES = 50_000_000

# One a line, so that a line names what it is about.
NAUGHTY = (
    "", " ", "\0", "\0\0\0text\0", "\n", "\r", "\r\n\r\n", "\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\x1b[31mred\x1b[0m",
    "\x7f\x80\x9f", "\b\b\b\a", "undefined", "null", "NULL", "None", "NaN", "nan", "-Infinity", "true", "0", "-0", "1e309",
    "0x0", "1/0", "٠١٢٣", "１２３", "1,000.5", "²³¼Ⅷ", "'; DROP TABLE documents; --", '" OR 1=1', "${jndi:ldap://x}",
    "{{7*7}}", "{0}", "%s%n%x%d", "$(rm)", "`id`", "\\", "\\\\", "\\u0000", "&#0;&#xD800;", "<script>alert(1)</script>",
    "<img src=x onerror=y>", "<!DOCTYPE x [<!ENTITY a 'aa'>]>&a;", "<![CDATA[", "<!--", "-->", "<", ">", "</", "<a", "<a b='",
    "&", "&amp;amp;amp;", "&#", "&#x;", "&nosuch;", "<?php", "<?xml version='1.0' encoding='utf-16'?>",
    "<html><head><meta charset=none></head></html>", "../../../../etc/passwd", "C:\\con\\nul", "file:///dev/zero", "http://",
    "http://[::1", "http://a:b:c@d:99999/", "//x", "javascript:0", "http://%00/", "http://xn--/",
    "http://" + "a" * 300 + ".com", "a@b", "@", "a@[127.0.0.1]", "::ffff:1.2.3.4", "999.999.999.999", "+" * 40,
    "4111 1111 1111 1111", "[[", "]]", "{{", "}}", "{|", "|}", "'''''", "<ref>", "<nowiki>", "#REDIRECT [[#REDIRECT]]",
    "[[File:[[File:[[x]]]]]]", "-{zh-hans:;zh-hant:}-", "\\begin{", "\\end{document}", "$", "$$", "\\[", "%",
    "\\def\\a{\\a\\a}\\a", "\\newcommand{\\x}{\\x}\\x", "\\newcommand{\\x}[9]{#1#2}\\x", "\\verb|", "\\cite{", "^^M",
    "---\n---\n", "```", "~~~\n", "# ", "| | |\n|-|-|", "\ufeff", "\ufffe", "\uffff", "\ufffd", "\ufdd0", "\ue000",
    "\U000f0000", "\U0010ffff", "\u200b\u200c\u200d\u2060", "\u202a\u202b\u202d\u202e", "\u2066\u2069", "\u00ad", "\u034f",
    "\u115f\u1160\u3164", "\u061c", "\u180e", "\ufff9\ufffa\ufffb", "\U000e0001\U000e0041\U000e007f", "\ufe0f", "\u20e3",
    "\u0300", "\u0301a", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘", "ﷺ", "ﬃ", "İ", "ı", "ß", "ẞ", "ς", "ǰ",
    "ᾳ", "ŉ", "ƛ", "ꭰ", "𝒜𝖇𝟘", "Ａｂｃ", "㍿㌀", "ｶﾞ", "が", "각", "\u1100\u1161\u11a8", "👩‍❤️‍💋‍👨", "🇨🇳🇨", "🏳️‍🌈", "👍🏿", "☺️", "⃠",
    "क्षि", "ก็็็็็", "ༀ", "ཧྐྵྨླྺྼྻྂ", "ᠮᠣᠩ", "שָׁלוֹם", "الله", "ـــ", "𐤀", "𓀀", "𠮷𠀋", "龘", "〇", "々", "。。。",
    "！？；", "…", "......", "Ã©", "â€œ", "ä¸\xad文", "锟斤拷", "烫烫烫", "ï»¿", "\u0c1c\u0c4d\u0c1e\u200c\u0c3e",
    "جُلَّصُبُلُلصّبُررً ॣ ॣh ॣ ॣ 冗",
)  # fmt: skip


def _repeated(unit: str, end: str = "") -> str:
    return unit * (TRAP_CHARS // len(unit)) + end


# Each is cheap to read once, and dear to whoever reads it again from every place in it.
TRAPS = {
    "one letter": _repeated("a", "!"),
    "words": _repeated("a ", "!"),
    "spaces": _repeated(" ", "x"),
    "lines": _repeated("\n", "x"),
    "spaces and lines": _repeated(" \n", "x"),
    "tabs": _repeated("\t\u3000", "x"),
    "at signs": _repeated("a@"),
    "mail to nowhere": _repeated("a.", "@"),
    "mail with dots": "a@" + _repeated("a."),
    "digits": _repeated("1"),
    "digits and hyphens": _repeated("1-"),
    "digits and spaces": _repeated("13 "),
    "digits and dots": _repeated("1."),
    "digits in brackets": _repeated("(1)"),
    "plus signs": _repeated("+1"),
    "colons": _repeated("1:"),
    "hexadecimal": _repeated("0xdeadBEEF"),
    "addresses": _repeated("http://a."),
    "slashes": "http://a.com/" + _repeated("a/"),
    "percent signs": "http://a.com/?" + _repeated("%25"),
    "parents": "http://a.com/" + _repeated("../"),
    "queries": "http://a.com/?" + _repeated("a=b&"),
    "base64": _repeated("QUJD", "="),
    "data address": "data:image/png;base64," + _repeated("QUJD"),
    "private keys": _repeated("-----BEGIN PRIVATE KEY-----\n"),
    "hyphens": _repeated("-"),
    "equals signs": _repeated("="),
    "hash signs": _repeated("#"),
    "stars": _repeated("*"),
    "underscores": _repeated("_a"),
    "quotes": _repeated('"'),
    "apostrophes": _repeated("'"),
    "backquotes": _repeated("`"),
    "ellipses": _repeated("..."),
    "Chinese ellipses": _repeated("。…"),
    "round brackets": _repeated("("),
    "square brackets": _repeated("["),
    "curly brackets": _repeated("{"),
    "angle brackets": _repeated("<"),
    "links": _repeated("[a]("),
    "wiki links": _repeated("[[a|"),
    "wiki templates": _repeated("{{a|"),
    "wiki tables": _repeated("{|\n|-\n|"),
    "wiki references": _repeated("<ref>"),
    "wiki headings": _repeated("==a"),
    "divisions": _repeated("<div>"),
    "tables": _repeated("<table><tr><td>"),
    "paragraphs": "<html><body>" + _repeated("<p>a"),
    "bold and italic": _repeated("<b><i>"),
    "comments": _repeated("<!--"),
    "attributes": "<a " + _repeated("b='c' "),
    "open attribute": "<a b='" + _repeated("c "),
    "entities": _repeated("&amp;"),
    "open entities": _repeated("&#"),
    "scripts": _repeated("<script>"),
    "anchors": "<html><body>" + _repeated("<a href='#'>x</a> "),
    "environments": _repeated("\\begin{a}"),
    "open groups": _repeated("\\a{"),
    "dollars": _repeated("$a"),
    "doubling macros": "".join(f"\\def\\{chr(97 + i)}{{\\{chr(98 + i)}\\{chr(98 + i)}}}" for i in range(25)) + "\\a",
    "mojibake": _repeated("Ã¢â‚¬â„¢ "),
    "mojibake of mojibake": _repeated("ÃƒÂ¢Ã¢â€šÂ¬"),
    "emoji joined": _repeated("👩\u200d"),
    "flags": _repeated("🇨"),
    "directions": _repeated("\u202e"),
    "nulls": _repeated("\0"),
    "nulls and letters": _repeated("a\0"),
    "jamo": _repeated("\u1100\u1161\u11a8"),
    "Han": _repeated("中"),
    "Han spaced": _repeated("中 "),
    "one evasion": _repeated("f u c k "),
    "full width": _repeated("Ａ１"),
    "javascript": _repeated("javascript "),
    "lorem ipsum": _repeated("lorem ipsum "),
    "sentences": _repeated("A. "),
    "one line again": _repeated("the same line\n"),
    "one paragraph again": _repeated("the same\n\n"),
    "lines of one letter": _repeated("a\n"),
    "new words": " ".join(str(i) for i in range(TRAP_CHARS // 6)),
    "generated code": _repeated("# Generated by x. DO NOT EDIT\n"),
    "licences": _repeated("SPDX-License-Identifier: "),
    "shebang": "#!" + _repeated("/usr/bin/env "),
}


def marks() -> str:
    """A letter below a million combining marks of two kinds, in the order that normalisation has to turn."""
    return "e" + "\u0301\u0323" * (MARKS // 2)


def long_line(words: str = "a long line that goes on and on, ") -> str:
    """A line of 50 MB."""
    return words * (LINE_BYTES // len(words.encode()))


def public(data: Path) -> list[str]:
    """The Big List of Naughty Strings, and the lines of the UTF-8 stress test as a decoder gives them."""
    with tarfile.open(data / "encoding" / "naughty_strings.tar.xz") as archive:
        found = {Path(member.name).name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]
    stress = found["UTF-8-test.txt"].decode("utf-8", "replace")
    return [*json.loads(found["blns.json"]), *stress.split("\n"), stress]
