"""Labels and scores of quantised fastText models, held against the library."""

from pathlib import Path

import numpy as np
import pytest

from dataplane.annotators.fasttext_file import read_tables
from dataplane.annotators.language_models import FastText, QuantisedFastText, open_model
from dataplane.errors import ModelMissing

LINES = {
    "en": ["the cat sat on the mat and looked at the moon", "where do we go from here", "it was a dark night"],
    "de": ["die Katze saß auf der Matte und sah den Mond an", "wohin gehen wir von hier", "es war eine dunkle Nacht"],
    "zh": ["猫坐在垫子上看着月亮", "我们从这里去哪里", "那是一个黑暗的夜晚"],
    "fr": ["le chat était assis sur le tapis et regardait la lune", "où allons-nous d’ici", "c’était une nuit noire"],
    "ru": ["кошка сидела на коврике и смотрела на луну", "куда мы идём отсюда", "это была тёмная ночь"],
}
HOSTILE = [
    "", " ", "a", "</s>", "the cat </s> die Katze saß", "__label__de the cat", "__label__", "x __label__zh", "a\x0bb\x0cthe\tcat\rmoon",
    "é" * 300, "x" * 5000, "\u0301" * 40, "𝒳𝒴 the 𝒵", "<the>", ">", "<", "the the the", "ÿ\xa0the\u3000cat", "12 34 ?!",
]  # fmt: skip


DIM, BUCKETS, KEPT = 16, 5000, 4000
HIERARCHICAL, SOFTMAX = 1, 3


def drawn(path: Path, *, qnorm: bool = True, loss: int = HIERARCHICAL, quantised: bool = True) -> Path:
    """A model file with drawn values: training with the library reads memory that nobody wrote, and quantising wants more words."""
    rng = np.random.default_rng(3)
    words = ["</s>", *dict.fromkeys(word for lines in LINES.values() for line in lines for word in line.split()[::2])]
    data = np.array([793712314, 12, DIM, 5, 5, 1, 5, 1, loss, 3, BUCKETS, 2, 4, 100], "<i4").tobytes() + np.float64(1e-4).tobytes()
    data += np.array([len(words) + len(LINES), len(words), len(LINES)], "<i4").tobytes()
    data += np.array([1000, KEPT if quantised else -1], "<i8").tobytes()
    for word in words:
        data += word.encode() + b"\0" + np.int64(9).tobytes() + b"\0"
    for count, label in zip((90, 70, 40, 30, 30), LINES, strict=True):
        data += f"__label__{label}".encode() + b"\0" + np.int64(count).tobytes() + b"\1"
    rows = len(words) + (KEPT if quantised else BUCKETS)
    if quantised:
        pairs = np.stack([rng.permutation(BUCKETS)[:KEPT], np.arange(KEPT)], axis=1)
        data += pairs.astype("<i4").tobytes() + b"\1" + bytes([qnorm]) + np.array([rows, DIM], "<i8").tobytes()
        data += np.int32(rows * DIM // 2).tobytes() + rng.bytes(rows * DIM // 2) + _centroids(rng, DIM, 2)
        data += rng.bytes(rows) + _centroids(rng, 1, 1) if qnorm else b""
    else:
        data += b"\0" + np.array([rows, DIM], "<i8").tobytes() + _drawn(rng, rows * DIM)
    path.write_bytes(data + b"\0" + np.array([len(LINES), DIM], "<i8").tobytes() + _drawn(rng, len(LINES) * DIM))
    return path


def _centroids(rng: np.random.Generator, dim: int, width: int) -> bytes:
    return np.array([dim, dim // width, width, width], "<i4").tobytes() + _drawn(rng, dim * 256)


def _drawn(rng: np.random.Generator, n: int) -> bytes:
    return rng.standard_normal(n).astype("<f4").tobytes()


@pytest.mark.parametrize("qnorm", [False, True])
def test_labels_and_scores_are_the_librarys_to_the_last_bit(tmp_path: Path, qnorm: bool) -> None:
    path = drawn(tmp_path / "model.ftz", qnorm=qnorm)
    ours = open_model(str(path))
    assert isinstance(ours, QuantisedFastText)
    rng = np.random.default_rng(7)
    words = [word for lines in LINES.values() for line in lines for word in line.split()]
    mixed = [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(300)]
    lines = [line for of in LINES.values() for line in of] + HOSTILE + mixed
    found = ours.identify(lines)
    assert found == FastText(path).identify(lines)
    assert len({label for label, _ in found}) >= len(LINES)


def test_the_language_model_answers_as_the_library_does() -> None:
    try:
        ours = open_model("lid.176")
    except ModelMissing as error:
        pytest.skip(error.message)
    from dataplane.annotators.language_models import model_file

    assert isinstance(ours, QuantisedFastText)
    lines = [line for of in LINES.values() for line in of] + HOSTILE
    assert ours.identify(lines) == FastText(model_file("lid.176")).identify(lines)


@pytest.mark.parametrize(("loss", "quantised"), [(SOFTMAX, True), (SOFTMAX, False), (HIERARCHICAL, False)])
def test_models_of_other_kinds_are_left_to_the_library(tmp_path: Path, loss: int, quantised: bool) -> None:
    path = drawn(tmp_path / "model.bin", loss=loss, quantised=quantised)
    assert read_tables(path) is None
    assert isinstance(open_model(str(path)), FastText)


def test_a_damaged_file_is_left_to_the_library(tmp_path: Path) -> None:
    whole = drawn(tmp_path / "model.ftz").read_bytes()
    for size in (0, 3, 60, 500, len(whole) // 2, len(whole) - 1):
        cut = tmp_path / f"{size}.ftz"
        cut.write_bytes(whole[:size])
        assert read_tables(cut) is None
