"""How hard a text is to read: Flesch, Flesch-Kincaid, ARI and Coleman-Liau for English, lengths of sentences and clauses for Chinese.

Source: Flesch 1948, doi:10.1037/h0057532; Kincaid, Fishburne, Rogers, Chissom 1975, Navy Research Branch Report 8-75 (Flesch-Kincaid, and
ARI after Smith and Senter 1967, AMRL-TR-66-220); Coleman and Liau 1975, doi:10.1037/h0076540. The Chinese measures are plain lengths: no
formula for Chinese is agreed on, and all that are in use rise with them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from dataplane.operator import Annotator

WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)|\n[ \t]*\n")
HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]")
HAN_SENTENCE_END = re.compile(r"[。！？…；]+|\n+")
HAN_CLAUSE_END = re.compile(r"[。！？…；，、：]+|\n+")
MIN_HAN_SHARE = 0.5  # of the letters: from here on a text is Chinese, and the English formulas say nothing
CACHED_WORDS = 1 << 17
MAX_WORD_CHARS = 40  # longer runs of letters are no words, and are counted as this long

_VOWELS = re.compile(r"[aeiouy]+")
# Final letters that are written and not spoken.
_SILENT_END = re.compile(
    r"(?:[^aeiouyl]e|[aeiouyl]le|[aeiouy]les|lles|[^aeiouytd]ed|[^aeiouyscgxzlh]es|[^aeiouysc]hes|[^aeiouyscgxz]['’]s|[iq]ues?)$"
)
# Neighbouring vowels that are two syllables, and syllables without a vowel.
_SPLIT = re.compile(
    r"i(?:a|o(?!u|n)|u[ms])|[^qg]ua|eo(?!u)|[aeiouy]ing|uou|y[ao]|dnt|ism|asm$|oe[mt]|creat|ue[nlr]|[^p][iy]ers?$|iest$|[^aeiouyl]led$|[^cgst]ious|ienc?t"
)
_JOINED = re.compile(
    r"[cgst]ia(?:l|n)|geo[nu]|[aeiouy]e(?:ly|ful|less)|[^aeiouyl]e(?:ly|ments?|ful|less|ness|man|men|s?more)|ically|eboard|eyard"
)


class Readability(Annotator):
    """Measures how hard a text is to read; what does not suit its script is null."""

    name, version = "readability", "1"
    reads = {"text": pa.large_string()}
    writes = {
        "flesch": pa.float32(), "flesch_kincaid": pa.float32(), "ari": pa.float32(), "coleman_liau": pa.float32(),
        "words_per_sentence": pa.float32(), "syllables_per_word": pa.float32(),
        "han_per_sentence": pa.float32(), "han_per_clause": pa.float32(),
    }  # fmt: skip

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Signals of each text."""
        rows = [measures(text) for text in batch.column("text").to_pylist()]
        return {name: pa.array([row.get(name) for row in rows], kind) for name, kind in self.writes.items()}


def measures(text: str) -> dict[str, float]:
    """The signals that a text has: those of Chinese, those of English, or none where there are no words."""
    n_han = len(HAN.findall(text))
    words = Counter(WORD.findall(text))
    if n_han and n_han >= MIN_HAN_SHARE * sum(map(str.isalpha, text)):
        sentences, clauses = (_filled(ends, text) for ends in (HAN_SENTENCE_END, HAN_CLAUSE_END))
        return {"han_per_sentence": n_han / sentences, "han_per_clause": n_han / clauses}
    return _english(words, _filled(SENTENCE_END, text)) if words else {}


def _filled(ends: re.Pattern[str], text: str) -> int:
    """Pieces between the ends that hold a letter or digit; one at least."""
    return max(1, sum(WORD.search(piece) is not None for piece in ends.split(text)))


def _english(words: Mapping[str, int], n_sentences: int) -> dict[str, float]:
    n_words = sum(words.values())
    per_sentence = n_words / n_sentences
    per_word = sum(syllables(word) * count for word, count in words.items()) / n_words
    letters = sum(sum(map(str.isalnum, word)) * count for word, count in words.items()) / n_words
    return {
        "flesch": 206.835 - 1.015 * per_sentence - 84.6 * per_word,
        "flesch_kincaid": 0.39 * per_sentence + 11.8 * per_word - 15.59,
        "ari": 4.71 * letters + 0.5 * per_sentence - 21.43,
        "coleman_liau": 5.88 * letters - 29.6 / per_sentence - 15.8,
        "words_per_sentence": per_sentence,
        "syllables_per_word": per_word,
    }


@lru_cache(CACHED_WORDS)
def syllables(word: str) -> int:
    """Syllables of an English word, by its letters; one at least, and of a compound those of its parts."""
    if "-" in word:
        return sum(map(syllables, filter(None, word.split("-"))))
    lower = word[:MAX_WORD_CHARS].lower()
    spoken = _SILENT_END.sub("", lower) if len(lower) > 3 else lower
    return max(1, len(_VOWELS.findall(spoken)) + len(_SPLIT.findall(lower)) - len(_JOINED.findall(lower)))
