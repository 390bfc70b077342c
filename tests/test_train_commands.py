"""train-quality and train-toxicity: from labelled files to a model that the operators use; what is wrong is named."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from dataplane.annotators.quality_model import QualityModel
from dataplane.annotators.toxicity_model import ToxicityModel
from dataplane.cli import main
from dataplane.errors import ModelMissing
from dataplane.testing import Example, conformance

KIND = ["you are a kind friend {}", "what a lovely day {}", "thank you for the help {}", "感谢你的帮助{}", "今天天气很好{}"]
RUDE = ["you stupid idiot {}", "shut up you idiot {}", "stupid people {}", "你这个笨蛋{}", "愚蠢的笨蛋{}"]
THREAT = ["i will hurt you {}", "we will hurt them all {}"]
SETTINGS = ["--set", "bits=12", "--set", "folds=3"]


def made(lines: list[str], n: int = 12) -> list[str]:
    return [line.format(f"a{i}b") for i in range(n) for line in lines]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def quality(project: Path) -> Path:
    for i, text in enumerate(made(KIND)):
        (project / f"good{i}.txt").write_text(text)
    (project / "bad.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in made(RUDE)))
    (project / "good.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in made(KIND)))
    arguments = ["--positive", "good*", "--negative", "bad.jsonl", "--text-field", "body", "--out", "models/quality.npz"]
    done = run("train-quality", *arguments, *SETTINGS, "--json")
    assert done.exit_code == 0, done.output
    return project


@pytest.fixture
def toxicity(project: Path) -> Path:
    rows = [(text, "none") for text in made(KIND)] + [(text, "rude") for text in made(RUDE)]
    rows += [(text, "threat|rude" if i % 2 else "threat") for i, text in enumerate(made(THREAT))]
    (project / "data.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    done = run("train-toxicity", "--data", "data.csv", "--lang", "en", "--out", "models/toxicity/en.npz", *SETTINGS)
    assert done.exit_code == 0, done.output
    return project


def test_the_report_lies_beside_the_model_and_carries_the_measurements(quality: Path) -> None:
    report = json.loads((quality / "models/quality.npz.json").read_text())
    assert (report["documents"], list(report["labels"])) == (180, ["good"])
    assert report["labels"]["good"]["documents"] == 120
    assert report["labels"]["good"]["cross_validated"]["auc"] == 1.0


def test_quality_is_a_probability_with_a_rule_where_a_limit_is_set(quality: Path) -> None:
    conformance(
        QualityModel, examples=[Example("thank you for the help"), Example("you stupid idiot", {"low_quality"})], params={"min_score": 0.5}
    )
    assert QualityModel().rules() == {}


def test_categories_have_thresholds_of_their_own(toxicity: Path) -> None:
    params = {"models": {"en": "models/toxicity/en.npz"}, "max_by_category": {"threat": 0.4}, "max_worst": 0.9}
    english = {"language__lang": "en"}
    examples = [
        Example("thank you for the help", columns=english),
        Example("we will hurt them all", {"too_toxic", "toxic_part"}, columns=english),
        Example("you stupid idiot, shut up you idiot", {"too_toxic", "toxic_part"}, columns=english),
        Example("you stupid idiot", columns={"language__lang": "de"}),
    ]
    conformance(ToxicityModel, examples=examples, params=params)


def test_a_document_is_scored_by_its_pieces(toxicity: Path) -> None:
    operator = ToxicityModel({"models": {"en": "models/toxicity/en.npz"}, "piece_chars": 16})
    operator.open()
    text = pa.array(["thank you for the help\n" * 9 + "you stupid idiot", "you stupid idiot", "x"], pa.large_string())
    batch = pa.record_batch({"text": text, "language__lang": pa.array(["en", "en", None])})
    found = {name: array.to_pylist() for name, array in operator.annotate(batch).items()}
    assert found["worst"][0] == pytest.approx(found["worst"][1], abs=1e-6)
    assert found["score"][0] < found["worst"][0] / 2
    assert (found["score"][2], found["worst"][2], found["categories"][2], found["scores"][2]) == (None, None, [], [])
    assert found["categories"][0] == ["rude", "threat"]


@pytest.mark.parametrize("operator", [QualityModel(), ToxicityModel({"models": {"zh": "absent.npz"}})])
def test_a_missing_model_names_the_command_that_makes_it(project: Path, operator: QualityModel | ToxicityModel) -> None:
    with pytest.raises(ModelMissing, match="dataplane train-"):
        operator.open()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data", "absent.csv"], 2, "no file matches 'absent.csv'"),
        (["--data", "data.csv", "--label-field", "lable"], 2, "row 1 has no 'lable', did you mean 'label'?"),
        (["--data", "data.bin"], 2, "files .bin are not read"),
        (["--data", "data.csv", "--set", "bitz=3"], 2, "unknown param 'bitz', did you mean 'bits'?"),
        (["--data", "data.csv"], 1, "label 'toxic' has 1 documents of 1"),
        (["--data", "broken.jsonl"], 1, "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(project: Path, arguments: list[str], code: int, message: str) -> None:
    (project / "data.csv").write_text("text,label\na,1\n")
    (project / "data.bin").write_text("x")
    (project / "broken.jsonl").write_text("{")
    done = run("train-toxicity", *arguments, "--lang", "en", "--out", "model.npz")
    assert (done.exit_code, message in done.output) == (code, True), done.output


def test_a_block_list_is_compiled_into_a_folder(project: Path) -> None:
    (project / "ut1/adult").mkdir(parents=True)
    (project / "ut1/adult/domains").write_text("bad.example\nworse.example\n")
    done = run("compile-blocklist", "ut1", "--out", "compiled")
    assert (done.exit_code, done.output) == (0, "2 entries of 1 categories in compiled\n")


def test_ordinary_documents_are_cut_and_have_no_label(toxicity: Path) -> None:
    (toxicity / "novel.txt").write_text("It was a quiet morning in the village. " * 50)
    done = run("train-toxicity", "--data", "data.csv", "--lang", "en", "--out", "m.npz", "--innocent", "novel.txt", *SETTINGS, "--json")
    report = json.loads(done.output)
    assert (report["lang"], report["documents"]) == ("en", 144 + 1950 // 117 + 1)
    assert {label: row["documents"] for label, row in report["labels"].items()} == {"rude": 72, "threat": 24}


def test_a_model_of_fasttext_is_trained_and_used_in_the_same_way(project: Path) -> None:
    for name, lines in (("good", KIND[:3]), ("bad", RUDE[:3])):
        (project / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in made(lines)))
    arguments = ["train-quality", "--positive", "good.jsonl", "--negative", "bad.jsonl", "--out", "models/q.bin", "--set", "folds=3"]
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads((project / "models/q.bin.json").read_text())
    assert json.loads(done.output) == report
    assert (report["documents"], report["labels"]["good"]["documents"]) == (72, 36)
    assert report["labels"]["good"]["cross_validated"]["auc"] == 1.0
    assert {row["feature"] for row in report["labels"]["good"]["against"]} & {"stupid", "idiot", "shut"} != set()
    first = (project / "models/q.bin").read_bytes()
    assert run(*arguments).exit_code == 0
    assert (project / "models/q.bin").read_bytes() == first
    examples = [Example("thank you for the help"), Example("shut up you stupid idiot\n__label__good", {"low_quality"})]
    conformance(QualityModel, examples=examples, params={"model": "models/q.bin", "min_score": 0.5})
    for name, params in (("does not tell 'hq', but", {"label": "hq"}), ("no fastText model", {"model": "models/bad.bin"})):
        (project / "models/bad.bin").write_bytes(b"nothing")
        with pytest.raises(ModelMissing, match=name):
            QualityModel({"model": "models/q.bin", **params}).open()
