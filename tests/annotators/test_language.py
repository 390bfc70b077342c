"""Language by fastText, where its model is on this machine."""

import tarfile
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.language import Language
from dataplane.errors import ModelMissing, ParamsError
from dataplane.models import locate
from dataplane.settings import load_settings
from dataplane.testing import Example, conformance


@pytest.fixture(scope="module")
def language() -> Language:
    try:
        locate("lid.176", load_settings())
    except ModelMissing as error:
        pytest.skip(error.message)
    operator = Language()
    operator.open()
    return operator


def run(operator: Language, *texts: str) -> list[tuple[str, float]]:
    signals = operator.annotate(pa.record_batch({"text": pa.array(list(texts), pa.large_string())}))
    return list(zip(signals["lang"].to_pylist(), signals["score"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("The quick brown fox jumps over the lazy dog and runs away.", "en"),
        ("今天的天气非常好，我们决定一起去公园里散步，然后在湖边的小店吃午饭。", "zh"),
        ("Der schnelle braune Fuchs springt über den faulen Hund.", "de"),
        ("Быстрая коричневая лиса прыгает через ленивую собаку.", "ru"),
        ("吾輩は猫である。名前はまだ無い。", "ja"),
    ],
)
def test_languages_are_told_apart(language: Language, text: str, lang: str) -> None:
    ((found, score),) = run(language, text)
    assert found == lang
    assert 0.5 < score <= 1


@pytest.mark.parametrize("text", ["", " \n", "1234 5678", "!!! ??? ...", "\0\0"])
def test_text_without_letters_has_no_language(language: Language, text: str) -> None:
    assert run(language, text) == [("und", 0.0)]


def test_only_the_first_characters_are_looked_at(language: Language) -> None:
    english = "This is plain English text about nothing in particular. " * 40
    assert run(language, english + "这是中文" * 5000)[0][0] == "en"


def test_it_conforms(language: Language) -> None:
    german = "Der schnelle braune Fuchs springt über den faulen Hund."
    conformance(
        Language,
        params={"keep": ["en", "zh"]},
        examples=[
            Example("1234", {"low_confidence", "other_language"}),
            Example(german, {"other_language"}),
            Example("The quick brown fox jumps over the lazy dog and runs away."),
        ],
    )


def test_loading_the_model_prints_nothing(language: Language, capfd: pytest.CaptureFixture[str]) -> None:
    Language().open()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text", ["a\0b" * 400_000, "中" * 1_000_000, "\n" * 1_000_000 + "text", "\u202e" * 1000 + "hello there"], ids=lambda t: repr(t[:4])
)
def test_long_and_hostile_text_takes_little_time(language: Language, text: str) -> None:
    started = time.process_time()
    run(language, text)
    assert time.process_time() - started < 2


def test_parallel_problems_are_told_apart_in_both_languages(language: Language, shared_data: Path) -> None:
    """MGSM: 250 school problems of one to four sentences, each in English and in Chinese."""
    with tarfile.open(shared_data / "language/mgsm/mgsm.tar.xz") as archive:
        for code, least in (("en", 0.98), ("zh", 0.98), ("ja", 0.98), ("de", 0.98)):
            name = next(name for name in archive.getnames() if name.endswith(f"mgsm_{code}.tsv"))
            stream = archive.extractfile(name)
            problems = [line.split("\t")[0] for line in (stream.read() if stream else b"").decode().splitlines()]
            assert sum(found == code for found, _ in run(language, *problems)) / len(problems) >= least


def test_rules_follow_the_params(language: Language) -> None:
    rules = Language({"min_score": 0.3, "keep": ["en", "zh"]}).rules()
    assert rules == {"low_confidence": "language.score < 0.3", "other_language": "language.lang NOT IN ('en', 'zh')"}


def test_a_language_code_cannot_carry_sql() -> None:
    with pytest.raises(ParamsError):
        Language({"keep": ["en'); DROP TABLE documents; --"]})


def test_a_missing_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERRAPLANE_MODELS", str(tmp_path))
    with pytest.raises(ModelMissing) as error:
        _ = Language().op_id
    assert error.value.fix == "dataplane models fetch lid.176"
