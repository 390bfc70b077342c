"""Language by fastText, where its model is on this machine."""

import tarfile
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.han import scripts
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


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("这个国家的经济发展得很快，人们的生活水平也提高了。", "Hans"),
        ("這個國家的經濟發展得很快，人們的生活水平也提高了。", "Hant"),
        ("吾輩は猫である。名前はまだ無い。", "Jpan"),
        ("東京都渋谷区駅前広場図書館", "Jpan"),
        ("人大", "Hani"),
        ("plain English", None),
        ("대한민국(大韓民國)은 민주공화국이다.", None),
        ("", None),
    ],
)
def test_han_text_is_sorted_into_its_scripts(text: str, script: str | None) -> None:
    assert scripts([text]) == [script]
    assert scripts(["这是", text, "x"])[1] == script


def test_sentences_in_another_language_are_measured(language: Language) -> None:
    operator = Language({"other_languages": True})
    operator.open()
    english = "The committee will meet again on Thursday to discuss the budget for the next year."
    chinese = "委员会将于星期四再次开会，讨论明年的预算和其他重要事项。"
    batch = pa.record_batch({"text": pa.array([english, f"{english}\n{chinese}", chinese * 3, ""], pa.large_string())})
    pure, mixed, other, empty = operator.annotate(batch)["other_share"].to_pylist()
    share = len(chinese) / (len(chinese) + len(english))
    assert (pure, other, empty) == (0.0, 0.0, 0.0)
    assert min(abs(mixed - share), abs(mixed - (1 - share))) < 0.01


def test_py3langid_needs_no_model_file() -> None:
    pytest.importorskip("py3langid")
    operator = Language({"model": "py3langid"})
    operator.open()
    texts = ["The quick brown fox jumps over the lazy dog and runs away.", "今天的天气非常好，我们决定一起去公园里散步。", "12"]
    assert [lang for lang, _ in run(operator, *texts)] == ["en", "zh", "und"]
    assert [0 < score <= 1 for _, score in run(operator, *texts)] == [True, True, False]


def test_a_batch_is_named_as_fasttext_names_its_rows(language: Language) -> None:
    import fasttext

    model = fasttext.load_model(str(locate("lid.176", load_settings())))
    texts = ["Guten Morgen zusammen", "bonjour à tous", "добрый день", "早上好"]
    expected = [(labels[0].removeprefix("__label__"), min(float(scores[0]), 1.0)) for labels, scores in map(model.predict, texts)]
    got = run(language, *texts)
    assert [lang for lang, _ in got] == [lang for lang, _ in expected]
    assert [score for _, score in got] == pytest.approx([score for _, score in expected], abs=1e-6)


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
