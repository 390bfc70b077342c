"""Back-translation gives what the two models give one after the other, sentence by sentence, and keeps the lines."""

from pathlib import Path
from typing import Any

import pytest

from dataplane.errors import ModelMissing
from dataplane.transforms.back_translation import BEAMS, BackTranslator

pytestmark = [pytest.mark.slow]
WORDS = ["the", "cat", "sat", "on", "mat", "der", "hund", "lief", ".", "!", "。", "猫", "坐"]
N_TOKENS = 6  # random weights seldom end a sentence by themselves
TEXT = "the cat sat. on the mat!\n\n  der hund lief\n猫坐。坐猫"


def tiny_model(folder: Path, seed: int) -> Any:
    """A T5 of random weights with a tokenizer of a few words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    model = T5ForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer, model


def one_by_one(loaded: Any, sentence: str) -> str:
    import torch

    tokenizer, model = loaded
    with torch.inference_mode():
        made = model.generate(**{k: v for k, v in tokenizer(sentence, return_tensors="pt").items() if k != "token_type_ids"},
                              num_beams=BEAMS, do_sample=False, max_new_tokens=N_TOKENS)  # fmt: skip
    return str(tokenizer.decode(made[0], skip_special_tokens=True))


def test_sentences_go_there_and_back_and_lines_stay(tmp_path: Path) -> None:
    there, back = (tiny_model(tmp_path / name, seed) for seed, name in enumerate(("there", "back")))
    translated = BackTranslator(tmp_path / "there", tmp_path / "back", N_TOKENS)
    sentences = ["the cat sat.", "on the mat!", "der hund lief", "猫坐。", "坐猫"]
    a, b, c, d, e = (one_by_one(back, one_by_one(there, sentence)) for sentence in sentences)
    assert translated(TEXT) == f"{a} {b}\n\n  {c}\n{d}{e}"
    assert translated("") == ""
    assert translated(" \n ") == " \n "


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="holds no translation model"):
        BackTranslator(tmp_path / "none", tmp_path / "none")
