"""Synonyms out of a WordNet database are those that NLTK reads there; lists are read in their several forms."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import nltk
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader

from dataplane.errors import ParamsError
from dataplane.transforms.synonyms import read_synonyms

KINDS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
SYNSETS: Mapping[str, Sequence[Sequence[str]]] = {
    "noun": [["dog", "domestic_dog", "Canis_familiaris"], ["frump", "dog"], ["entity"], [f"w{i}" for i in range(18)]],
    "verb": [["run", "dash", "sprint"], ["run", "operate"]],
    "adj": [["big", "large"], ["awake", "galore"]],
    "adv": [["fast", "quickly"]],
}


def write_wordnet(folder: Path) -> None:
    """A database as wndb(5WN) describes it: data files with byte offsets, and an index for each."""
    folder.mkdir()
    for i, (name, kind) in enumerate(KINDS.items()):
        text = "  1 WordNet 3.0 Copyright: the licence stands here\n"
        offsets: dict[str, list[int]] = {}
        for words in SYNSETS[name]:
            at = len(text)
            listed = " ".join(f"{word}{'(ip)' if word == 'galore' else ''} 0" for word in words)
            text += f"{at:08d} {i:02d} {kind} {len(words):02x} {listed} 000 {'00 ' if name == 'verb' else ''}| a gloss  \n"
            for word in words:
                offsets.setdefault(word.lower(), []).append(at)
        (folder / f"data.{name}").write_text(text)
        lines = [
            f"{word} {kind} {len(at)} 0 {len(at)} 0 {' '.join(f'{one:08d}' for one in at)}  \n" for word, at in sorted(offsets.items())
        ]
        (folder / f"index.{name}").write_text("  1 the licence stands here\n" + "".join(lines))
        (folder / f"{name}.exc").write_text("")
    (folder / "lexnames").write_text("".join(f"{i:02d}\t{name}.all\t{i + 1}\n" for i, name in enumerate(KINDS)))
    for name in ("index.sense", "cntlist.rev"):
        (folder / name).write_text("")


def test_wordnet_is_read_as_nltk_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])  # it reads nowhere else
    monkeypatch.setattr(WordNetCorpusReader, "map_wn", lambda reader: None)  # a map to a version that is not here
    folder = tmp_path / "dict"
    write_wordnet(folder)
    found = read_synonyms(folder)
    with pytest.warns(UserWarning, match="multilingual functions"):
        reader = WordNetCorpusReader(str(folder), None)
    words = {word.lower() for sets in SYNSETS.values() for words in sets for word in words}
    expected = {
        word.replace("_", " "): tuple(sorted({
            lemma.lower().replace("_", " ") for synset in reader.synsets(word) for lemma in synset.lemma_names() if lemma.lower() != word
        }))
        for word in words
    }  # fmt: skip
    for file in reader._data_file_map.values():
        file.close()
    assert found == {word: others for word, others in expected.items() if others}
    assert found["dog"] == ("canis familiaris", "domestic dog", "frump")


def test_lists_are_read_in_their_several_forms(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text(
        "# a note\nBig, large\thuge\nlonely\n快乐、高兴\nAa01A01= 人 士 人物\nAa01A02# 牛 马\nAa01A03@ 独\n\nlarge; vast\n", "utf-8"
    )
    assert read_synonyms(path) == {
        "big": ("huge", "large"), "large": ("big", "huge", "vast"), "huge": ("big", "large"), "vast": ("large",),
        "快乐": ("高兴",), "高兴": ("快乐",), "人": ("人物", "士"), "士": ("人", "人物"), "人物": ("人", "士"),
    }  # fmt: skip


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe", "is not UTF-8"), (b"one\ntwo\n", "no two words"), (b"", "no two words")])
def test_what_is_wrong_with_a_list_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(ParamsError, match=said):
        read_synonyms(path)


def test_a_folder_without_a_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="no synonyms are at"):
        read_synonyms(tmp_path)
