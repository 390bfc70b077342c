"""How near a written text comes to its references: BLEU and chrF of sacrebleu, ROUGE of rouge-score, exact match, F1 of words.

Chinese and Japanese characters count as words of their own (sacrebleu's tokenizer "zh" for BLEU); all else is as the references have it.
Source: sacrebleu, Post 2018, arXiv:1804.08771; ROUGE, Lin 2004; exact match and F1, Rajpurkar et al. 2016, arXiv:1606.05250.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = set(string.punctuation) | set("，。！？；：、（）《》【】“”‘’「」『』—…·")
ROUGES = ("rouge1", "rouge2", "rougeL")
ItemMetric = Callable[[str, Sequence[str]], float]
CorpusMetric = Callable[[Sequence[str], Sequence[Sequence[str]]], float]


class Words:
    """Words for ROUGE: those of rouge-score where a text has Latin letters and digits alone, and each CJK character."""

    def tokenize(self, text: str) -> list[str]:
        """Lower case, without punctuation."""
        return WORD.findall(text.lower())


def normalised(text: str) -> list[str]:
    """Words for exact match and F1: lower case, without punctuation and the articles a, an, the."""
    bare = "".join(letter for letter in text.lower() if letter not in PUNCTUATION)
    spaced = re.sub(f"([{CJK}])", r" \1 ", ARTICLES.sub(" ", bare))
    return spaced.split()


def exact_match(text: str, references: Sequence[str]) -> float:
    """1 where the text is one of the references, words compared."""
    return float(any(normalised(text) == normalised(reference) for reference in references))


def f1(text: str, references: Sequence[str]) -> float:
    """Harmonic mean of the shares of common words, with the nearest reference; two empty texts are equal."""
    return max(_f1(normalised(text), normalised(reference)) for reference in references)


def _f1(words: list[str], reference: list[str]) -> float:
    if not words or not reference:
        return float(words == reference)
    shared = sum((Counter(words) & Counter(reference)).values())
    return 2 * shared / (len(words) + len(reference))


def rouge(kind: str) -> ItemMetric:
    """F-measure of "rouge1", "rouge2" or "rougeL", with the nearest reference."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([kind], tokenizer=Words())
    return lambda text, references: max(float(scorer.score(reference, text)[kind].fmeasure) for reference in references)


def bleu(texts: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU, 0 to 100.

    Args:
        texts: Of the model.
        references: Of each text, one or more.
    """
    from sacrebleu.metrics.bleu import BLEU

    chinese = any(re.search(f"[{CJK}]", reference) for each in references for reference in each)
    return float(BLEU(tokenize="zh" if chinese else "13a").corpus_score(texts, _columns(references)).score)


def chrf(texts: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus chrF, 0 to 100."""
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(texts, _columns(references)).score)


def _columns(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """sacrebleu wants first references, second references, ..."""
    most = max(map(len, references))
    return [[each[place] if place < len(each) else None for each in references] for place in range(most)]


def item_metrics() -> dict[str, ItemMetric]:
    """Metrics that are means over the items."""
    return {"exact_match": exact_match, "f1": f1} | {kind: rouge(kind) for kind in ROUGES}


def corpus_metrics() -> dict[str, CorpusMetric]:
    """Metrics of all items together."""
    return {"bleu": bleu, "chrf": chrf}
