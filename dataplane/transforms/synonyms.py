"""Words that mean the same, out of a file of the user's: a WordNet database, or lists of words.

Source: WordNet 3.1, wndb(5WN), for the data files; the lists are those of HIT's Cilin (CODE= word word) or plain: a set a line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from dataplane.errors import ParamsError

WORDNET_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
_CILIN_CODE = re.compile(r"[A-Z][a-z]\d\d[A-Z]\d\d([=#@])\s+")
_PLACE_OF_ADJECTIVE = re.compile(r"\((?:a|p|ip)\)$")


def synonym_files(path: Path) -> list[Path]:
    """The files that a path means: itself, or of a WordNet folder those of data.

    Raises:
        ParamsError: Nothing is there, or a folder that is no WordNet database.
    """
    found = [file for file in ([path / name for name in WORDNET_FILES] if path.is_dir() else [path]) if file.is_file()]
    if not found:
        fix = "name a UTF-8 file with one set of words a line, or the folder of a WordNet database (data.noun, data.verb, ...)"
        raise ParamsError(f"no synonyms are at {path}", where="synonyms", fix=fix)
    return found


def read_synonyms(path: Path) -> Mapping[str, tuple[str, ...]]:
    """The other words of every set that holds a word, in lower case and sorted.

    Raises:
        ParamsError: The file is missing, is not UTF-8, or holds no set of two words.
    """
    others: dict[str, set[str]] = defaultdict(set)
    for file in synonym_files(path):
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ParamsError(f"{file} is not UTF-8: {error.reason}", where="synonyms", fix="convert it to UTF-8") from None
        sets = map(_wordnet_set, lines) if file.name in WORDNET_FILES else map(_listed_set, lines)
        for words in sets:
            for word in words:
                others[word] |= words - {word}
    found = {word: tuple(sorted(more)) for word, more in others.items() if more}
    if not found:
        raise ParamsError(f"{path} holds no two words that mean the same", where="synonyms", fix="write one set a line: big, large, huge")
    return found


def _wordnet_set(line: str) -> set[str]:
    """Words of a line of a data file: offset, file, type, the number of words in hex, then each word and its sense."""
    fields = line.split(" ")
    if line.startswith("  ") or len(fields) < 6:  # the licence stands first, indented
        return set()
    try:
        count = int(fields[3], 16)
    except ValueError:
        return set()
    return {_PLACE_OF_ADJECTIVE.sub("", word).replace("_", " ").lower() for word in fields[4 : 4 + 2 * count : 2]}


def _listed_set(line: str) -> set[str]:
    """Words of a line of a list. Cilin's sets of related (#) and of lonely words (@) are none."""
    code = _CILIN_CODE.match(line)
    if code:
        return set(line[code.end() :].split()) if code[1] == "=" else set()
    return set() if line.startswith("#") else set(filter(None, _parts(line)))


def _parts(line: str) -> Iterator[str]:
    for part in re.split(r"[,\t;，、]", line):
        yield part.strip().lower()
