"""The tiny tokenizer and model of the tests of training."""

from tests.training.conftest import pretrained, tokenizer, tokenizer_folder

__all__ = ["pretrained", "tokenizer", "tokenizer_folder"]
