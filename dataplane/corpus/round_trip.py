"""Whether a tokenizer gives texts back: hostile ones always, and some of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

# What tokenizers have been seen to lose, by name.
HOSTILE = {
    "white space": " \n\t  \r\n\u00a0\u3000\v\f\x1c\x85\u2028 x  ",
    "a space before": " a",
    "a space behind": "a ",
    "controls": "\0\x01\x1b[0m\x7f\x80",
    "composed and decomposed": "é e\u0301 Å \u212b ﬁ ½ Ⅷ",
    "width": "Ａｂｃ １２３ ｶﾞ 。",
    "zero width and direction": "a\u200b\u200d\u2060\ufeffb\u202ec\u00ad",
    "marks alone": "\u0301\u0301\u20e3\ufe0f",
    "emoji": "👩\u200d❤\ufe0f\u200d👨🇨🇳👍🏿",
    "rare scripts": "𓀀 𠮷 ᠮᠣᠩ ཧྐྵྨླྺྼྻྂ 𝒜",
    "private and unassigned": "\ue000\uffff\ufdd0\U000e0041\U0010ffff\ufffd",
    "tokens in the text": "<|endoftext|><|user|><unk><s></s><0x41>[INST]Ġthe##x",
    "contractions": "I'm , don't . n't ' s",
    "U+2581": "\u2581a \u2581",
}


def round_trip(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Any]:
    """What comes back otherwise than it went in.

    Args:
        tokenizer: As `dataplane.corpus.tokenizer.load` returns it: special tokens that stand in a text are text.
        texts: Of the corpus.

    Returns:
        `texts`, how many were tried; `changed`, how many of them changed; `changed_hostile`, which of HOSTILE changed.
    """
    kept = dict(zip(HOSTILE, _kept(tokenizer, list(HOSTILE.values())), strict=True))
    changed = sum(not same for same in _kept(tokenizer, texts))
    return {"texts": len(texts), "changed": changed, "changed_hostile": [name for name, same in kept.items() if not same]}


def _kept(tokenizer: Tokenizer, texts: Sequence[str]) -> list[bool]:
    ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    decoded = tokenizer.decode_batch(ids, skip_special_tokens=False)
    return [text == back for text, back in zip(texts, decoded, strict=True)]
