"""The four edits of EDA on a text's words: synonyms, insertions, swaps, deletions.

Source: Wei and Zou 2019, arXiv:1901.11196, section 2. What is no word stays where it is: white space, punctuation, code between
backticks, addresses. Chinese is cut into the longest words that the synonyms know, and single characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dataplane.kernels.hash_order import rekey, unit

METHODS = ("synonym", "insertion", "swap", "deletion")
BLOCK_DRAWS = 1024
MAX_HAN_WORD = 8
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Code, addresses and numbers are matched first, so that no word is found inside them.
_PIECE = re.compile(
    r"(?P<kept>```.*?(?:```|\Z)|`[^`\n]{1,500}`|https?://\S+|[\w.+-]{1,64}@[\w.-]{1,255}|\d[\w.,]*)"
    rf"|(?P<han>[{_HAN}]+)|(?P<word>[^\W\d_{_HAN}]+(?:['’-][^\W\d_{_HAN}]+)*)",
    re.DOTALL,
)


class Draws:
    """Numbers that look random and depend on nothing but their salt."""

    def __init__(self, salt: str) -> None:
        self._salt, self._at = salt, 0
        self._block: list[float] = []

    def share(self) -> float:
        """A number in [0, 1)."""
        place = self._at % BLOCK_DRAWS
        if place == 0:
            self._block = unit(rekey(np.arange(self._at, self._at + BLOCK_DRAWS, dtype=np.uint64), self._salt)).tolist()
        self._at += 1
        return self._block[place]

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        return int(self.share() * n)


@dataclass(frozen=True)
class Vocabulary:
    """What is known of words.

    Attributes:
        synonyms: Word in lower case -> others that mean the same.
        stop_words: Words in lower case that are not replaced.
    """

    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stop_words: Collection[str] = frozenset()

    @cached_property
    def han_starts(self) -> frozenset[str]:
        """First characters of the Chinese words of more than one."""
        return frozenset(word[0] for word in self.synonyms if len(word) > 1 and _is_han(word))

    def of(self, word: str) -> tuple[str, ...]:
        """The synonyms of a word, written as it is."""
        lower = word.lower()
        return () if lower in self.stop_words else tuple(_cased(other, word) for other in self.synonyms.get(lower, ()))


def _cased(other: str, like: str) -> str:
    if len(like) > 1 and like.isupper():
        return other.upper()
    return other[:1].upper() + other[1:] if like[:1].isupper() else other


@dataclass
class Words:
    """A text as its words, and what stands before each and at the end.

    Attributes:
        before: What stands before each word, and behind the last: one more than `words`.
        words: The words.
    """

    before: list[str]
    words: list[str]

    def joined(self) -> str:
        """The text."""
        return "".join(part for pair in zip(self.before, [*self.words, ""], strict=True) for part in pair)


def words_of(text: str, vocabulary: Vocabulary) -> Words:
    """Cuts a text into words."""
    found = Words([], [])
    end = 0
    for piece in _PIECE.finditer(text):
        if piece["kept"] is not None:
            continue
        cut = [piece[0]] if piece["word"] else _han_words(piece[0], vocabulary)
        found.before += [text[end : piece.start()], *[""] * (len(cut) - 1)]
        found.words += cut
        end = piece.end()
    found.before.append(text[end:])
    return found


def _han_words(run: str, vocabulary: Vocabulary) -> list[str]:
    """A run of Chinese characters as the longest words that are known, from the left."""
    cut: list[str] = []
    at = 0
    while at < len(run):
        longest = 1
        if run[at] in vocabulary.han_starts:
            longest = next((n for n in range(MAX_HAN_WORD, 1, -1) if run[at : at + n] in vocabulary.synonyms), 1)
        cut.append(run[at : at + longest])
        at += len(cut[-1])
    return cut


def edited(text: str, method: str, share: float, vocabulary: Vocabulary, draws: Draws) -> tuple[str, int]:
    """A variant of a text, and how many edits made it; 0 where none was possible, and the text is as it was.

    Args:
        text: The text.
        method: One of METHODS.
        share: Edits for each word, alpha in the paper; one at least. Of deletion: the probability for each word.
        vocabulary: Synonyms and stop words.
        draws: Where chance comes from.
    """
    words = words_of(text, vocabulary)
    if not words.words:
        return text, 0
    count = _EDITS[method](words, share, vocabulary, draws)
    result = words.joined()
    return result, count if result != text else 0


def _times(words: Words, share: float) -> int:
    return max(1, int(share * len(words.words)))


def _synonym(words: Words, share: float, vocabulary: Vocabulary, draws: Draws) -> int:
    """Replaces words that have synonyms, each once."""
    places = [i for i, word in enumerate(words.words) if vocabulary.of(word)]
    chosen = [places.pop(draws.below(len(places))) for _ in range(min(_times(words, share), len(places)))]
    for i in chosen:
        others = vocabulary.of(words.words[i])
        words.words[i] = others[draws.below(len(others))]
    return len(chosen)


def _insertion(words: Words, share: float, vocabulary: Vocabulary, draws: Draws) -> int:
    """Puts a synonym of some word before some word."""
    known = [others for word in words.words if (others := vocabulary.of(word))]
    if not known:
        return 0
    times = _times(words, share)
    for _ in range(times):
        others = known[draws.below(len(known))]
        other = others[draws.below(len(others))].lower()
        i = draws.below(len(words.words))
        words.words[i] = other + ("" if _is_han(other) else " ") + words.words[i]
    return times


def _swap(words: Words, share: float, vocabulary: Vocabulary, draws: Draws) -> int:
    """Swaps two words."""
    if len(words.words) < 2:
        return 0
    times = _times(words, share)
    for _ in range(times):
        i = draws.below(len(words.words))
        j = (i + 1 + draws.below(len(words.words) - 1)) % len(words.words)
        words.words[i], words.words[j] = words.words[j], words.words[i]
    return times


def _deletion(words: Words, share: float, vocabulary: Vocabulary, draws: Draws) -> int:
    """Leaves out words, with the space before them; one stays."""
    gone = [i for i in range(len(words.words)) if draws.share() < share]
    if len(gone) == len(words.words):
        gone.pop(draws.below(len(gone)))
    for i in gone:
        words.words[i] = ""
        # Of the two gaps around the word one is enough; line ends and punctuation stay.
        if i == 0:
            words.before[1] = words.before[1].lstrip(" ")
        else:
            words.before[i] = words.before[i].rstrip(" ") if words.before[i + 1][:1] in (" ", ",", ".", "\n", "") else words.before[i]
    return len(gone)


def _is_han(word: str) -> bool:
    return re.match(f"[{_HAN}]", word) is not None


_EDITS: Mapping[str, Callable[[Words, float, Vocabulary, Draws], int]] = {
    "synonym": _synonym, "insertion": _insertion, "swap": _swap, "deletion": _deletion,
}  # fmt: skip
